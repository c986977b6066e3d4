"""PyTorch's names of layers between quantised tensors."""

from adjoint.quantization.modules.static import DeQuantize as DeQuantize
from adjoint.quantization.modules.static import QFunctional as QFunctional
from adjoint.quantization.modules.static import Quantize as Quantize
from adjoint.quantization.modules.static import QuantizedConv as Conv1d
from adjoint.quantization.modules.static import QuantizedConv as Conv2d
from adjoint.quantization.modules.static import QuantizedConv as Conv3d
from adjoint.quantization.modules.static import QuantizedLinear as Linear
from adjoint.quantization.modules.weight_only import WeightOnlyEmbedding as Embedding
from adjoint.quantization.stubs import FloatFunctional as FloatFunctional

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "DeQuantize",
    "Embedding",
    "FloatFunctional",
    "Linear",
    "QFunctional",
    "Quantize",
]
