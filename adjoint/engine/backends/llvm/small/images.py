"""Convolutions and pooling as rows: the same steps as their kernels in `array/kernels/image`."""

from __future__ import annotations

from itertools import product as indices
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.image.convolution import (
    BLOCK_CPU,
    channels_first,
    fitting,
    padded,
    tap_slices,
    windows,
)
from adjoint.engine.backends.array.kernels.image.pooling import geometry
from adjoint.engine.backends.array.kernels.image.resample import FEW, SMALL, layers
from adjoint.engine.backends.llvm.small.operations import pick, product, select, without
from adjoint.engine.backends.llvm.small.rows import Array, NoRow, RowWriter, Spot, writes
from adjoint.engine.backends.llvm.small.rows import written as written
from adjoint.engine.ops.image import convolution as ops
from adjoint.engine.ops.image.fold import FOLD_WINDOWS, UNFOLD_WINDOWS
from adjoint.engine.ops.image.pooling import MAX_POOL
from adjoint.engine.ops.image.resample import RESAMPLE, Rule

Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
COLUMNS = 1 << 14  # elements of columns: beyond, NumPy copies faster


def view_of(place: Spot, array: Array) -> Spot:
    """A place seen as an array that must be a view of it."""
    if array.size and not np.may_share_memory(array, place.array):
        raise NoRow
    return place.seen(array)


def in_rows(w: RowWriter, x: Spot) -> Spot:
    """A copy whose elements lie row after row."""
    return w.copy(x, w.scratch(np.empty(x.array.shape, x.array.dtype)))


def within(w: RowWriter, x: Spot, pads: Pairs, value: Any = 0) -> Spot:
    """x with its last dimensions padded, or cut. What is around it is written once."""
    wide = padded(np, x.array, pads, value)
    if np.may_share_memory(wide, x.array):
        return x.seen(wide)
    if any(a < 0 or b < 0 for a, b in pads):
        raise NoRow
    place = w.scratch(wide)
    place.array[...] = value
    lead = wide.ndim - len(pads)
    inner = [slice(a, a + n) for n, (a, _) in zip(x.array.shape[lead:], pads, strict=True)]
    w.copy(x, place.seen(place.array[(Ellipsis, *inner)]))
    return place


def columns_of(
    w: RowWriter,
    x: Spot,
    kernel: Shape,
    stride: Shape,
    dilation: Shape,
    counts: Shape,
    groups: int,
) -> Spot:
    """The windows of all examples side by side, (groups, channels and taps, places)."""
    rank, n = len(stride), x.array.shape[0]
    view = windows(np, x.array, kernel, stride, dilation, counts)
    turned = view.transpose((*range(1, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank)))
    if turned.size > COLUMNS or turned.size > BLOCK_CPU:
        raise NoRow
    place = in_rows(w, x.seen(turned))
    return place.seen(place.array.reshape((groups, -1, n * prod(counts))))


def require_plain(x: Spot, y: Spot) -> None:
    """Refuse what kernels treat otherwise."""
    if x.array.dtype != y.array.dtype or x.array.dtype.char not in "fd" or 0 in y.array.shape:
        raise NoRow


@writes(ops.CONVOLUTION)
def write_convolution(
    w: RowWriter, out: Array, x: Spot, y: Spot, stride: Shape, padding: Pairs, dilation: Shape,
    groups: int,
) -> Spot:  # fmt: skip
    require_plain(x, y)
    kernel, outputs = y.array.shape[2:], y.array.shape[0]
    if y.array.shape[1] == 1 and groups > 1:
        raise NoRow
    x = within(w, x, padding)
    counts = fitting(x.array.shape[2:], kernel, stride, dilation)
    weight = view_of(y, y.array.reshape((groups, outputs // groups, -1)))
    columns = columns_of(w, x, kernel, stride, dilation, counts, groups)
    block = product(w, weight, columns)
    block = block.seen(block.array.reshape((outputs, x.array.shape[0], *counts)))
    return w.copy(block.seen(channels_first(block.array)), w.scratch(out))


@writes(ops.CONVOLUTION_TRANSPOSE)
def write_convolution_transpose(
    w: RowWriter, out: Array, x: Spot, y: Spot, stride: Shape, padding: Pairs, dilation: Shape,
    groups: int,
) -> Spot:  # fmt: skip
    require_plain(x, y)
    kernel, counts, n = y.array.shape[2:], x.array.shape[2:], x.array.shape[0]
    spans = zip(counts, kernel, stride, dilation, strict=True)
    sizes = [(m - 1) * s + d * (k - 1) + 1 for m, k, s, d in spans]
    channels, inputs = y.array.shape[1] * groups, y.array.shape[0] // groups
    if n * channels * prod(kernel) * prod(counts) > COLUMNS:
        raise NoRow
    weight = view_of(y, y.array.reshape((groups, inputs, -1)).swapaxes(1, 2))
    turned = in_rows(w, x.seen(channels_first(x.array)))
    columns = product(w, weight, turned.seen(turned.array.reshape((groups, inputs, -1))))
    columns = columns.seen(columns.array.reshape((channels, *kernel, n, *counts)))
    total = w.scratch(np.empty((n, channels, *sizes), out.dtype))
    w.copy(w.constant(0, out.dtype), total)
    target = total.seen(channels_first(total.array))
    for tap in indices(*map(range, kernel)):
        where = (slice(None), slice(None), *tap_slices(tap, stride, dilation, counts))
        part = target.seen(target.array[where])
        w.ufunc(np.add, part, part, columns.seen(columns.array[(slice(None), *tap)]))
    back = tuple([(-a, -b) for a, b in padding])
    return w.copy(within(w, total, back), w.scratch(out))


@writes(UNFOLD_WINDOWS)
def write_unfold(
    w: RowWriter, out: Array, x: Spot, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Spot:
    x = within(w, x, padding)
    counts = fitting(x.array.shape[2:], kernel, stride, dilation)
    return in_rows(w, x.seen(windows(np, x.array, kernel, stride, dilation, counts)))


@writes(FOLD_WINDOWS)
def write_fold(
    w: RowWriter, out: Array, x: Spot, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Spot:
    require_plain(x, x)
    counts, lead = x.array.shape[2 + len(kernel) :], x.array.shape[:2]
    spans = zip(counts, kernel, stride, dilation, strict=True)
    sizes = [(m - 1) * s + d * (k - 1) + 1 for m, k, s, d in spans]
    total = w.scratch(np.empty((*lead, *sizes), out.dtype))
    w.copy(w.constant(0, out.dtype), total)
    every = (slice(None), slice(None))
    for tap in indices(*map(range, kernel)):
        part = total.seen(total.array[(*every, *tap_slices(tap, stride, dilation, counts))])
        w.ufunc(np.add, part, part, x.seen(x.array[(*every, *tap)]))
    back = tuple([(-a, -b) for a, b in padding])
    return w.copy(within(w, total, back), w.scratch(out))


@writes(ops.CONVOLUTION_WEIGHT)
def write_convolution_weight(
    w: RowWriter, out: Array, x: Spot, y: Spot, stride: Shape, padding: Pairs, dilation: Shape,
    groups: int,
) -> Spot:  # fmt: skip
    require_plain(x, y)
    counts, outputs = y.array.shape[2:], y.array.shape[1]
    x = within(w, x, padding)
    spans = zip(x.array.shape[2:], counts, stride, dilation, strict=True)
    kernel = tuple([(m - (o - 1) * s - 1) // d + 1 for m, o, s, d in spans])
    columns = columns_of(w, x, kernel, stride, dilation, counts, groups)
    turned = in_rows(w, y.seen(channels_first(y.array)))
    block = turned.seen(turned.array.reshape((groups, outputs // groups, -1)))
    products = product(w, block, columns.seen(columns.array.swapaxes(1, 2)))
    total = w.scratch(products.array)
    w.ufunc(np.add, total, w.constant(0, out.dtype), products)  # the kernel adds to zeros
    return total.seen(total.array.reshape(out.shape))


@writes(MAX_POOL)
def write_max_pool(
    w: RowWriter, outs: tuple[Array, Array], x: Spot, windows: tuple[Rule, ...]
) -> tuple[Spot, Spot]:
    shape, dtype = geometry(windows), x.array.dtype
    if not shape.regular or dtype.char not in "fd" or shape.outside:
        raise NoRow
    counts = tuple([r[2] for r in windows])
    lead = x.array.ndim - len(windows)
    pads = []
    for _, source, size, extent, stride, offset, spread in windows:
        end = (size - 1) * stride + offset + spread * (extent - 1) + 1
        pads.append((-offset, max(end - source, 0)))
    wide = within(w, x, tuple(pads), -np.inf)
    steps, spreads = (tuple([r[k] for r in windows]) for k in (4, 6))
    best = w.scratch(outs[0])
    chosen, better = w.scratch(outs[0], np.dtype(np.int64)), w.scratch(outs[0], np.dtype(bool))
    missing = w.scratch(outs[0], np.dtype(bool))
    w.copy(w.constant(-np.inf, dtype), best)
    w.copy(w.constant(shape.first, np.int64), chosen)
    for number, tap in enumerate(shape.taps):
        where = (*[slice(None)] * lead, *tap_slices(tap, steps, spreads, counts))
        candidate = wide.seen(wide.array[where])
        w.ufunc(np.greater, better, candidate, best)
        w.ufunc(np.not_equal, missing, candidate, candidate)
        w.ufunc(np.logical_or, better, better, missing)
        w.ufunc(np.maximum, best, best, candidate)
        # Taps come in ascending order, so the last that was better has the largest number.
        select(w, chosen, better, w.constant(number, np.int64), chosen)
    at = w.scratch(chosen.array)
    away, places = w.constant(shape.steps, np.int64), w.constant(shape.starts, np.int64)
    own = [[0] * at.array.ndim, [*chosen.array.strides], [*at.array.strides]]
    pick(w, "gather8", [away, chosen, at], at.array.shape, own, len(shape.steps), 8)
    return best, w.ufunc(np.add, at, at, places)


@writes(RESAMPLE)
def write_resample(
    w: RowWriter, out: Array, x: Spot, dim: int, rule: Rule, transposed: bool
) -> Spot:
    a = x.array
    if a.dtype.char not in "fd":
        raise NoRow
    total = w.scratch(np.empty(out.shape, out.dtype))
    w.copy(w.constant(0, out.dtype), total)
    before = (slice(None),) * dim
    for t, layer in enumerate(layers(rule, transposed, FEW if a.size > SMALL else 2)):
        if isinstance(layer, list):
            for to, source, weight in layer:
                part = total.seen(total.array[(*before, to)])
                term = scaled(w, x.seen(a[(*before, source)]), weight)
                if t:
                    w.ufunc(np.add, part, part, term)
                else:
                    w.copy(term, part)
            continue
        to, source, weights = layer
        term = w.scratch(np.empty((*a.shape[:dim], len(source), *a.shape[dim + 1 :]), a.dtype))
        picks = w.constant(source.reshape((-1, *(1,) * (a.ndim - dim - 1))), np.int64)
        along_picks = [0] * a.ndim
        along_picks[dim] = 8
        own = [without(a, dim), along_picks, [*term.array.strides]]
        size = a.shape[dim]
        name = f"gather{a.itemsize}"
        pick(w, name, [x, picks, term], term.array.shape, own, size, a.strides[dim])
        if (weights != 1).any():
            factors = weights.astype(a.dtype).reshape((-1, *(1,) * (a.ndim - dim - 1)))
            w.ufunc(np.multiply, term, term, w.constant(factors, a.dtype))
        if len(to) != out.shape[dim]:
            for k, o in enumerate(to.tolist()):
                part = total.seen(total.array[(*before, slice(o, o + 1))])
                w.ufunc(np.add, part, part, term.seen(term.array[(*before, slice(k, k + 1))]))
        elif t:
            w.ufunc(np.add, total, total, term)
        else:
            w.copy(term, total)
    return total


def scaled(w: RowWriter, term: Spot, weight: float) -> Spot:
    """A term times its weight."""
    if weight == 1:
        return term
    place = w.scratch(np.empty(term.array.shape, term.array.dtype))
    return w.ufunc(np.multiply, place, term, w.constant(weight, term.array.dtype))
