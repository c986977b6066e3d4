"""Array kernels that put elements in order."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from adjoint.backends.array.reduction import widen
from adjoint.backends.array.scan import accumulate, part
from adjoint.backends.array.table import lowers
from adjoint.ops import sort

Array = Any


def ascending(xp: Any, x: Array, dim: int) -> Array:
    """A stable argsort, NaN last."""
    if xp is np:
        return np.argsort(x, axis=dim, kind="stable")
    return xp.argsort(x, axis=dim)  # CuPy's is stable


@lowers(sort.ARGSORT)
def argsort(xp: Any, x: Array, dim: int, descending: bool) -> Array:
    x = widen(x)
    if not descending:
        return ascending(xp, x, dim).astype(np.int64, copy=False)
    backwards = xp.flip(ascending(xp, xp.flip(x, axis=dim), dim), axis=dim)
    return (x.shape[dim] - 1 - backwards).astype(np.int64, copy=False)


@lowers(sort.TOPK)
def topk(xp: Any, x: Array, dim: int, k: int, largest: bool) -> Array:
    x = widen(x)
    n = x.shape[dim]
    few = xp is np and 0 < k * 4 <= n and n >= 64
    if not few or (x.dtype.kind == "f" and bool(np.isnan(x).any())):
        return part(argsort(xp, x, dim, descending=largest), dim, None, k)
    chosen = np.moveaxis(_few(np.moveaxis(x, dim, -1), k, largest), -1, dim)
    order = argsort(xp, np.take_along_axis(x, chosen, dim), dim, descending=largest)
    return np.take_along_axis(chosen, order, dim)


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
    taken = better | (equal & (np.cumsum(equal, axis=-1) <= room))
    return np.nonzero(taken)[-1].reshape(*x.shape[:-1], k)


@lowers(sort.KTHVALUE)
def kthvalue(xp: Any, x: Array, dim: int, k: int) -> Array:
    x = widen(x)
    order = np.argpartition(x, k - 1, axis=dim) if xp is np else ascending(xp, x, dim)
    return part(order, dim, k - 1, k).astype(np.int64, copy=False)


@lowers(sort.ARGMEDIAN)
def argmedian(xp: Any, x: Array, dim: int, omit: bool) -> Array:
    x = widen(x)
    n = x.shape[dim]
    order = ascending(xp, x, dim)
    if x.dtype.kind != "f":
        return part(order, dim, (n - 1) // 2, (n - 1) // 2 + 1)
    missing = xp.isnan(x).sum(axis=dim, keepdims=True)
    middle = xp.maximum(n - missing - 1, 0) // 2 if omit else xp.full_like(missing, (n - 1) // 2)
    if not omit:  # the first NaN stands right after the numbers
        middle = xp.where(missing > 0, n - missing, middle)
    return xp.take_along_axis(order, middle, dim).astype(np.int64, copy=False)


@lowers(sort.MEDIAN)
def median(xp: Any, x: Array, dims: tuple[int, ...], keepdim: bool, omit: bool) -> Array:
    kept = [d for d in range(x.ndim) if d not in dims]
    rows = [x.shape[d] for d in kept]
    flat = x.transpose((*kept, *dims)).reshape((*rows, prod(x.shape[d] for d in dims)))
    last = len(rows)
    out = xp.take_along_axis(flat, argmedian(xp, flat, last, omit), last)
    return out.reshape([1 if d in dims else n for d, n in enumerate(x.shape)] if keepdim else rows)


@lowers(sort.ARGMODE)
def argmode(xp: Any, x: Array, dim: int) -> Array:
    x = widen(x)
    order = xp.moveaxis(ascending(xp, x, dim), dim, -1)
    values = xp.take_along_axis(xp.moveaxis(x, dim, -1), order, -1)
    n = values.shape[-1]
    steps = xp.arange(n)
    starts = xp.concatenate(
        [xp.ones_like(values[..., :1], dtype=bool), values[..., 1:] != values[..., :-1]], axis=-1
    )
    # How far each sorted element is into its run of equals; the first longest run wins.

    into = steps - accumulate(xp, "maximum", xp.where(starts, steps, 0), values.ndim - 1)
    end = xp.argmax(into, axis=-1, keepdims=True)
    return xp.moveaxis(xp.take_along_axis(order, end, -1), -1, dim).astype(np.int64, copy=False)
