"""Kernels that copy elements: conversions, joins, flips, triangles."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import FLOAT8, HOST_FLOAT8, NUMPY_OF
from adjoint.engine.backends.array.gpu.transfers import transfer
from adjoint.engine.backends.array.kernels.shape import repeats
from adjoint.engine.backends.array.kernels.shape.float8 import from_float8, to_float8
from adjoint.engine.backends.array.memory.joining import joined
from adjoint.engine.backends.array.memory.strides import copy_with, places_in_rows
from adjoint.engine.backends.array.table import lowers, on_device, row_major
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType, float32
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, large
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS
from adjoint.engine.ops.shape import convert, join, rearrange, triangular
from adjoint.engine.tensor.tensor import DTYPE_OF, wrap

Array = Any
Shape = tuple[int, ...]


THROUGH_FLOAT32 = (("float64", "float16"), ("float16", "bfloat16"))


# NumPy converts halves one by one, by their bits: float16 takes twenty times as long as the
# processor's own instruction, bfloat16 three times as long as vectors of words.
HALVES_AND_SINGLE = ({"float16", "float32"}, {"bfloat16", "float32"})
FRAGMENTS = large("plain") > 0  # whether there are any
MANY_HALVES = (
    1 << 12
)  # elements from which on a fragment, which costs some microseconds, is quicker


def _by_fragment(x: Array, dtype: DType) -> Array | None:
    """A conversion as a fragment (Note [fragments]); None where it is to be as it is."""
    if not CONTEXT.plain or LISTENERS or not FRAGMENTS or not x.flags.c_contiguous:
        return None
    out = HOOKS.fragments.forward(convert.CAST, (wrap(x),), {"dtype": dtype})
    return None if out is None else out._array


@lowers(convert.CAST)
def cast(xp: Any, x: Array, dtype: DType) -> Array:
    old, new = DTYPE_OF[x.dtype], NUMPY_OF[dtype]
    if on_device(xp):
        if x.dtype in HOST_FLOAT8:
            x = from_float8(xp, x)
            old = float32
        if new in FLOAT8:
            return to_float8(xp, x.real if old.is_complex else x, new)
    elif {old.name, dtype.name} in HALVES_AND_SINGLE and x.size >= MANY_HALVES:
        out = _by_fragment(x, dtype)
        if out is not None:
            return out
    if old.is_complex and not dtype.is_complex and dtype.name != "bool":
        x = x.real
    # As PyTorch goes, in two roundings; of float16 in one, in a tenth of the time.
    if old.name == "bfloat16" or (old.name, dtype.name) in THROUGH_FLOAT32:
        x = widened(xp, x, np.float32)
    if dtype.name == "uint8" and x.dtype.kind == "f":
        x = widened(xp, x, np.int64)  # so that what is out of range wraps around
    return copy_with(xp, x, "same", new)


def widened(xp: Any, x: Array, dtype: Any) -> Array:
    """A step on the way to another dtype; what an expanded array repeats keeps its place."""
    return x.astype(dtype) if on_device(xp) else copy_with(xp, x, "same", dtype)


@lowers(convert.TO_DEVICE)
def to_device(xp: Any, x: Array, device: Device, non_blocking: bool = False) -> Array:
    known = x.__class__ is np.ndarray or x.__class__ in DEVICE_LAYOUTS
    inverse = places_in_rows(x) if known else None
    if inverse is None:
        return transfer(x, device, non_blocking)
    order = sorted(range(x.ndim), key=inverse.__getitem__)
    return transfer(x.transpose(order), device, non_blocking).transpose(inverse)  # CuPy gives rows


@lowers(convert.CLONE)
def clone(xp: Any, x: Array, strides: Any = "same") -> Array:
    return copy_with(xp, x, strides)


@lowers(join.CAT)
def cat(xp: Any, *xs: Array, dim: int) -> Array:
    out = joined(xs, dim) if xp is np else None
    return xp.ascontiguousarray(xp.concatenate(xs, axis=dim)) if out is None else out


@lowers(join.STACK)
def stack(xp: Any, *xs: Array, dim: int) -> Array:
    if dim == 0 and xp is np:  # without a view of each
        if not xs[0].ndim:
            return np.array(xs, xs[0].dtype)
        return np.ascontiguousarray(np.concatenate(xs).reshape(len(xs), *xs[0].shape))
    apart = (slice(None),) * dim + (None,)
    return xp.ascontiguousarray(xp.concatenate([x[apart] for x in xs], axis=dim))


@lowers(rearrange.FLIP)
def flip(xp: Any, x: Array, dims: Shape) -> Array:
    if not dims:
        return copy_with(xp, x, "same")
    if xp is np and 1 not in x.shape and min(x.strides) > 0:
        out = np.empty_like(x)  # which lies as a copy would
    else:
        out = copy_with(xp, x, "same")
    out[...] = xp.flip(x, dims)
    return out


@lowers(rearrange.ROLL)
def roll(xp: Any, x: Array, shifts: Shape, dims: Shape) -> Array:
    return xp.ascontiguousarray(xp.roll(x, shifts, axis=dims))


@lowers(rearrange.REPEATED)
def repeated(xp: Any, counts: Array) -> Array:
    if on_device(xp) and counts.size:
        found = repeats.indices(xp, counts)
    elif counts.size and bool((counts < 0).any()):
        found = None
    else:
        found = repeat_indices(xp, counts, int(counts.sum()))
    if found is None:
        raise RuntimeError(rearrange.NEGATIVE_REPEATS)
    return found


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
    diagonal = min(max(diagonal, -x.shape[-2]), x.shape[-1])  # NumPy's sums may run over
    return row_major(xp, xp.tril(x, diagonal).astype(x.dtype, copy=False))  # CuPy widens bfloat16


@lowers(triangular.TRIU)
def triu(xp: Any, x: Array, diagonal: int) -> Array:
    diagonal = min(max(diagonal, -x.shape[-2]), x.shape[-1])  # NumPy's sums may run over
    return row_major(xp, xp.triu(x, diagonal).astype(x.dtype, copy=False))


@lowers(triangular.TRIANGLE_INDICES)
def triangle_indices(
    xp: Any, *, row: int, col: int, offset: int, lower: bool, dtype: DType, device: Any
) -> Array:
    if on_device(xp):
        count = triangular.triangle_count(row, col, offset, lower)
        out = xp.empty((2, count), np.int64)
        if count:
            _triangle(xp)(row, col, offset + lower, lower, out[0], out[1])
        return out.astype(NUMPY_OF[dtype], copy=False)
    rows = np.arange(row)
    edge = (rows + (offset + lower)).clip(0, col)  # of each row: what comes before it is below
    counts = edge if lower else col - edge
    ends = counts.cumsum()
    out = np.empty((2, int(ends[-1]) if row else 0), NUMPY_OF[dtype])
    out[0] = rows.repeat(counts)
    first = ends - counts if lower else ends - col  # the pair at which column 0 is, or would be
    np.subtract(np.arange(out.shape[1]), first.repeat(counts), out=out[1], casting="unsafe")
    return out


@lru_cache(maxsize=1)
def _triangle(xp: Any) -> Any:
    """Rows and columns from the number of each pair: nobody then waits for how many there are."""
    return xp.ElementwiseKernel(
        "int64 rows, int64 columns, int64 edge, bool lower",
        "int64 row, int64 column",
        """
        long long low = 0, high = rows - 1;
        while (low < high) {  // the last row that begins at or before this pair
            long long middle = (low + high + 1) / 2;
            long long before = before_diagonal(middle, columns, edge);
            if ((lower ? before : middle * columns - before) <= i) low = middle;
            else high = middle - 1;
        }
        long long before = before_diagonal(low, columns, edge);
        long long first = low + edge < 0 ? 0 : low + edge < columns ? low + edge : columns;
        row = low;
        column = lower ? i - before : first + i - (low * columns - before);
        """,
        "adjoint_triangle",
        preamble="""
        __device__ long long before_diagonal(long long row, long long col, long long offset) {
            long long empty = -offset < 0 ? 0 : -offset;
            if (empty > row) empty = row;
            long long growing = col - offset > empty ? col - offset : empty;
            if (growing > row) growing = row;
            long long sloped = (growing - empty) * offset
                + (growing * (growing - 1) - empty * (empty - 1)) / 2;
            return sloped + (row - growing) * col;
        }
        """,
    )
