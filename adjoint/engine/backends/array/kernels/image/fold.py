"""Kernels of windows laid out as columns, and of their transpose."""

from __future__ import annotations

from itertools import product as indices
from typing import Any

from adjoint.engine.backends.array.kernels.image.convolution import (
    Pairs,
    Shape,
    fitting,
    padded,
    tap_slices,
    windows,
)
from adjoint.engine.backends.array.kernels.reduce.reduction import widen
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.ops.image.fold import FOLD_WINDOWS, UNFOLD_WINDOWS

Array = Any


@lowers(UNFOLD_WINDOWS)
def unfold_windows(
    xp: Any, x: Array, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    x = padded(xp, x, padding)
    counts = fitting(x.shape[2:], kernel, stride, dilation)
    return windows(xp, x, kernel, stride, dilation, counts).copy()


@lowers(FOLD_WINDOWS)
def fold_windows(
    xp: Any, x: Array, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    dtype, x = x.dtype, widen(x)
    counts = x.shape[2 + len(kernel) :]
    sizes = [
        (n - 1) * s + d * (k - 1) + 1
        for n, k, s, d in zip(counts, kernel, stride, dilation, strict=True)
    ]
    out = xp.zeros((*x.shape[:2], *sizes), dtype=x.dtype)
    every = (slice(None), slice(None))
    for tap in indices(*map(range, kernel)):
        out[(*every, *tap_slices(tap, stride, dilation, counts))] += x[(*every, *tap)]
    back = tuple([(-a, -b) for a, b in padding])
    return xp.ascontiguousarray(padded(xp, out, back)).astype(dtype, copy=False)
