"""Array kernels that search and tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.order import choosing, device
from adjoint.engine.backends.array.kernels.order import rows as row_kernels
from adjoint.engine.backends.array.kernels.order.sort import ascending
from adjoint.engine.backends.array.kernels.reduce.reduction import part, widen
from adjoint.engine.backends.array.kernels.reduce.scan import accumulate
from adjoint.engine.backends.array.table import lowers, on_device, row_major
from adjoint.engine.ops.order import hashing, search, sort, unique
from adjoint.engine.tensor.tensor import wrap

Array = Any


@lowers(search.SEARCHSORTED)
def searchsorted(xp: Any, sequence: Array, values: Array, right: bool) -> Array:
    sequence, values = widen(sequence), widen(values)
    if xp is np and sequence.ndim == 1 and sequence.size <= FEW and is_in_order(sequence):
        found = np.searchsorted(sequence, values, side="right" if right else "left")
        return np.asarray(found).astype(np.int64)
    return bisect(xp, sequence, values, right)


def is_in_order(sequence: Array) -> bool:
    """Whether NumPy's places are anybody's: it takes other steps if not, or if there is a NaN."""
    ends = sequence[:1]
    return bool((sequence[1:] >= sequence[:-1]).all() and (ends == ends).all())


def bisect(xp: Any, sequence: Array, values: Array, right: bool) -> Array:
    """A binary search in all rows at once, or in the only one."""
    if on_device(xp):
        return device.bisect(xp, sequence, values, right)
    n = sequence.shape[-1]
    low = xp.zeros(values.shape, dtype=np.int64)
    high = xp.full(values.shape, n, dtype=np.int64)
    if n == 0:
        return low
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        at = xp.minimum(middle, n - 1)
        probe = sequence[at] if sequence.ndim == 1 else xp.take_along_axis(sequence, at, -1)
        # Written so that a NaN is passed by, and goes to the end.
        later = (~(probe > values) if right else ~(probe >= values)) & (low < high)
        low = xp.where(later, middle + 1, low)
        high = xp.where(later | (low >= high), high, middle)
    return low


FEW = 1 << 12  # pairs that are compared sooner than elements are put in order


@lowers(search.ISIN)
def isin(xp: Any, x: Array, y: Array) -> Array:
    x, y = widen(x), widen(y)
    common = np.result_type(x.dtype, y.dtype)
    if xp is np and x.size * y.size <= FEW:
        pairs = x.astype(common, copy=False).reshape(-1, 1) == y.astype(common, copy=False).ravel()
        return np.logical_or.reduce(pairs, axis=1).reshape(x.shape)
    return xp.asarray(xp.isin(x.astype(common, copy=False), y.astype(common, copy=False)))


@lowers(unique.UNIQUE)
def unique_(xp: Any, x: Array, dim: int | None) -> tuple[Array, ...]:
    if dim is None:
        return _distinct(xp, x)
    if xp is not np and x.size:
        return distinct_rows(xp, x, dim)
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
    if on_device(xp) and flat.size and x.dtype.kind != "c":
        return _distinct_on_device(xp, x)
    if xp is np and flat.size < sort.ARGSORT.large:
        order = widen(flat).argsort(kind="stable")
        line, size = flat[order], flat.size
        fresh = np.empty(size, bool)
        fresh[:1] = True
        np.not_equal(line[1:], line[:-1], fresh[1:])
        (starts,) = fresh.nonzero()
        many = starts.size
        bounds = np.empty(many + 1, np.int64)
        bounds[:many], bounds[many] = starts, size
        counts = bounds[1:] - bounds[:-1]
        inverse = np.empty(x.shape, np.int64)
        inverse.reshape(-1)[order] = np.arange(many).repeat(counts)
        return line[starts], inverse, counts
    order = sort.ARGSORT(wrap(flat), dim=0, descending=False, stable=True)._array
    values, runs, counts = unique_consecutive(xp, flat.take(order), None)
    inverse = xp.empty(flat.shape, dtype=np.int64)
    inverse[order] = runs
    return values, inverse.reshape(x.shape), counts


def _distinct_on_device(xp: Any, x: Array) -> tuple[Array, ...]:
    flat = widen(x).reshape(-1)
    flat = flat.view(np.uint8) if flat.dtype == bool else flat
    order = ascending(xp, flat, 0)
    values, inverse, counts = choosing.runs(xp, flat.take(order), order)
    return values.astype(x.dtype, copy=False), inverse.reshape(x.shape), counts


@lowers(unique.UNIQUE_VALUES)
def unique_values(xp: Any, x: Array, neighbours: bool = False) -> Array:
    if xp is np and (neighbours or x.dtype.kind in "biu"):  # equal integers are alike
        if neighbours or x.itemsize > 1:
            line = x.reshape(-1) if neighbours else np.sort(x, axis=None)
        else:
            found = np.bincount(x.reshape(-1).view(np.uint8), minlength=256).nonzero()[0]
            return np.sort(found.astype(np.uint8).view(x.dtype))
        fresh = np.ones(line.shape, bool)
        np.not_equal(line[1:], line[:-1], out=fresh[1:])
        return line[fresh]
    if xp is np and x.dtype.kind == "f" and x.size < sort.ARGSORT.large:
        line = np.sort(widen(x), axis=None, kind="stable")  # of 0.0 and -0.0 the first one stays
        fresh = np.ones(line.shape, bool)
        np.not_equal(line[1:], line[:-1], out=fresh[1:])
        return line[fresh].astype(x.dtype, copy=False)
    if not on_device(xp) or x.dtype.kind == "c":
        return (unique_consecutive if neighbours else unique_)(xp, x, None)[0]
    flat = widen(x).reshape(-1)
    flat = flat.view(np.uint8) if flat.dtype == bool else flat
    line = xp.ascontiguousarray(flat) if neighbours else xp.sort(flat)
    return choosing.distinct(xp, line).astype(x.dtype, copy=False)


def distinct_rows(xp: Any, x: Array, dim: int) -> tuple[Array, ...]:
    """The distinct slices along a dimension, in the order of their elements.

    Neighbouring columns become one, of the ranks of their pairs, until one is left: twice the work
    of sorting every column, all of them at once. CuPy's own goes through the columns one by one.
    """
    n = x.shape[dim]
    rows = xp.ascontiguousarray(xp.moveaxis(widen(x), dim, 0)).reshape(n, -1)
    if rows.dtype.kind == "c":
        rows = rows.view(rows.real.dtype)
    if on_device(xp) and row_kernels.are_for_kernels(rows):
        order = row_kernels.ordered(xp, rows)
        fresh = row_kernels.that_differ(xp, rows, order)
        first, inverse, counts = choosing.marked_runs(xp, fresh, order)
        return taken_along(xp, x, first, dim), inverse, counts
    ranks = dense_ranks(xp, rows)
    while ranks.shape[1] > 1:
        if ranks.shape[1] % 2:
            ranks = xp.concatenate([ranks, xp.zeros((n, 1), np.int64)], axis=1)
        ranks = dense_ranks(xp, ranks[:, ::2] * n + ranks[:, 1::2])
    inverse = ranks[:, 0]
    order = xp.argsort(inverse, kind="stable") if xp is np else xp.argsort(inverse)
    _, _, counts = unique_consecutive(xp, inverse[order], None)
    first = order[xp.cumsum(counts) - counts]
    return taken_along(xp, x, first, dim), inverse, counts


def taken_along(xp: Any, x: Array, places: Array, dim: int) -> Array:
    """Slices along a dimension, which lie one after another, as NumPy's distinct ones do."""
    return xp.moveaxis(xp.take(xp.moveaxis(x, dim, 0), places, axis=0), 0, dim)


def dense_ranks(xp: Any, columns: Array) -> Array:
    """Of each element, how many lesser ones its column has; each NaN is one of its own."""
    order = xp.argsort(columns, axis=0, kind="stable") if xp is np else xp.argsort(columns, axis=0)
    ordered = xp.take_along_axis(columns, order, 0)
    above = xp.zeros(columns.shape, np.int64)
    above[1:] = xp.cumsum(ordered[1:] != ordered[:-1], axis=0)
    return xp.take_along_axis(above, xp.argsort(order, axis=0), 0)


@lowers(unique.UNIQUE_CONSECUTIVE)
def unique_consecutive(xp: Any, x: Array, dim: int | None) -> tuple[Array, ...]:
    axis = 0 if dim is None else dim
    rows = x.reshape(-1) if dim is None else x
    n = rows.shape[axis]
    if on_device(xp) and dim is None and n and x.dtype.kind != "c":
        line = xp.ascontiguousarray(widen(rows))
        line = line.view(np.uint8) if line.dtype == bool else line
        values, inverse, counts = choosing.runs(xp, line)
        values = values.view(bool) if x.dtype == bool else values.astype(x.dtype, copy=False)
        return values, inverse.reshape(x.shape), counts
    if on_device(xp) and dim is not None and rows.size:
        flat = xp.ascontiguousarray(xp.moveaxis(widen(rows), axis, 0)).reshape(n, -1)
        flat = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
        if row_kernels.are_for_kernels(flat):
            fresh = row_kernels.that_differ(xp, flat)
            starts, inverse, counts = choosing.marked_runs(xp, fresh, None)
            return taken_along(xp, rows, starts, axis), inverse, counts
    fresh = xp.empty(n, dtype=bool)
    fresh[:1] = True
    if dim is None:
        xp.not_equal(rows[1:], rows[:-1], out=fresh[1:])
    else:
        flat = xp.moveaxis(rows, axis, 0).reshape(n, -1) if rows.size else rows.reshape(n, 0)
        fresh[1:] = (flat[1:] != flat[:-1]).any(axis=1)
    (starts,) = fresh.nonzero()
    inverse = fresh.astype(np.int64)  # which takes less than to convert while adding
    inverse[:1] = 0
    inverse.cumsum(out=inverse)
    counts = xp.empty(starts.shape, np.int64)
    xp.subtract(starts[1:], starts[:-1], out=counts[:-1])
    counts[-1:] = n - starts[-1:]
    if dim is None:
        return rows.take(starts), inverse.reshape(x.shape), counts
    return taken_along(xp, rows, starts, axis), inverse, counts


@lowers(hashing.HASH_TENSOR)
def hash_tensor(xp: Any, x: Array, dims: tuple[int, ...], keepdim: bool) -> Array:
    bits = xp.ascontiguousarray(x).view(np.int64).reshape(x.shape)
    for d in dims:
        n = bits.shape[d]
        if n == 0:
            bits = xp.zeros([1 if i == d else k for i, k in enumerate(bits.shape)], np.int64)
            continue
        bits = part(accumulate(xp, "bitwise_xor", bits, d), d, n - 1, n)
    shape = bits.shape if keepdim else [n for d, n in enumerate(x.shape) if d not in dims]
    return row_major(xp, bits.reshape(shape))
