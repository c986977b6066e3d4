"""Padding with a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import method, public
from adjoint.engine.core.result_layouts import as_images
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.common.arguments import ints
from adjoint.engine.ops.common.channels import (
    channels_last,
    channels_second,
    goes_by_channels,
)
from adjoint.engine.ops.create.creation import filled
from adjoint.engine.ops.shape.views import SLICE, scatter

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

# What programs move whole; pairs of numbers are two of them, others are rare.
PROGRAMMED = frozenset(
    {dt.bool_, dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64}
    | {dt.float16, dt.bfloat16, dt.float32, dt.float64}
)

Widths = Sequence[tuple[int, int]]


@method
def constant_pad(self: Tensor, widths: Widths, value: Any) -> Tensor:
    """`value` added before and after each dimension; a negative width cuts (used by rules)."""
    if _is_whole(self) and self.dtype in PROGRAMMED and type(value) in (int, float, bool):
        return CONSTANT_PAD(self, widths=tuple([tuple(pair) for pair in widths]), value=value)
    return _padded(self, widths, value)


def _is_whole(x: Tensor) -> bool:
    """Whether padding is one kernel: eager execution's, and that of its fragments on a GPU."""
    kind, capture = x._array.__class__, CONTEXT.capture
    if CONTEXT.settled:
        return kind is ndarray or kind in DEVICE_LAYOUTS
    return capture is not None and capture.keeps_strides and x.device.type == "cuda"


def _padded(self: Tensor, widths: Widths, value: Any) -> Tensor:
    """The same, as what is kept put into a tensor of the constant."""
    if goes_by_channels(self):
        return channels_second(_padded(channels_last(self), _last(widths), value))
    shape = self._array.shape
    new = [n + a + b for n, (a, b) in zip(shape, widths, strict=True)]
    if any(n < 0 for n in new):
        raise ShapeError(
            f"constant_pad_nd: the input of size {list(shape)}, plus padding {list(widths)}, "
            f"resulted in a negative output size {new}"
        )
    keep = tuple(
        [
            (max(-a, 0), max(n - max(-b, 0), max(-a, 0)), 1)
            for n, (a, b) in zip(shape, widths, strict=True)
        ]
    )
    inner = (
        self
        if all(k == (0, n, 1) for k, n in zip(keep, shape, strict=True))
        else SLICE(self, index=keep)
    )
    place = tuple(
        [
            (max(a, 0), max(a, 0) + n, 1)
            for n, (a, _) in zip(inner._array.shape, widths, strict=True)
        ]
    )
    strides = as_images([(tuple(shape), tuple(self.stride()))], tuple(new))
    whole = filled("pad", tuple(new), value, self.dtype, self.device, False, strides=strides)
    return scatter(whole, inner, (SLICE, {"index": place}))


def _last(widths: Widths) -> Widths:
    """Those of images (N, C, ...) for (N, ..., C)."""
    first, second, *others = widths
    return (first, *others, second)


def _by_channels(x: Tensor, widths: Widths, value: Any) -> Tensor:
    """Images whose channels lie innermost as rows of channels, by the kernel that pads rows."""
    return channels_second(CONSTANT_PAD(channels_last(x), widths=_last(widths), value=value))


def _cut(g: Tensor, widths: Widths) -> Tensor:
    """What comes back to the elements that were kept; none to those that were cut."""
    return g.constant_pad([(-before, -after) for before, after in widths], 0)


# Eager execution's: in graphs, what it is composed of is part of larger programs.
CONSTANT_PAD = composite(
    "constant_pad",
    lambda x, widths, value: _padded(x, widths, value),
    _cut,
    operands=("x",),
    fragment="plain",
    rounding="exact",
    keeps_layout="images",
    by_channels=_by_channels,
)


@public()
def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """Pad with a constant; `pad` lists (before, after) from the last dimension backwards."""
    widths = ints("constant_pad_nd", (pad,))
    if len(widths) % 2 or len(widths) > 2 * input.ndim:
        raise ShapeError(
            f"constant_pad_nd: length of pad must be even and no more than twice the number of "
            f"dimensions ({input.ndim}), received {len(widths)}"
        )
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)]
    outer = [(0, 0)] * (input.ndim - len(pairs))
    return input.constant_pad([*outer, *reversed(pairs)], value)
