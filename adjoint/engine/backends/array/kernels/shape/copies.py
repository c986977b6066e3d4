"""Kernels that copy elements: conversions, joins, flips, triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import FLOAT8, HOST_FLOAT8, NUMPY_OF
from adjoint.engine.backends.array.gpu.transfers import transfer
from adjoint.engine.backends.array.kernels.order.device import bisect, on_device
from adjoint.engine.backends.array.kernels.shape.float8 import from_float8, to_float8
from adjoint.engine.backends.array.memory.strides import copy_with
from adjoint.engine.backends.array.table import lowers, row_major
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType, float32
from adjoint.engine.ops.shape import convert, join, rearrange, triangular
from adjoint.engine.tensor.tensor import DTYPE_OF

Array = Any
Shape = tuple[int, ...]


@lowers(convert.CAST)
def cast(xp: Any, x: Array, dtype: DType) -> Array:
    old, new = DTYPE_OF[x.dtype], NUMPY_OF[dtype]
    if on_device(xp):
        if x.dtype in HOST_FLOAT8:
            x = from_float8(xp, x)
            old = float32
        if new in FLOAT8:
            return to_float8(xp, x.real if old.is_complex else x, new)
    if old.is_complex and not dtype.is_complex and dtype.name != "bool":
        x = x.real
    if old.name == "bfloat16" or (old.name == "float64" and dtype.name == "float16"):
        x = x.astype(np.float32)  # as PyTorch goes, in two roundings
    if dtype.name == "uint8" and x.dtype.kind == "f":
        x = x.astype(np.int64)  # so that what is out of range wraps around
    if x.flags.c_contiguous:
        return x.astype(new)
    return copy_with(xp, x, "same", new)


@lowers(convert.TO_DEVICE)
def to_device(xp: Any, x: Array, device: Device, non_blocking: bool = False) -> Array:
    return transfer(x, device, non_blocking)


@lowers(convert.CLONE)
def clone(xp: Any, x: Array, strides: Any = "same") -> Array:
    return copy_with(xp, x, strides)


@lowers(join.CAT)
def cat(xp: Any, *xs: Array, dim: int) -> Array:
    return xp.ascontiguousarray(xp.concatenate(xs, axis=dim))


@lowers(join.STACK)
def stack(xp: Any, *xs: Array, dim: int) -> Array:
    apart = (slice(None),) * dim + (None,)
    return xp.ascontiguousarray(xp.concatenate([x[apart] for x in xs], axis=dim))


@lowers(rearrange.FLIP)
def flip(xp: Any, x: Array, dims: Shape) -> Array:
    out = copy_with(xp, x, "same")
    if dims:
        out[...] = xp.flip(x, dims)
    return out


@lowers(rearrange.ROLL)
def roll(xp: Any, x: Array, shifts: Shape, dims: Shape) -> Array:
    return xp.ascontiguousarray(xp.roll(x, shifts, axis=dims))


@lowers(rearrange.REPEAT_INDICES)
def repeat_indices(xp: Any, repeats: Array, total: int) -> Array:
    ends = xp.cumsum(repeats)
    if total != (int(ends[-1]) if ends.size else 0):
        raise RuntimeError(
            f"repeat_interleave: allocated size {total} does not match required size"
        )
    return xp.searchsorted(ends, xp.arange(total), side="right").astype(repeats.dtype)


@lowers(triangular.TRIL)
def tril(xp: Any, x: Array, diagonal: int) -> Array:
    return row_major(xp, xp.tril(x, diagonal).astype(x.dtype, copy=False))  # CuPy widens bfloat16


@lowers(triangular.TRIU)
def triu(xp: Any, x: Array, diagonal: int) -> Array:
    return row_major(xp, xp.triu(x, diagonal).astype(x.dtype, copy=False))


@lowers(triangular.TRIANGLE_INDICES)
def triangle_indices(
    xp: Any, *, row: int, col: int, offset: int, lower: bool, dtype: DType, device: Any
) -> Array:
    if on_device(xp) and row and col:
        return _rows_of_triangle(xp, row, col, offset, lower).astype(NUMPY_OF[dtype], copy=False)
    i, j = xp.arange(row)[:, None], xp.arange(col)[None, :]
    mask = j - i <= offset if lower else j - i >= offset
    return xp.stack(xp.nonzero(mask)).astype(NUMPY_OF[dtype])


def _rows_of_triangle(xp: Any, row: int, col: int, offset: int, lower: bool) -> Array:
    """The same from the number of each pair: on a GPU nobody then waits for how many there are."""
    edges = np.clip(np.arange(row) + offset + lower, 0, col)
    first, counts = (np.zeros_like(edges), edges) if lower else (edges, col - edges)
    ends = xp.asarray(np.cumsum(counts))
    begins = xp.asarray(first - np.cumsum(counts) + counts)
    number = xp.arange(int(counts.sum()))
    rows = bisect(xp, ends, number, right=True, nan_last=False)
    return xp.stack([rows, number + begins[rows]])
