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
    inside = xp.ones(points.shape[0], dtype=bool)
    flat = xp.zeros(points.shape[0], dtype=np.int64)
    for i, e in enumerate(edges):
        x = widen(points[:, i])
        if not bool(xp.isfinite(e[0]) & xp.isfinite(e[-1])):
            raise RuntimeError(f"histogram: range of [{float(e[0])}, {float(e[-1])}] is not finite")
        at = xp.searchsorted(e, x, side="right") - 1
        at = xp.where(x == e[-1], shape[i] - 1, at)  # the last bin holds its upper edge
        inside &= (x >= e[0]) & (x <= e[-1])
        flat = flat * shape[i] + at
    chosen = None if weights is None else weights[inside]
    out = counted(xp, flat[inside], chosen, prod(shape))
    return out.reshape(shape).astype(points.dtype)
