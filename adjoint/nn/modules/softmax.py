"""Softmax and its kin as layers."""

from __future__ import annotations

from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module


class Softmax(Module):
    r"""$e^{x_i} / \sum_j e^{x_j}$ along `dim`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Softmax(dim=1)(ad.zeros(1, 2))
        tensor([[0.5000, 0.5000]])
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(Module):
    r"""Softmax of -x along `dim`.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Softmin(dim=0)(ad.tensor([1.0, 2.0]))
        tensor([0.7311, 0.2689])
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    r"""The logarithm of softmax along `dim`.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.LogSoftmax(dim=0)(ad.tensor([0.0, 0.0]))
        tensor([-0.6931, -0.6931])
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W).

    Shape:
        (N, C, H, W) or (C, H, W) -> the same shape; each position sums to one over C.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Softmax2d()(ad.zeros(2, 1, 2))[:, 0, 0]
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeValueError(
                f"Softmax2d: expected input to be 3D or 4D (got {input.ndim}D instead)"
            )
        return F.softmax(input, -3, _stacklevel=5)
