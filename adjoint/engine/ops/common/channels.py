"""Images whose channels lie innermost, computed with in the order in which they lie.

As rows of channels they are one matrix, or images in another order, that lies row by row: loops go
along memory, and what they make is where it has to be. So it is only where an operation is recorded
for operands that lie so (`graph.eager.recorded`): in larger programs values lie row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.engine.core.layout import last_strides
from adjoint.engine.core.state.context import CONTEXT

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

_INTEGERS = frozenset({int})


def has_channels_innermost(x: Tensor) -> bool:
    """Whether a tensor is of images whose several channels lie innermost, without gaps."""
    shape, strides = tuple(x._array.shape), tuple(x.stride())
    if len(shape) not in (4, 5) or not _INTEGERS.issuperset(map(type, (*shape, *strides))):
        return False
    return shape[1] > 1 and strides[1] == 1 and strides == last_strides(shape)


def goes_by_channels(x: Tensor) -> bool:
    """Whether such a tensor is the CPU's, in a recording of an operation on it."""
    capture = CONTEXT.capture
    if capture is None or not capture.keeps_strides or x.device.type != "cpu":
        return False
    return has_channels_innermost(x)


def channels_last(x: Tensor) -> Tensor:
    """(N, C, ...) as (N, ..., C)."""
    return x.permute(0, *range(2, x.ndim), 1)


def channels_second(x: Tensor) -> Tensor:
    """(N, ..., C) as (N, C, ...)."""
    return x.permute(0, x.ndim - 1, *range(1, x.ndim - 1))


def rows_of_channels(x: Tensor) -> Tensor:
    """(N, C, ...) as (N ..., C)."""
    return channels_last(x).reshape((-1, x.shape[1]))


def images_of_rows(rows: Tensor, like: Tensor) -> Tensor:
    """The reverse, of a tensor of this shape."""
    batch, channels, *sizes = like.shape
    return channels_second(rows.reshape((batch, *sizes, channels)))
