"""PyTorch's path to the class."""

from adjoint.engine.tensor.tensor import Tensor as Tensor
