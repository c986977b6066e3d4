"""PyTorch's names of layers that round their inputs as they come."""

from adjoint.quantization.modules.dynamic import DynamicLinear as Linear

__all__ = ["Linear"]
