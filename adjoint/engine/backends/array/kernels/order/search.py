"""Array kernels that search and tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.reduce.reduction import part, widen
from adjoint.engine.backends.array.kernels.reduce.scan import accumulate
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.ops.order import hashing, search, sort, unique
from adjoint.engine.tensor.tensor import wrap

Array = Any


@lowers(search.SEARCHSORTED)
def searchsorted(xp: Any, sequence: Array, values: Array, right: bool) -> Array:
    sequence, values = widen(sequence), widen(values)
    if sequence.ndim == 1:
        side = "right" if right else "left"
        return xp.asarray(xp.searchsorted(sequence, values, side=side)).astype(np.int64)
    return _bisect(xp, sequence, values, right)


def _bisect(xp: Any, sequence: Array, values: Array, right: bool) -> Array:
    """A binary search in all rows at once."""
    n = sequence.shape[-1]
    low = xp.zeros(values.shape, dtype=np.int64)
    high = xp.full(values.shape, n, dtype=np.int64)
    if n == 0:
        return low
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        probe = xp.take_along_axis(sequence, xp.minimum(middle, n - 1), -1)
        # Written so that a NaN value goes to the end.
        later = (~(probe > values) if right else ~(probe >= values)) & (low < high)
        low = xp.where(later, middle + 1, low)
        high = xp.where(later | (low >= high), high, middle)
    return low


@lowers(search.ISIN)
def isin(xp: Any, x: Array, y: Array) -> Array:
    x, y = widen(x), widen(y)
    common = np.result_type(x.dtype, y.dtype)
    return xp.asarray(xp.isin(x.astype(common, copy=False), y.astype(common, copy=False)))


@lowers(unique.UNIQUE)
def unique_(xp: Any, x: Array, dim: int | None) -> tuple[Array, ...]:
    if dim is None:
        return _distinct(xp, x)
    values, inverse, counts = xp.unique(
        widen(x), return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    if x.shape[dim] == 0:
        values = x
    return (
        values.astype(x.dtype, copy=False),
        inverse.reshape(x.shape[dim]).astype(np.int64, copy=False),
        counts.astype(np.int64, copy=False),
    )


def _distinct(xp: Any, x: Array) -> tuple[Array, ...]:
    """The distinct of all elements, by their order, which large tensors get from a fragment."""
    flat = x.reshape(-1)
    order = sort.ARGSORT(wrap(flat), dim=0, descending=False, stable=True)._array
    values, runs, counts = unique_consecutive(xp, flat.take(order), None)
    inverse = xp.empty(flat.shape, dtype=np.int64)
    inverse[order] = runs
    return values, inverse.reshape(x.shape), counts


@lowers(unique.UNIQUE_CONSECUTIVE)
def unique_consecutive(xp: Any, x: Array, dim: int | None) -> tuple[Array, ...]:
    axis = 0 if dim is None else dim
    rows = x.reshape(-1) if dim is None else x
    n = rows.shape[axis]
    flat = xp.moveaxis(rows, axis, 0).reshape(n, -1) if rows.size else rows.reshape(n, 0)
    fresh = xp.ones(n, dtype=bool)
    changed = flat[1:] != flat[:-1]
    fresh[1:] = changed[:, 0] if dim is None and rows.size else changed.any(axis=1)
    starts = xp.nonzero(fresh)[0]
    inverse = (xp.cumsum(fresh) - 1).astype(np.int64)
    counts = xp.diff(xp.concatenate([starts, xp.asarray([n])])).astype(np.int64)
    values = xp.take(rows, starts, axis=axis)
    return values, inverse.reshape(x.shape) if dim is None else inverse, counts


@lowers(hashing.HASH_TENSOR)
def hash_tensor(xp: Any, x: Array, dims: tuple[int, ...], keepdim: bool) -> Array:
    bits = xp.ascontiguousarray(x).view(np.int64).reshape(x.shape)
    for d in dims:
        n = bits.shape[d]
        if n == 0:
            bits = xp.zeros([1 if i == d else k for i, k in enumerate(bits.shape)], np.int64)
            continue
        bits = part(accumulate(xp, "bitwise_xor", bits, d), d, n - 1, n)
    return bits if keepdim else bits.reshape([n for d, n in enumerate(x.shape) if d not in dims])
