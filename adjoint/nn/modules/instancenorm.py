"""Instance normalisation, under PyTorch's module path."""

from adjoint.nn.modules.batchnorm import InstanceNorm1d as InstanceNorm1d
from adjoint.nn.modules.batchnorm import InstanceNorm2d as InstanceNorm2d
from adjoint.nn.modules.batchnorm import InstanceNorm3d as InstanceNorm3d
from adjoint.nn.modules.batchnorm import LazyInstanceNorm1d as LazyInstanceNorm1d
from adjoint.nn.modules.batchnorm import LazyInstanceNorm2d as LazyInstanceNorm2d
from adjoint.nn.modules.batchnorm import LazyInstanceNorm3d as LazyInstanceNorm3d
from adjoint.nn.modules.batchnorm import _InstanceNorm as _InstanceNorm
