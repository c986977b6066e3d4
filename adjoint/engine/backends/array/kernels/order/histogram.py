"""Array kernels of histograms."""

from __future__ import annotations

from math import isfinite, prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.order import device
from adjoint.engine.backends.array.kernels.reduce.reduction import widen
from adjoint.engine.backends.array.table import lowers, on_device
from adjoint.engine.core.state import determinism
from adjoint.engine.ops.order import histogram

Array = Any
NEGATIVE = "bincount: only supports 1-d non-negative integral inputs"


@lowers(histogram.BINCOUNT)
def bincount(xp: Any, x: Array, weights: Array | None = None, *, minlength: int) -> Array:
    if x.size == 0:
        return xp.zeros(minlength, dtype=np.int64 if weights is None else weights.dtype)
    if xp is np:  # which itself looks for numbers below 0
        try:
            out = np.bincount(x.astype(np.int64, copy=False), weights, minlength)
        except ValueError:
            raise RuntimeError(NEGATIVE) from None
    else:
        least, most = (int(n) for n in ends(xp, x))
        if least < 0:
            raise RuntimeError(NEGATIVE)
        out = counted(xp, x.astype(np.int64, copy=False), weights, max(most + 1, minlength))
    return out.astype(np.int64 if weights is None else weights.dtype, copy=False)


def ends(xp: Any, x: Array) -> Any:
    """The least and the greatest element, for which a GPU is waited once."""
    if on_device(xp):
        return device.extremes(xp, x)
    return xp.asnumpy(xp.stack([x.min(), x.max()]))


def counted(xp: Any, places: Array, weights: Array | None, bins: int) -> Array:
    """`bincount` of numbers below `bins`.

    On a GPU weights are summed in no particular order unless asked otherwise.
    """
    in_order = weights is not None and determinism.are_deterministic_algorithms_enabled()
    if on_device(xp) and not in_order:
        if weights is None:
            return device.count(xp, places, bins)
        if weights.dtype.char in device.KINDS:
            return device.weigh(xp, places, weights, bins)
    if xp is np or not in_order:
        return xp.bincount(places, weights=weights, minlength=bins)
    return xp.asarray(np.bincount(xp.asnumpy(places), weights=xp.asnumpy(weights), minlength=bins))


@lowers(histogram.HISTC)
def histc(xp: Any, x: Array, low: Any, high: Any, bins: int) -> Array:
    if on_device(xp) and x.dtype.char in device.KINDS:
        known = isinstance(low, float) and isinstance(high, float)
        if known and low == high and x.size:  # between the extremes
            least, most = device.extremes(xp, x)
            if least == most:
                least, most = least - x.dtype.type(1), most + x.dtype.type(1)
        else:
            ends = [low, high] if known else xp.asnumpy(xp.stack([low, high]))
            least, most = (x.dtype.type(end) for end in ends)
        if not (isfinite(least) and isfinite(most)):
            raise RuntimeError(f"histc: range of [{float(least)}, {float(most)}] is not finite")
        return device.count_between(xp, x, least, most, bins).astype(x.dtype)
    sure = isfinite(low) and isfinite(high) if xp is np else xp.isfinite(low) & xp.isfinite(high)
    if not bool(sure):
        raise RuntimeError(f"histc: range of [{float(low)}, {float(high)}] is not finite")
    inside = (x >= low) & (x <= high)
    x = x if on_device(xp) else x[inside]
    # Each step in the dtype of x, halves included: this is what decides between two bins.
    spots = x - low
    spots *= x.dtype.type(bins)
    spots /= high - low
    at = spots.astype(np.int64)
    if on_device(xp):
        at = xp.where(inside, xp.minimum(at, bins - 1), -1)
        return device.count(xp, at, bins).astype(x.dtype)
    return xp.bincount(xp.minimum(at, bins - 1), minlength=bins).astype(x.dtype)


@lowers(histogram.HISTOGRAMDD)
def histogramdd(xp: Any, points: Array, *rest: Array, weighted: bool) -> Array:
    weights = widen(rest[0]) if weighted else None
    edges = [widen(e) for e in rest[weighted:]]
    shape = tuple(e.shape[0] - 1 for e in edges)
    columns = [widen(points[:, i]) for i in range(len(edges))]
    inside = xp.ones(points.shape[0], dtype=bool)
    for x, e in zip(columns, edges, strict=True):
        if not bool(xp.isfinite(e[0]) & xp.isfinite(e[-1])):
            raise RuntimeError(f"histogram: range of [{float(e[0])}, {float(e[-1])}] is not finite")
        inside &= (x >= e[0]) & (x <= e[-1])
    if xp is np and not inside.all():
        columns = [x[inside] for x in columns]
    flat = xp.zeros(columns[0].shape[0], dtype=np.int64) if columns else xp.zeros_like(inside)
    for x, e, bins in zip(columns, edges, shape, strict=True):
        flat = flat * bins + places_in(xp, x, e)
    flat = flat if xp is np else flat[inside]
    chosen = None if weights is None else weights[inside]
    out = counted(xp, flat, chosen, prod(shape))
    return out.reshape(shape).astype(points.dtype)


MANY = 1 << 10  # elements from which on a search takes longer than to reckon and look
EVEN = 1.01  # times as wide as the narrowest bin is the widest, where bins are as good as equal


def places_in(xp: Any, x: Array, edges: Array) -> Array:
    """Which bin elements are in; on the CPU they are in one.

    Where bins are equal it is reckoned; rounding may put an element into a bin beside its own, so
    all are looked at, and those searched for that are not where they should be.
    """
    last = edges.shape[0] - 2
    widths = np.diff(edges) if xp is np and x.size >= MANY and last > 0 else None
    if widths is None or not 0 < widths.max() <= EVEN * widths.min():
        at = xp.searchsorted(edges, x, side="right") - 1
        return xp.where(x == edges[-1], last, at)  # the last bin holds its upper edge
    scale = (last + 1) / (float(edges[-1]) - float(edges[0]))
    at = ((x - edges[0]) * x.dtype.type(scale)).astype(np.int64)
    np.minimum(at, last, out=at)
    wrong = x < edges.take(at)
    wrong |= (x >= edges[1:].take(at)) & (at < last)
    off = np.flatnonzero(wrong)
    at[off] = np.minimum(np.searchsorted(edges, x[off], side="right") - 1, last)
    return at
