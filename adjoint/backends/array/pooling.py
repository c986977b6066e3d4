"""The kernel of max pooling: a running maximum over the taps of all windows at once."""

from __future__ import annotations

from itertools import product as indices
from math import prod
from typing import Any

import numpy as np

from adjoint.backends.array.convolution import padded, tap_slices
from adjoint.backends.array.reduction import widen
from adjoint.backends.array.table import lowers
from adjoint.ops.pooling import MAX_POOL
from adjoint.ops.resample import Rule, adaptive_bounds

Array = Any


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _places(window: Rule) -> list[list[int]]:
    """For each tap, the place in the source it has in each window; -1: outside."""
    kind, source, size, *rest = window
    if kind == "adaptive":
        bounds = adaptive_bounds(source, size)
        taps = max(b - a for a, b in bounds)
        return [[min(a + t, b - 1) for a, b in bounds] for t in range(taps)]
    extent, step, offset, dilation = rest
    return [
        [i if 0 <= (i := o * step + offset + t * dilation) < source else -1 for o in range(size)]
        for t in range(extent)
    ]


def _strided(x: Array, windows: tuple[Rule, ...], xp: Any) -> Any:
    """x padded so that every tap of regular windows is a slice, and a function giving it."""
    pads, step, dilation, counts = [], [], [], []
    for _, source, size, extent, stride, offset, spread in windows:
        end = (size - 1) * stride + offset + spread * (extent - 1) + 1
        pads.append((-offset, max(end - source, 0)))
        step.append(stride)
        dilation.append(spread)
        counts.append(size)
    wide = padded(xp, x, tuple(pads), _lowest(x.dtype))
    shape = (tuple(step), tuple(dilation), tuple(counts))
    return lambda tap: wide[(Ellipsis, *tap_slices(tap, *shape))]


def _gathered(x: Array, places: list[list[list[int]]], xp: Any) -> Any:
    """The taps of irregular windows, gathered."""
    grids = [[xp.asarray(row) for row in rows] for rows in places]
    rank = len(grids)

    def take(tap: tuple[int, ...]) -> Array:
        chosen = [grids[d][t].reshape((-1, *(1,) * (rank - d - 1))) for d, t in enumerate(tap)]
        return x[(Ellipsis, *chosen)]

    return take


@lowers(MAX_POOL)
def max_pool(xp: Any, x: Array, windows: tuple[Rule, ...]) -> tuple[Array, Array]:
    dtype, x = x.dtype, widen(x)
    rank = len(windows)
    places = [_places(w) for w in windows]
    taps = [range(len(p)) for p in places]
    regular = all(w[0] == "window" for w in windows)
    take = _strided(x, windows, xp) if regular else _gathered(x, places, xp)
    shape = (*x.shape[: x.ndim - rank], *(w[2] for w in windows))
    best = xp.full(shape, _lowest(x.dtype), dtype=x.dtype)
    # Until something is larger: the first place of each window that lies inside.
    first = [
        [next(p[o] for p in rows if p[o] >= 0) for o in range(w[2])]
        for rows, w in zip(places, windows, strict=True)
    ]
    at = xp.empty(shape, dtype=np.int32 if prod(w[1] for w in windows) < 2**31 else np.int64)
    at[...] = xp.asarray(_flat(first, windows))
    for tap in indices(*taps):
        candidate = take(tap)
        better = candidate > best
        if x.dtype.kind == "f":
            better |= candidate != candidate
        rows = [p[t] for p, t in zip(places, tap, strict=True)]
        spots = xp.asarray(_flat(rows, windows))
        best = xp.where(better, candidate, best)
        at = xp.where(better, spots.astype(at.dtype), at)
    return best.astype(dtype, copy=False), at.astype(np.int64)


def _flat(rows: list[list[int]], windows: tuple[Rule, ...]) -> Any:
    """Places of each dimension as places counted over all of them."""
    total: Any = 0
    for d, (row, w) in enumerate(zip(rows, windows, strict=True)):
        grid = np.array(row).reshape((-1, *(1,) * (len(rows) - d - 1)))
        total = total * w[1] + grid
    return total
