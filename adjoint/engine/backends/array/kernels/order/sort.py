"""Array kernels that put elements in order."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.order import radix, ties
from adjoint.engine.backends.array.kernels.reduce.reduction import part, widen
from adjoint.engine.backends.array.kernels.reduce.scan import accumulate
from adjoint.engine.backends.array.table import lowers, lowers_on_gpu, on_device, row_major
from adjoint.engine.ops.order import sort

Array = Any


def ascending(xp: Any, x: Array, dim: int) -> Array:
    """A stable argsort, NaN last."""
    if xp is np:
        return np.argsort(x, axis=dim, kind="stable")
    if radix.is_line(xp, x, dim):
        return radix.order(xp, x)
    return xp.argsort(x, axis=dim)  # CuPy's is stable


@lowers(sort.ARGSORT)
def argsort(xp: Any, x: Array, dim: int, descending: bool, stable: bool = True) -> Array:
    if radix.is_line(xp, x, dim):
        return radix.order(xp, x, descending)
    x = widen(x)
    if xp is np and ties.in_sort(x.size, x.shape[dim], stable):
        order = argsort(xp, x, dim, descending)
        tied = repeated(np.take_along_axis(x, order, dim), dim)
        return settle(x, order, tied, dim, lambda row: ties.ordered(row, descending))
    if not descending:
        return ascending(xp, x, dim).astype(np.int64, copy=False)
    backwards = xp.flip(ascending(xp, xp.flip(x, axis=dim), dim), axis=dim)
    return (x.shape[dim] - 1 - backwards).astype(np.int64, copy=False)


@lowers_on_gpu(sort.SORT)
def sorted_whole(
    xp: Any, x: Array, dim: int, descending: bool, stable: bool = True
) -> tuple[Array, Array]:
    if radix.is_line(xp, x, dim):
        return radix.ordered(xp, x, descending)
    at = argsort(xp, x, dim, descending, stable)
    return xp.take_along_axis(x, at, dim), at


@lowers(sort.TOPK)
def topk(xp: Any, x: Array, dim: int, k: int, largest: bool, in_order: bool) -> Array:
    x = widen(x)
    n = x.shape[dim]
    as_pytorch = xp is np and ties.in_topk(x.size, n, k)
    few = xp is np and 0 < k * 4 <= n and n >= 64
    if few and not as_pytorch and not missing(x):
        chosen = np.moveaxis(_few(np.moveaxis(x, dim, -1), k, largest), -1, dim)
        order = argsort(xp, np.take_along_axis(x, chosen, dim), dim, descending=largest)
        return np.take_along_axis(chosen, order, dim)
    order = argsort(xp, x, dim, descending=largest)
    best = part(order, dim, None, k).copy()
    if not as_pytorch:
        return best
    seen = np.take_along_axis(x, part(order, dim, None, k + 1), dim)
    tied = repeated(seen, dim) if in_order else np.ones_like(part(x, dim, 0, 1), dtype=bool)
    return settle(x, best, tied, dim, lambda row: ties.select_top(row, k, largest, in_order))


def repeated(ordered: Array, dim: int) -> Array:
    """Rows of sorted elements in which two are equal."""
    before, after = part(ordered, dim, None, -1), part(ordered, dim, 1, None)
    same = before == after
    if ordered.dtype.kind == "f":
        same |= np.isnan(before) & np.isnan(after)
    return same.any(axis=dim, keepdims=True)


def settle(x: Array, positions: Array, tied: Array, dim: int, choose: Any) -> Array:
    """`positions` positions, chosen again in the rows where they are `tied`."""
    if not tied.any():
        return positions
    out = np.moveaxis(positions.copy(), dim, -1)
    rows = np.moveaxis(x, dim, -1)
    again = np.moveaxis(tied, dim, -1)[..., 0]
    for at in np.ndindex(again.shape):
        if again[at]:
            out[at] = choose(rows[at].tolist())
    return np.moveaxis(out, -1, dim)


def tied_at(x: Array, positions: Array, dim: int) -> Array:
    """Rows in which the element found is not the only one of its value."""
    value = np.take_along_axis(x, positions, dim)
    same = x == value
    if x.dtype.kind == "f":
        same |= np.isnan(x) & np.isnan(value)
    return same.sum(axis=dim, keepdims=True) > 1


def _few(x: Array, k: int, largest: bool) -> Array:
    """Positions of the k best of each row of many, first ones first, without a full sort."""
    n = x.shape[-1]
    bound = part(
        np.partition(x, n - k if largest else k - 1, axis=-1),
        x.ndim - 1,
        *((n - k, n - k + 1) if largest else (k - 1, k)),
    )
    better = x > bound if largest else x < bound
    room = k - better.sum(axis=-1, keepdims=True)
    equal = x == bound
    if (equal.sum(axis=-1, keepdims=True) > room).any():
        equal &= np.cumsum(equal, axis=-1) <= room
    taken = better | equal
    return np.nonzero(taken)[-1].reshape(*x.shape[:-1], k)


def missing(x: Array) -> bool:
    """Whether there is a NaN."""
    return x.dtype.kind == "f" and bool(np.isnan(x).any())


def nth(xp: Any, x: Array, dim: int, k: int) -> Array:
    """The position of the k-th element (from 0) of each row in a stable ascending order."""
    if xp is not np or missing(x):
        positions = part(ascending(xp, x, dim), dim, k, k + 1)
        return xp.ascontiguousarray(positions).astype(np.int64, copy=False)
    value = part(np.partition(x, k, axis=dim), dim, k, k + 1)
    equal = x == value
    if (equal.sum(axis=dim) == 1).all():
        return np.argmax(equal, axis=dim, keepdims=True)
    before = (x < value).sum(axis=dim, keepdims=True)
    return np.argmax(np.cumsum(equal, axis=dim) == k - before + 1, axis=dim, keepdims=True)


@lowers(sort.KTHVALUE)
def kthvalue(xp: Any, x: Array, dim: int, k: int) -> Array:
    x = widen(x)
    positions = nth(xp, x, dim, k - 1)
    if xp is not np or not ties.in_kthvalue(x.size):
        return positions
    return settle(
        x, positions, tied_at(x, positions, dim), dim, lambda row: ties.quick_select(row, k - 1)
    )


@lowers(sort.ARGMEDIAN)
def argmedian(xp: Any, x: Array, dim: int, omit: bool) -> Array:
    if radix.is_line(xp, x, dim):
        return radix.middle(xp, x, omit)[0].reshape((1,) * x.ndim)
    x = widen(x)
    n = x.shape[dim]
    if not missing(x):
        return nth(xp, x, dim, (n - 1) // 2)
    absent = xp.isnan(x).sum(axis=dim, keepdims=True)
    middle = xp.maximum(n - absent - 1, 0) // 2 if omit else xp.full_like(absent, (n - 1) // 2)
    if not omit:  # the first NaN stands right after the numbers
        middle = xp.where(absent > 0, n - absent, middle)
    return xp.take_along_axis(ascending(xp, x, dim), middle, dim).astype(np.int64, copy=False)


@lowers(sort.MEDIAN)
def median(xp: Any, x: Array, dims: tuple[int, ...], keepdim: bool, omit: bool) -> Array:
    if on_device(xp) and len(dims) == x.ndim and radix.is_line(xp, line := x.reshape(-1), 0):
        return radix.middle(xp, line, omit)[1].reshape((1,) * x.ndim if keepdim else ())
    others = [d for d in range(x.ndim) if d not in dims]
    rows = [x.shape[d] for d in others]
    shape = [1 if d in dims else n for d, n in enumerate(x.shape)] if keepdim else rows
    n = prod(x.shape[d] for d in dims)
    flat = x.transpose((*others, *dims)).reshape((*rows, n))
    wide, last = widen(flat), len(rows)
    if missing(wide):
        out = xp.take_along_axis(flat, argmedian(xp, wide, last, omit), last)
    else:
        middle = (n - 1) // 2
        out = part(xp.partition(wide, middle, axis=last), last, middle, middle + 1)
    return out.reshape(shape).astype(x.dtype, copy=False)


@lowers(sort.ARGMODE)
def argmode(xp: Any, x: Array, dim: int) -> Array:
    x = widen(x)
    last = x.ndim - 1  # dimensions change places, which takes less than to move one
    order = argsort(xp, x, dim, descending=False, stable=False).swapaxes(dim, last)
    values = xp.take_along_axis(x.swapaxes(dim, last), order, -1)
    n = values.shape[-1]
    steps = xp.arange(n)
    starts = xp.concatenate(
        [xp.ones_like(values[..., :1], dtype=bool), values[..., 1:] != values[..., :-1]], axis=-1
    )
    # How far each sorted element is into its run of equals; the first longest run wins.

    into = steps - accumulate(xp, "maximum", xp.where(starts, steps, 0), values.ndim - 1)
    end = xp.argmax(into, axis=-1, keepdims=True)
    at = xp.take_along_axis(order, end, -1).swapaxes(last, dim)
    return row_major(xp, at.astype(np.int64, copy=False))
