"""Padding layers."""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import _ntuple


class _PadNd(Module):
    """Padding of the last `_rank` dimensions in one mode."""

    __constants__ = ["padding"]
    _rank: ClassVar[int]
    _mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._rank)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(Module):
    __constants__ = ["padding", "value"]
    _rank: ClassVar[int]

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._rank)(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A constant around the last 1 dimension.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.
        value: the constant.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ConstantPad1d(1, 3.5)(ad.zeros(1, 2)).shape
        adjoint.Size([1, 4])
    """

    _rank = 1


class ConstantPad2d(_ConstantPadNd):
    """A constant around the last 2 dimensions.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.
        value: the constant.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ConstantPad2d(1, 3.5)(ad.zeros(1, 2, 2)).shape
        adjoint.Size([1, 4, 4])
    """

    _rank = 2


class ConstantPad3d(_ConstantPadNd):
    """A constant around the last 3 dimensions.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.
        value: the constant.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ConstantPad3d(1, 3.5)(ad.zeros(1, 2, 2, 2)).shape
        adjoint.Size([1, 4, 4, 4])
    """

    _rank = 3


class ZeroPad1d(_ConstantPadNd):
    """Zeros around the last 1 dimension; see `ConstantPad1d`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ZeroPad1d(1)(ad.ones(1, 1, 2)).shape
        adjoint.Size([1, 1, 4])
    """

    _rank = 1

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(_ConstantPadNd):
    """Zeros around the last 2 dimensions; see `ConstantPad2d`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ZeroPad2d(1)(ad.ones(1, 1, 2, 2)).shape
        adjoint.Size([1, 1, 4, 4])
    """

    _rank = 2

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(_ConstantPadNd):
    """Zeros around the last 3 dimensions; see `ConstantPad3d`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ZeroPad3d(1)(ad.ones(1, 1, 2, 2, 2)).shape
        adjoint.Size([1, 1, 4, 4, 4])
    """

    _rank = 3

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """The inside reflected at its edges, around the last 1 dimension.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ReflectionPad1d(1)(ad.zeros(1, 1, 2)).shape
        adjoint.Size([1, 1, 4])
    """

    _rank = 1


class ReflectionPad2d(_ReflectionPadNd):
    """The inside reflected at its edges, around the last 2 dimensions.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ReflectionPad2d(1)(ad.zeros(1, 1, 2, 2)).shape
        adjoint.Size([1, 1, 4, 4])
    """

    _rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The inside reflected at its edges, around the last 3 dimensions.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ReflectionPad3d(1)(ad.zeros(1, 1, 2, 2, 2)).shape
        adjoint.Size([1, 1, 4, 4, 4])
    """

    _rank = 3


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """The edges repeated, around the last 1 dimension.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ReplicationPad1d(1)(ad.zeros(1, 1, 2)).shape
        adjoint.Size([1, 1, 4])
    """

    _rank = 1


class ReplicationPad2d(_ReplicationPadNd):
    """The edges repeated, around the last 2 dimensions.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ReplicationPad2d(1)(ad.zeros(1, 1, 2, 2)).shape
        adjoint.Size([1, 1, 4, 4])
    """

    _rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The edges repeated, around the last 3 dimensions.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ReplicationPad3d(1)(ad.zeros(1, 1, 2, 2, 2)).shape
        adjoint.Size([1, 1, 4, 4, 4])
    """

    _rank = 3


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        rank = self._rank
        if input.ndim not in (rank + 1, rank + 2):
            raise ShapeValueError(
                f"expected {rank + 1}D or {rank + 2}D input (got {input.ndim}D input)"
            )
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """The inside going round, around the last 1 dimension.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.CircularPad1d(1)(ad.zeros(1, 1, 2)).shape
        adjoint.Size([1, 1, 4])
    """

    _rank = 1


class CircularPad2d(_CircularPadNd):
    """The inside going round, around the last 2 dimensions.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.CircularPad2d(1)(ad.zeros(1, 1, 2, 2)).shape
        adjoint.Size([1, 1, 4, 4])
    """

    _rank = 2


class CircularPad3d(_CircularPadNd):
    """The inside going round, around the last 3 dimensions.

    Args:
        padding: an int, or (before, after) of each dimension, the last first.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.CircularPad3d(1)(ad.zeros(1, 1, 2, 2, 2)).shape
        adjoint.Size([1, 1, 4, 4, 4])
    """

    _rank = 3
