"""Operators that move elements and change shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.onnx.open_sizes import sizes_of
from adjoint.onnx.reading import LARGEST, OnnxError
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import Value, integers, number


def bounded(shape: list[int], who: str) -> list[int]:
    """A shape that a file asks for, refused where it is absurd."""
    plain = [int(d) for d in shape]  # of open sizes, what they count as meanwhile
    if any(d < 0 for d in plain) or math.prod(plain) > LARGEST:
        raise OnnxError(
            f"onnx: {who}: a tensor of shape {tuple(shape)} is refused; at most {LARGEST} "
            "elements are made."
        )
    return shape


@operator("Identity")
def identity(x: Value) -> Value:
    """The value itself."""
    return x


@operator("Shape")
def shape(x: Value, *, start: int = 0, end: int | None = None) -> Value:
    """The sizes of a tensor, or some of them."""
    return sizes_of(x.shape[slice(start, end)], 1)


@operator("Size")
def size(x: Value) -> Value:
    """How many elements a tensor has."""
    return sizes_of([math.prod(x.shape)], 0)


@operator("Reshape", moves=True)
def reshape(x: Tensor, shape: Value, *, allowzero: int = 0, consumed_inputs: Any = None) -> Tensor:
    """Another shape; 0 keeps a size, -1 is what remains."""
    sizes = integers(shape)
    if not allowzero:
        sizes = [x.shape[k] if d == 0 else d for k, d in enumerate(sizes)]
    return x.reshape(sizes)


@operator("Flatten", moves=True)
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """Two dimensions: those before an axis, and the others."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Squeeze", moves=True)
def squeeze(x: Tensor, axes: Value = None) -> Tensor:
    """Without the dimensions of size one that are named."""
    if axes is None:
        return x.squeeze()
    drop = {a % x.ndim for a in integers(axes)}
    bad = [a for a in drop if x.shape[a] != 1]
    if bad:
        raise OnnxError(f"onnx: Squeeze: axes {bad} of shape {tuple(x.shape)} are not of size 1.")
    return x.reshape([d for k, d in enumerate(x.shape) if k not in drop])


@operator("Unsqueeze", moves=True)
def unsqueeze(x: Tensor, axes: Value) -> Tensor:
    """With further dimensions of size one."""
    places = integers(axes)
    rank = x.ndim + len(places)
    added = {a % rank for a in places}
    sizes = iter(x.shape)
    return x.reshape([1 if k in added else next(sizes) for k in range(rank)])


@operator("Transpose", moves=True)
def transpose(x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    """Dimensions in another order; reversed, if none is given."""
    return x.permute(perm if perm is not None else list(range(x.ndim))[::-1])


@operator("Concat", moves=True)
def concat(*values: Tensor, axis: int = 1) -> Tensor:
    """Tensors joined along an axis."""
    return ad.cat(list(values), axis)


@operator("Split", moves=True)
def split(
    x: Tensor,
    split: Value = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    call: NodeCall,
) -> tuple[Tensor, ...]:
    """Parts along an axis; equal ones, the last perhaps smaller, if sizes are not given."""
    length = x.shape[axis]
    if split is None:
        count = num_outputs or call.outputs
        size = -(-length // count)
        even = size * count == length
        sizes = [size if even else max(0, min(size, length - k * size)) for k in range(count)]
    else:
        sizes = integers(split)
    return tuple(ad.split(x, sizes, axis))


@operator("Slice", moves=True)
def slice_(
    x: Tensor, starts: Value, ends: Value, axes: Value = None, steps: Value = None
) -> Tensor:
    """Ranges along axes, with steps of either sign."""
    first, last = integers(starts), integers(ends)
    dims = list(range(len(first))) if axes is None else integers(axes)
    strides = [1] * len(first) if steps is None else integers(steps)
    for start, end, dim, step in zip(first, last, dims, strides, strict=True):
        if step == 0:
            raise OnnxError("onnx: Slice: a step is 0.")
        before = (slice(None),) * (dim % x.ndim)
        if step > 0:
            x = x[(*before, slice(start, end, step))]
        elif is_extent(x.shape[dim]) and start == -1 and end < -LARGEST:
            x = x.flip(dim)[(*before, slice(None, None, -step))]
        else:
            size = int(x.shape[dim])
            places = range(size)[_last(start, size, 0) : _last(end, size, None) : step]
            x = ad.index_select(x, dim, ad.tensor(list(places), dtype=ad.int64))
    return x


def _last(position: int, size: int, before: int | None) -> int | None:
    """A position of a slice that goes backwards, in Python's terms; `before` the first one."""
    position = position + size if position < 0 else position
    return before if position < 0 else min(position, size - 1)


@operator("Expand", moves=True)
def expand(x: Tensor, shape: Value) -> Tensor:
    """Broadcast with a shape."""
    wanted = ad.broadcast_shapes(tuple(x.shape), tuple(integers(shape)))
    return x.expand(wanted)


@operator("Tile", moves=True)
def tile(x: Tensor, repeats: Value) -> Tensor:
    """Copies along each axis."""
    times = integers(repeats)
    bounded([d * t for d, t in zip(x.shape, times, strict=True)], "Tile")
    return x.repeat(times)


@operator("DepthToSpace", moves=True)
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels laid out as blocks of pixels."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        parts = x.reshape(n, c // (b * b), b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    else:
        parts = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // (b * b), h * b, w * b)


@operator("SpaceToDepth", moves=True)
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels laid out as channels."""
    n, c, h, w = x.shape
    b = blocksize
    parts = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return parts.permute(*order).reshape(n, c * b * b, h // b, w // b)


@operator("Pad")
def pad(
    x: Tensor,
    pads: Value = None,
    constant_value: Value = None,
    axes: Value = None,
    *,
    mode: str = "constant",
    value: float = 0.0,
    paddings: Value = None,
) -> Tensor:
    """Elements added, or with negative amounts removed, at both ends of axes."""
    _refuse_unheld(x, "Pad")
    amounts = integers(pads if pads is not None else paddings)
    dims = list(range(x.ndim)) if axes is None else [a % x.ndim for a in integers(axes)]
    filling = value if constant_value is None else number(constant_value)
    for k, dim in enumerate(dims):
        x = _pad_one(x, dim, amounts[k], amounts[k + len(dims)], mode, filling)
    return x


def _refuse_unheld(x: Any, who: str) -> None:
    """Refuse elements that no tensor holds, where new ones have to be made."""
    if not isinstance(x, Tensor):
        raise NotImplementedError(f"onnx: {who} of {x.dtype} is not supported.")


def _pad_one(x: Tensor, dim: int, before: int, after: int, mode: str, filling: Any) -> Tensor:
    start, cut = max(-before, 0), max(-after, 0)
    if start or cut:
        x = x.narrow(dim, start, max(x.shape[dim] - start - cut, 0))
    before, after = max(before, 0), max(after, 0)
    if not before and not after:
        return x
    size = x.shape[dim]
    bounded([size + before + after, *x.shape[:dim], *x.shape[dim + 1 :]], "Pad")
    if mode == "constant":
        ends = [list(x.shape) for _ in range(2)]
        ends[0][dim], ends[1][dim] = before, after
        borders = [ad.full(s, filling, dtype=x.dtype, device=x.device) for s in ends]
        return ad.cat([borders[0], x, borders[1]], dim)
    if is_extent(size) and mode in _PADDED:
        rows = x.movedim(dim, -1)
        wide = F.pad(rows.reshape(1, -1, size), (before, after), _PADDED[mode])
        return wide.reshape(*rows.shape[:-1], size + before + after).movedim(-1, dim)
    size = int(size)
    positions = range(-before, size + after)
    period = max(2 * (size - 1), 1)
    places: Callable[[int], int] = {
        "edge": lambda p: min(max(p, 0), size - 1),
        "wrap": lambda p: p % size,
        "reflect": lambda p: min(p % period, period - p % period) if size > 1 else 0,
    }[mode]
    return ad.index_select(x, dim, ad.tensor([places(p) for p in positions], dtype=ad.int64))


_PADDED = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}


@operator("CenterCropPad")
def center_crop_pad(x: Tensor, shape: Value, *, axes: list[int] | None = None) -> Tensor:
    """Cropped or padded with zeros about the middle to given sizes."""
    _refuse_unheld(x, "CenterCropPad")
    dims = list(range(x.ndim)) if axes is None else axes
    for dim, wanted in zip(dims, integers(shape), strict=True):
        size = int(x.shape[dim])
        spare = wanted - size
        before = spare // 2 if spare >= 0 else -((-spare) // 2)
        x = _pad_one(x, dim % x.ndim, before, spare - before, "constant", 0)
    return x


@operator("ReverseSequence", moves=True)
def reverse_sequence(
    x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """The first so many elements of each sequence reversed."""
    moved = x.movedim((batch_axis, time_axis), (0, 1))
    time = ad.arange(moved.shape[1])[None, :]
    limit = lengths.long()[:, None]
    places = ad.where(time < limit, limit - 1 - time, time)
    rows = ad.arange(moved.shape[0])[:, None]
    return moved[rows, places].movedim((0, 1), (batch_axis, time_axis))
