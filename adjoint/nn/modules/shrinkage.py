"""Activations that put small values to zero, or to a given value."""

from __future__ import annotations

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module


class Hardshrink(Module):
    r"""x, but zero within `lambd` of zero.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Hardshrink(0.5)(ad.tensor([-1.0, 0.2, 2.0]))
        tensor([-1.,  0.,  2.])
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    r"""x moved towards zero by `lambd`.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Softshrink(0.5)(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.5000,  0.0000,  1.5000])
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Tanhshrink(Module):
    r"""$x - \tanh x$.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Tanhshrink()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.2384,  0.0000,  1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Threshold(Module):
    r"""x where above `threshold`, `value` elsewhere.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Threshold(0.5, 9.0)(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([9., 9., 2.])
    """

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (
            ", inplace=True" if self.inplace else ""
        )
