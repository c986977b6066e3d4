"""PyTorch's names of the same under training."""

from adjoint.quantization.modules.qat import QAT_CONVOLUTIONS as _CONVOLUTIONS
from adjoint.quantization.modules.qat import QATLinearReLU as LinearReLU
from adjoint.quantization.modules.qat import freeze_bn_stats as freeze_bn_stats
from adjoint.quantization.modules.qat import update_bn_stats as update_bn_stats

ConvReLU1d, ConvReLU2d, ConvReLU3d = (_CONVOLUTIONS[rank, False, True] for rank in (1, 2, 3))
ConvBn1d, ConvBn2d, ConvBn3d = (_CONVOLUTIONS[rank, True, False] for rank in (1, 2, 3))
ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d = (_CONVOLUTIONS[rank, True, True] for rank in (1, 2, 3))

__all__ = [
    "ConvBn1d",
    "ConvBn2d",
    "ConvBn3d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvBnReLU3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "LinearReLU",
    "freeze_bn_stats",
    "update_bn_stats",
]
