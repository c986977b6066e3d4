"""Order, places of extremes, running results and rearrangements as rows.

What kernels decide by PyTorch's own way with ties, or with NaN, fails in a row, which has the
kernel called.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.order import ties
from adjoint.engine.backends.array.kernels.order.search import FEW
from adjoint.engine.backends.llvm.small.operations import pick, reduce, select, ufunc_of, without
from adjoint.engine.backends.llvm.small.order import loops as order_loops
from adjoint.engine.backends.llvm.small.order.loops import DESCENDING, DISTINCT
from adjoint.engine.backends.llvm.small.rows import Array, NoRow, RowWriter, Spot, writes
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.elementwise import rounding
from adjoint.engine.ops.order import histogram, search, sort
from adjoint.engine.ops.reduce import extremes, product, reduction, scan
from adjoint.engine.ops.shape import rearrange, triangular

LONGEST = 64  # steps of a running result: each is a row
EXACT_COUNTS = 1 << 24  # elements whose number a float can tell

# -- order --------------------------------------------------------------------------------------


def along(w: RowWriter, name: str, x: Spot, places: Spot, dim: int, flags: int) -> Spot:
    """A row of a loop over whole rows, which lie along `dim`."""
    a, out = x.array, places.array
    if a.dtype.char not in order_loops.ELEMENTS or not a.dtype.isnative or not a.ndim:
        raise NoRow
    others = tuple([1 if d == dim else n for d, n in enumerate(a.shape)])
    loop = w.loop(f"{name}_{a.dtype.char}")
    own = (a.strides[dim], out.strides[dim])
    w.call(
        loop, [x, places], others, [without(a, dim), without(out, dim)], (a.shape[dim], flags), own
    )
    return places


def ordered(w: RowWriter, x: Spot, dim: int, flags: int) -> Spot:
    """The places of elements along a dimension, in order."""
    if not 0 < x.array.shape[dim] <= order_loops.LONGEST:
        raise NoRow
    places = w.scratch(np.empty(x.array.shape, np.int64))
    return along(w, "order", x, places, dim, flags)


def part(x: Spot, dim: int, start: int, stop: int) -> Spot:
    """Some of the elements along a dimension."""
    return x.seen(x.array[(slice(None),) * dim + (slice(start, stop),)])


@writes(sort.ARGSORT)
def write_argsort(
    w: RowWriter, out: Array, x: Spot, dim: int, descending: bool, stable: bool = True
) -> Spot:
    a = x.array
    by_pytorch = ties.in_sort(a.size, a.shape[dim] if a.ndim else 1, stable)
    flags = DESCENDING * descending + DISTINCT * by_pytorch
    return w.copy(ordered(w, x, dim, flags), w.scratch(out))


@writes(sort.TOPK)
def write_topk(
    w: RowWriter, out: Array, x: Spot, dim: int, k: int, largest: bool, in_order: bool
) -> Spot:
    if not k or not in_order:
        raise NoRow
    places = ordered(w, x, dim, DESCENDING * largest + DISTINCT)
    return w.copy(part(places, dim, 0, k), w.scratch(out))


@writes(sort.KTHVALUE)
def write_kthvalue(w: RowWriter, out: Array, x: Spot, dim: int, k: int) -> Spot:
    return w.copy(part(ordered(w, x, dim, DISTINCT), dim, k - 1, k), w.scratch(out))


@writes(sort.ARGMEDIAN)
def write_argmedian(w: RowWriter, out: Array, x: Spot, dim: int, omit: bool) -> Spot:
    middle = (x.array.shape[dim] - 1) // 2
    return w.copy(part(ordered(w, x, dim, DISTINCT), dim, middle, middle + 1), w.scratch(out))


@writes(sort.ARGMODE)
def write_argmode(w: RowWriter, out: Array, x: Spot, dim: int) -> Spot:
    if not 0 < x.array.shape[dim] <= ties.SHORT:  # of equals in longer ones PyTorch has an order
        raise NoRow
    return along(w, "mode", x, w.scratch(out), dim, 0)


@writes(sort.MEDIAN)
def write_median(
    w: RowWriter, out: Array, x: Spot, dims: tuple[int, ...], keepdim: bool, omit: bool
) -> Spot:
    if len(dims) != x.array.ndim:
        raise NoRow
    flat = x.array.reshape(-1)
    if not np.may_share_memory(flat, x.array):
        raise NoRow
    x, middle, place = x.seen(flat), (flat.size - 1) // 2, w.scratch(out)
    chosen = part(ordered(w, x, 0, DISTINCT), 0, middle, middle + 1)
    one = place.seen(place.array.reshape(1))
    name, size, step = f"gather{flat.itemsize}", flat.size, flat.strides[0]
    pick(w, name, [x, chosen, one], (1,), [[0], [0], [0]], size, step)
    return place


def writes_best(record: Record, flags: int) -> None:
    """The place of the largest, or the smallest."""

    @writes(record)
    def write_best(w: RowWriter, out: Array, x: Spot, dim: int, keepdim: bool) -> Spot:
        place = w.scratch(out)
        whole = place.seen(place.array if keepdim else np.expand_dims(place.array, dim))
        along(w, "best", x, whole, dim, flags)
        return place


writes_best(extremes.ARGMAX, DESCENDING)
writes_best(extremes.ARGMIN, 0)


@writes(search.SEARCHSORTED)
def write_searchsorted(w: RowWriter, out: Array, x: Spot, y: Spot, right: bool) -> Spot:
    sequence, values = x.array, y.array
    alike = sequence.dtype == values.dtype and sequence.dtype.isnative
    if sequence.ndim != 1 or not alike or sequence.dtype.char not in order_loops.ELEMENTS:
        raise NoRow
    if not values.flags.c_contiguous:  # which NumPy goes through in one go
        raise NoRow
    place, step, shape = w.scratch(out), sequence.strides[0], out.shape or (1,)
    steps = [(0,) * len(shape), *[a.reshape(shape).strides for a in (values, place.array)]]
    loop, sizes = w.loop(f"search_{sequence.dtype.char}"), (len(sequence), int(right))
    w.call(loop, [x, y, place], shape, steps, sizes, (step,))
    return place


@writes(search.ISIN)
def write_isin(w: RowWriter, out: Array, x: Spot, y: Spot) -> Spot:
    a, b = x.array, y.array
    alike = a.dtype == b.dtype and a.flags.c_contiguous and b.flags.c_contiguous
    if not alike or a.dtype.char not in order_loops.ELEMENTS or not 0 < a.size * b.size <= FEW:
        raise NoRow
    pairs = w.scratch(np.empty((a.size, b.size), bool))
    w.ufunc(np.equal, pairs, x.seen(a.reshape(-1, 1)), y.seen(b.reshape(-1)))
    found = reduce(w, np.logical_or, pairs, (1,), False, False)
    return found.seen(found.array.reshape(out.shape))


@writes(histogram.HISTC)
def write_histc(w: RowWriter, out: Array, x: Spot, low: Spot, high: Spot, bins: int) -> Spot:
    if out.dtype.char not in "fd" or x.array.size > EXACT_COUNTS:
        raise NoRow
    place = w.copy(w.constant(0, out.dtype), w.scratch(out))
    steps = [x.array.strides, (0,), (0,), (0,)]
    w.call(w.loop(f"count_{out.dtype.char}"), [x, low, high, place], x.array.shape, steps, (bins,))
    return place


# -- reductions and running results -------------------------------------------------------------


@writes(product.PROD)
def write_prod(w: RowWriter, out: Array, x: Spot, dims: tuple[int, ...], keepdim: bool) -> Spot:
    return reduce(w, np.multiply, x, dims, keepdim, 1)


@writes(reduction.ANY)
def write_any(w: RowWriter, out: Array, x: Spot, dims: tuple[int, ...], keepdim: bool) -> Spot:
    return reduce(w, np.logical_or, x, dims, keepdim, False)


@writes(reduction.ALL)
def write_all(w: RowWriter, out: Array, x: Spot, dims: tuple[int, ...], keepdim: bool) -> Spot:
    return reduce(w, np.logical_and, x, dims, keepdim, True)


def running(w: RowWriter, function: np.ufunc, out: Array, x: Spot, dim: int, reverse: bool) -> Spot:
    """Each element combined with the result before it."""
    n = x.array.shape[dim] if x.array.ndim else 0
    if not 0 < n <= LONGEST or x.array.dtype != out.dtype or out.dtype.char not in "fdlq":
        raise NoRow
    place = w.scratch(out)
    steps = [*range(n)][:: -1 if reverse else 1]
    first = steps[0]
    w.copy(part(x, dim, first, first + 1), part(place, dim, first, first + 1))
    for before, k in pairwise(steps):
        to, last = part(place, dim, k, k + 1), part(place, dim, before, before + 1)
        w.ufunc(function, to, last, part(x, dim, k, k + 1))
    return place


def writes_running(record: Record, function: np.ufunc) -> None:
    """A running sum or product."""

    @writes(record)
    def write_running(w: RowWriter, out: Array, x: Spot, dim: int, reverse: bool) -> Spot:
        if out.dtype.char != "f" or x.array.dtype != out.dtype:
            return running(w, function, out, x, dim, reverse)
        wide = w.copy(x, w.scratch(x.array, np.float64))  # as the array kernel goes on
        last = running(w, function, wide.array, wide, dim, reverse)
        return w.copy(last, w.scratch(out))


writes_running(scan.CUMSUM, np.add)
writes_running(scan.CUMPROD, np.multiply)


@writes(scan.CUMEXTREME)
def write_cumextreme(w: RowWriter, out: Array, x: Spot, dim: int, largest: bool) -> Spot:
    return along(w, "running_best", x, w.scratch(out), dim, DESCENDING * largest)


# -- rearrangements -----------------------------------------------------------------------------


@writes(rearrange.FLIP)
def write_flip(w: RowWriter, out: Array, x: Spot, dims: tuple[int, ...]) -> Spot:
    return w.copy(x.seen(np.flip(x.array, dims)) if dims else x, w.scratch(out))


@writes(rearrange.ROLL)
def write_roll(
    w: RowWriter, out: Array, x: Spot, shifts: tuple[int, ...], dims: tuple[int, ...] | None
) -> Spot:
    if dims is None or len(dims) != 1:
        raise NoRow
    (dim,), (shift,), n = dims, shifts, out.shape[dims[0]]
    place, start = w.scratch(out), shift % n
    for target, source in (((start, n), (0, n - start)), ((0, start), (n - start, n))):
        if target[0] < target[1]:
            w.copy(part(x, dim, *source), part(place, dim, *target))
    return place


def writes_triangle(record: Record, triangle: Any) -> None:
    """One part of matrices, zeros elsewhere."""

    @writes(record)
    def write_triangle(w: RowWriter, out: Array, x: Spot, diagonal: int) -> Spot:
        inside = triangle(np.ones(out.shape[-2:], bool), diagonal)
        zero = w.constant(0, out.dtype)
        return select(w, w.scratch(out), w.constant(inside, bool), x, zero)


writes_triangle(triangular.TRIL, np.tril)
writes_triangle(triangular.TRIU, np.triu)


# -- rounding -----------------------------------------------------------------------------------


def writes_rounding(record: Record, function: np.ufunc) -> None:
    """A rounding function of floats."""

    @writes(record)
    def write_rounding(w: RowWriter, out: Array, x: Spot) -> Spot:
        if x.array.dtype.char not in "fd":
            raise NoRow
        return ufunc_of(w, function, x)


writes_rounding(rounding.FLOOR, np.floor)
writes_rounding(rounding.CEIL, np.ceil)
writes_rounding(rounding.TRUNC, np.trunc)
writes_rounding(rounding.ROUND, np.rint)
