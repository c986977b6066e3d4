"""Affine layers."""

from __future__ import annotations

from math import sqrt
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.modules.lazy import LazyModuleMixin
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter, UninitializedParameter


class Identity(Module):
    """Gives back its input, whatever it was constructed with.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Identity(54, unused=True)(ad.ones(1))
        tensor([1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    r"""An affine map of the last dimension: $y = x A^T + b$.

    Weight and bias start uniform within $1/\sqrt{\text{in\_features}}$ of zero.

    Args:
        in_features: size of each input.
        out_features: size of each output.
        bias: whether to add $b$.

    Shape:
        (..., in_features) -> (..., out_features)

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Linear(20, 30)(ad.randn(128, 20)).shape
        adjoint.Size([128, 30])
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Parameter

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / sqrt(self.in_features) if self.in_features > 0 else 0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under another name: attention's output projection, in PyTorch's module trees."""


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear whose `in_features` is the size of the first input's last dimension.

    Args:
        out_features: size of each output.
        bias: whether to add a bias.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.LazyLinear(4)(ad.randn(2, 7)).shape
        adjoint.Size([2, 4])
    """

    cls_to_become = Linear
    weight: UninitializedParameter
    bias: Any

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once there is a shape."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the input's last size."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # the shapes came from a state dict
            self.in_features = self.weight.shape[-1]


class Bilinear(Module):
    r"""A bilinear map of two inputs: $y = x_1^T A x_2 + b$.

    Weight and bias start uniform within $1/\sqrt{\text{in1\_features}}$ of zero.

    Args:
        in1_features: size of each first input.
        in2_features: size of each second input.
        out_features: size of each output.
        bias: whether to add $b$.

    Shape:
        (..., in1_features), (..., in2_features) -> (..., out_features)

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Bilinear(20, 30, 40)(ad.randn(128, 20), ad.randn(128, 30)).shape
        adjoint.Size([128, 40])
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]
    weight: Parameter

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
