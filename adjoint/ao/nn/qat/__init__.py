"""PyTorch's names of layers that feel the rounding of their weights."""

from adjoint.quantization.modules.qat import QAT_CONVOLUTIONS as _CONVOLUTIONS
from adjoint.quantization.modules.qat import QATLinear as Linear

Conv1d, Conv2d, Conv3d = (_CONVOLUTIONS[rank, False, False] for rank in (1, 2, 3))

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Linear"]
