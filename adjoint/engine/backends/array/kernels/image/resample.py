"""The kernel of weighted sums along a dimension: slices where it is regular, else gathers."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.reduce.reduction import widen
from adjoint.engine.backends.array.table import lowers, on_device
from adjoint.engine.ops.image.resample import RESAMPLE, Row, Rule, table

Array = Any
Run = tuple[slice, slice, float]  # where to, where from, weight
FEW, SMALL = 12, 1 << 13  # so many slices are faster than a gather, of arrays not small


def _slice(start: int, step: int, count: int) -> slice:
    stop = start + step * (count - 1) + (1 if step >= 0 else -1)
    return slice(start, stop if stop >= 0 else None, step or 1)


def _runs(entries: list[tuple[int, int, float]], phase: int) -> list[Run]:
    """Entries (o, i, w) as arithmetic runs of one weight, o advancing by `phase`."""
    runs: list[Run] = []
    for first in range(phase):
        mine = [e for e in entries if e[0] % phase == first]
        at = 0
        while at < len(mine):
            o, i, w = mine[at]
            count, step = 1, 0
            while at + count < len(mine):
                next_o, next_i, next_w = mine[at + count]
                leap = next_i - i if count == 1 else step
                if (
                    next_w != w
                    or next_o != o + phase * count
                    or leap == 0
                    or next_i != i + leap * count
                ):
                    break
                step = leap
                count += 1
            runs.append((_slice(o, phase, count), _slice(i, step or 1, count), w))
            at += count
    return runs


@lru_cache(maxsize=512)
def layers(rule: Rule, transposed: bool, few: int) -> list[Any]:
    """One layer per term of the sums: a list of runs, or arrays (to, from, weight)."""
    rows: list[Row] = table(rule, transposed)
    terms: list[Any] = []
    for t in range(max(map(len, rows), default=0)):
        entries = [(o, *row[t]) for o, row in enumerate(rows) if len(row) > t]
        runs = min((_runs(entries, p) for p in (1, 2, 3, 4)), key=len)
        if len(runs) <= few:
            terms.append(runs)
        else:
            columns = list(zip(*entries, strict=True))
            terms.append(tuple(np.array(c) for c in columns))
    return terms


@lowers(RESAMPLE)
def resample(xp: Any, x: Array, dim: int, rule: Rule, transposed: bool) -> Array:
    dtype, x = x.dtype, widen(x)
    size = rule[1] if transposed else rule[2]
    if on_device(xp):
        return _in_one_launch(xp, x, dim, rule, transposed, size).astype(dtype, copy=False)
    before = (slice(None),) * dim
    few = FEW if x.size > SMALL else 2
    out = xp.zeros((*x.shape[:dim], size, *x.shape[dim + 1 :]), dtype=x.dtype)
    for t, layer in enumerate(layers(rule, transposed, few)):
        if isinstance(layer, list):
            for to, source, weight in layer:
                term = x[(*before, source)]
                if weight != 1:
                    term = term * _scalar(weight, x)
                if t:
                    out[(*before, to)] += term
                else:
                    out[(*before, to)] = term
            continue
        to, source, weights = (xp.asarray(a) for a in layer)
        term = xp.take(x, source, axis=dim)
        if (layer[2] != 1).any():
            weights = weights.astype(x.real.dtype if x.dtype.kind == "c" else x.dtype)
            term = term * weights.reshape((-1, *(1,) * (x.ndim - dim - 1)))
        if len(layer[0]) != size:
            out[(*before, to)] += term
        elif t:
            out += term
        else:
            out = term
    return out.astype(dtype, copy=False)


@lru_cache(maxsize=1)
def _summing(xp: Any) -> Any:
    """Terms of a sum one after another, each rounded: the numbers of the CPU."""
    return xp.ElementwiseKernel(
        "raw T x, raw int32 begin, raw int32 place, raw W weight, int64 source, int64 size, "
        "int64 inner",
        "T out",
        """
        long long column = i % inner, rest = i / inner, at = rest % size;
        long long row = rest / size * source;
        T sum = T(0);
        for (int t = begin[at]; t < begin[at + 1]; t++) {
            T term = x[(row + place[t]) * inner + column] * weight[t];
            sum = t == begin[at] ? term : sum + term;
        }
        out = sum;
        """,
        "adjoint_resample",
        options=("--fmad=false",),
    )


@lru_cache(maxsize=512)
def _device_table(xp: Any, rule: Rule, transposed: bool, kind: Any, device: int) -> Any:
    """Where each sum begins, its places and weights, in a GPU's memory."""
    rows = table(rule, transposed)
    begin = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    entries = [entry for row in rows for entry in row] or [(0, 0.0)]
    places, weights = zip(*entries, strict=True)
    return xp.asarray(begin), xp.asarray(places, np.int32), xp.asarray(np.array(weights, kind))


def _in_one_launch(xp: Any, x: Array, dim: int, rule: Rule, transposed: bool, size: int) -> Array:
    out = xp.empty((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype)
    if not out.size:
        return out
    if not x.size:
        return xp.zeros_like(out)
    kind = np.dtype(x.real.dtype if x.dtype.kind == "c" else x.dtype)
    tables = _device_table(xp, rule, transposed, kind, x.device.id)
    sizes = x.shape[dim], size, prod(x.shape[dim + 1 :])
    _summing(xp)(xp.ascontiguousarray(x), *tables, *sizes, out)
    return out


def _scalar(weight: float, x: Array) -> Any:
    """A Python number: weak, so that it keeps the array's dtype."""
    return weight if x.dtype.kind in "fc" else int(weight)
