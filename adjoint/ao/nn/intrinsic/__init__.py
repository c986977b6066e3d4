"""PyTorch's names of layers that are one for quantisation."""

from adjoint.quantization.modules.intrinsic import BNReLU2d as BNReLU2d
from adjoint.quantization.modules.intrinsic import BNReLU3d as BNReLU3d
from adjoint.quantization.modules.intrinsic import ConvBn1d as ConvBn1d
from adjoint.quantization.modules.intrinsic import ConvBn2d as ConvBn2d
from adjoint.quantization.modules.intrinsic import ConvBn3d as ConvBn3d
from adjoint.quantization.modules.intrinsic import ConvBnReLU1d as ConvBnReLU1d
from adjoint.quantization.modules.intrinsic import ConvBnReLU2d as ConvBnReLU2d
from adjoint.quantization.modules.intrinsic import ConvBnReLU3d as ConvBnReLU3d
from adjoint.quantization.modules.intrinsic import ConvReLU1d as ConvReLU1d
from adjoint.quantization.modules.intrinsic import ConvReLU2d as ConvReLU2d
from adjoint.quantization.modules.intrinsic import ConvReLU3d as ConvReLU3d
from adjoint.quantization.modules.intrinsic import LinearBn1d as LinearBn1d
from adjoint.quantization.modules.intrinsic import LinearReLU as LinearReLU
