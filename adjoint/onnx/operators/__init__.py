"""The operators of ONNX, a file to a subject; importing this fills the table."""

from adjoint.onnx.operators import attention as attention
from adjoint.onnx.operators import convolution as convolution
from adjoint.onnx.operators import creation as creation
from adjoint.onnx.operators import detection as detection
from adjoint.onnx.operators import elementwise as elementwise
from adjoint.onnx.operators import flow as flow
from adjoint.onnx.operators import indexing as indexing
from adjoint.onnx.operators import learning as learning
from adjoint.onnx.operators import losses as losses
from adjoint.onnx.operators import normalization as normalization
from adjoint.onnx.operators import pooling as pooling
from adjoint.onnx.operators import products as products
from adjoint.onnx.operators import quantized as quantized
from adjoint.onnx.operators import recurrent as recurrent
from adjoint.onnx.operators import reductions as reductions
from adjoint.onnx.operators import resizing as resizing
from adjoint.onnx.operators import sequences as sequences
from adjoint.onnx.operators import shapes as shapes
from adjoint.onnx.operators import signals as signals
from adjoint.onnx.operators import strings as strings
from adjoint.onnx.operators import training as training
