"""Normalisation that keeps no statistics: over features, or over groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.local_response import CrossMapLRN2d as CrossMapLRN2d
from adjoint.nn.modules.local_response import LocalResponseNorm as LocalResponseNorm
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter


class _Affine(Module):
    """A weight that starts at ones and a bias that starts at zeros, each perhaps absent."""

    weight: Parameter | None
    bias: Parameter | None

    def _make_affine(
        self, shape: Any, weight: bool, bias: bool, device: Any, dtype: DType | None
    ) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            parameter = Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        with no_grad():
            if self.weight is not None:
                self.weight.fill_(1)
            if getattr(self, "bias", None) is not None:
                self.bias.zero_()  # type: ignore[union-attr]


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, Integral):  # NumPy's, too
        return (int(normalized_shape),)
    return tuple(normalized_shape)  # type: ignore[arg-type]


class LayerNorm(_Affine):
    r"""Zero mean and unit variance over the last dimensions.

    $y = \frac{x - E[x]}{\sqrt{Var[x] + \epsilon}} \gamma + \beta$

    Args:
        normalized_shape: the sizes of those dimensions.
        eps: added to the variance.
        elementwise_affine: whether there is a weight $\gamma$, of `normalized_shape`.
        bias: whether, with it, there is a $\beta$.

    Shape:
        (..., *normalized_shape) -> the same

    Example:
        >>> import adjoint as ad
        >>> ad.nn.LayerNorm(2)(ad.tensor([[1.0, 3.0]])).detach()
        tensor([[-1.0000,  1.0000]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        on = elementwise_affine
        self._make_affine(self.normalized_shape, on, on and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    r"""Division by the root of the mean square over the last dimensions.

    $y = \frac{x}{\sqrt{E[x^2] + \epsilon}} \gamma$

    Args:
        normalized_shape: the sizes of those dimensions.
        eps: by default the smallest step from 1 in the input's dtype.
        elementwise_affine: whether there is a weight $\gamma$.

    Shape:
        (..., *normalized_shape) -> the same

    Example:
        >>> import adjoint as ad
        >>> ad.nn.RMSNorm(4)(ad.tensor([2.0, 2.0, 2.0, 2.0]))
        tensor([1., 1., 1., 1.], grad_fn=<RmsNormBackward0>)
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = empty(self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", Parameter(weight) if elementwise_affine else None)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """Zero mean and unit variance over each group of channels of each sample.

    Args:
        num_groups: how many groups the channels are divided into.
        num_channels: divisible by `num_groups`.
        eps: added to the variance.
        affine: whether there is a weight and a bias per channel.

    Shape:
        (N, num_channels, ...) -> the same

    Example:
        >>> import adjoint as ad
        >>> ad.nn.GroupNorm(3, 6)(ad.randn(20, 6, 10, 10)).shape
        adjoint.Size([20, 6, 10, 10])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: num_channels ({num_channels}) must be divisible by num_groups "
                f"({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_affine(num_channels, affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
