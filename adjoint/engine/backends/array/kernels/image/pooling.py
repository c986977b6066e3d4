"""The kernel of max pooling: a running maximum over the taps of all windows at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product as indices
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.image.convolution import blocks, padded, tap_slices
from adjoint.engine.backends.array.kernels.reduce.reduction import widen
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.ops.image.pooling import MAX_POOL
from adjoint.engine.ops.image.resample import Rule, adaptive_bounds

Array = Any
Places = list[list[list[int]]]  # by dimension, tap, window


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


def _gathered(x: Array, places: Places, xp: Any) -> Any:
    """The taps of irregular windows, gathered."""
    grids = [[xp.asarray(row) for row in rows] for rows in places]
    rank = len(grids)

    def take(tap: tuple[int, ...]) -> Array:
        chosen = [grids[d][t].reshape((-1, *(1,) * (rank - d - 1))) for d, t in enumerate(tap)]
        return x[(Ellipsis, *chosen)]

    return take


@dataclass(frozen=True, slots=True)
class Geometry:
    """What depends on the windows alone."""

    taps: list[tuple[int, ...]]
    places: Places
    regular: bool
    first: Any  # the first tap of each window that lies inside
    steps: Any  # regular windows: how far each tap is from the window's start,
    starts: Any  # and where those are
    spots: Any  # others: where each tap of each window is, (taps, windows)
    outside: bool  # whether some window has no tap inside


@lru_cache(maxsize=256)
def geometry(windows: tuple[Rule, ...]) -> Geometry:
    """The tables of a pooling, made once."""
    places = [_places(w) for w in windows]
    counts = [len(rows) for rows in places]
    sizes = [w[1] for w in windows]
    taps = list(indices(*map(range, counts)))
    first = [
        [next((t for t, row in enumerate(rows) if row[o] >= 0), 0) for o in range(w[2])]
        for rows, w in zip(places, windows, strict=True)
    ]
    regular = all(w[0] == "window" for w in windows)
    steps = starts = spots = None
    if regular:
        steps = np.array(
            [
                _flat([[t * w[6]] for t, w in zip(tap, windows, strict=True)], sizes).item()
                for tap in taps
            ]
        )
        starts = _flat([[o * w[4] + w[5] for o in range(w[2])] for w in windows], sizes)
    else:
        at = [_flat([rows[t] for rows, t in zip(places, tap, strict=True)], sizes) for tap in taps]
        spots = np.stack(at).reshape((len(taps), -1))
    outside = any(max(column) < 0 for rows in places for column in zip(*rows, strict=True))
    return Geometry(taps, places, regular, _flat(first, counts), steps, starts, spots, outside)


@lowers(MAX_POOL)
def max_pool(xp: Any, x: Array, windows: tuple[Rule, ...]) -> tuple[Array, Array]:
    dtype, x = x.dtype, widen(x)
    lead = x.shape[: x.ndim - len(windows)]
    counts = tuple([w[2] for w in windows])
    x = x.reshape((prod(lead), *(w[1] for w in windows)))
    best = xp.full((prod(lead), *counts), _lowest(x.dtype), dtype=x.dtype)
    at = xp.empty(best.shape, dtype=np.int64)
    if best.size:
        # Looking for NaN beforehand is one pass instead of two for every tap; on a GPU it waits.
        careful = x.dtype.kind == "f" and (xp is not np or bool(np.isnan(x.min())))
        for part in blocks(xp, prod(lead), 4 * prod(w[1] for w in windows)):
            at[part] = _pool(xp, x[part], windows, best[part], careful)
    shape = (*lead, *counts)
    return best.reshape(shape).astype(dtype, copy=False), at.reshape(shape)


def _pool(xp: Any, x: Array, windows: tuple[Rule, ...], best: Array, careful: bool) -> Array:
    """Fill `best`, and say where its elements were found."""
    shape = geometry(windows)
    take = _strided(x, windows, xp) if shape.regular else _gathered(x, shape.places, xp)
    chosen = xp.empty(best.shape, dtype=np.uint8 if len(shape.taps) < 256 else np.int32)
    chosen[...] = xp.asarray(shape.first)  # until something is larger
    for number, tap in enumerate(shape.taps):
        candidate = take(tap)
        better = candidate > best
        if careful:
            better |= candidate != candidate
        xp.maximum(best, candidate, out=best)
        # Taps come in ascending order, so the last that was better has the largest number.
        xp.maximum(chosen, better.astype(chosen.dtype) * chosen.dtype.type(number), out=chosen)
    if shape.regular:
        at = xp.asarray(shape.steps)[chosen] + xp.asarray(shape.starts)
        # A dilated window with no tap inside is -inf, and its place any.
        return xp.clip(at, 0, prod(w[1] for w in windows) - 1) if shape.outside else at
    flat = chosen.reshape((len(chosen), -1)).astype(np.int64)
    return xp.asarray(shape.spots)[flat, xp.arange(flat.shape[1])].reshape(best.shape)


def _flat(rows: list[list[int]], sizes: list[int]) -> Any:
    """Places of each dimension as places counted over all of them."""
    total: Any = 0
    for d, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        total = total * size + np.array(row).reshape((-1, *(1,) * (len(rows) - d - 1)))
    return total
