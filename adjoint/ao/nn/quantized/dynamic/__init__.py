"""PyTorch's names of layers that round their inputs as they come."""

from adjoint.quantization.modules.dynamic import CalledLinear as Linear
from adjoint.quantization.modules.recurrent import DynamicGRU as GRU
from adjoint.quantization.modules.recurrent import DynamicGRUCell as GRUCell
from adjoint.quantization.modules.recurrent import DynamicLSTM as LSTM
from adjoint.quantization.modules.recurrent import DynamicLSTMCell as LSTMCell
from adjoint.quantization.modules.recurrent import DynamicRNNCell as RNNCell

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "Linear", "RNNCell"]
