"""Affine layers."""

from __future__ import annotations

from math import sqrt
from typing import Any

from adjoint.autodiff.modes import no_grad
from adjoint.core.dtype import DType
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter
from adjoint.ops.creation import empty
from adjoint.tensor.tensor import Tensor


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
        with no_grad():
            self.weight.uniform_(-bound, bound)
            if self.bias is not None:
                self.bias.uniform_(-bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
