"""Convolution as matrix products over windows; on a GPU by cuDNN, where it is installed.

The windows of a few examples at a time are copied side by side into columns that stay in the
cache, and one matrix product per such block does the arithmetic. Where a group has one channel
(depthwise) products have nothing to contract, and the kernel's taps are added up one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as indices
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.reduce.reduction import widen
from adjoint.engine.backends.array.libraries.steps import WITH_BIAS, with_bias
from adjoint.engine.backends.array.table import kernel_for, lowers
from adjoint.engine.core.state.loading import brought
from adjoint.engine.ops.image import convolution as ops
from adjoint.engine.ops.image.biased_convolution import BIASED
from adjoint.engine.tensor.tensor import wrap

Array = Any
Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

# Elements of columns made at once: about the cache of a core, or a part of a GPU's memory.
BLOCK_CPU, BLOCK_CUDA = 1 << 18, 1 << 26


def padded(xp: Any, x: Array, pads: Pairs, value: Any = 0) -> Array:
    """x with its last dimensions padded; negative pads cut."""
    lead = x.ndim - len(pads)
    if any(a < 0 or b < 0 for a, b in pads):
        cut = [
            slice(max(-a, 0), n - max(-b, 0))
            for n, (a, b) in zip(x.shape[lead:], pads, strict=True)
        ]
        x = x[(Ellipsis, *cut)]
        pads = tuple([(max(a, 0), max(b, 0)) for a, b in pads])
    if not any(a or b for a, b in pads):
        return x
    shape = [n + a + b for n, (a, b) in zip(x.shape[lead:], pads, strict=True)]
    out = xp.full((*x.shape[:lead], *shape), value, dtype=x.dtype)
    inner = [slice(a, a + n) for n, (a, _) in zip(x.shape[lead:], pads, strict=True)]
    out[(Ellipsis, *inner)] = x
    return out


def windows(
    xp: Any, x: Array, kernel: Shape, stride: Shape, dilation: Shape, counts: Shape
) -> Array:
    """A view (N, C, K..., L...) of a padded input (N, C, S...)."""
    rest = x.strides[2:]
    strides = (
        *x.strides[:2],
        *(s * d for s, d in zip(rest, dilation, strict=True)),
        *(s * t for s, t in zip(rest, stride, strict=True)),
    )
    return xp.lib.stride_tricks.as_strided(x, (*x.shape[:2], *kernel, *counts), strides)


def tap_slices(tap: Shape, stride: Shape, dilation: Shape, counts: Shape) -> tuple[slice, ...]:
    """Where one tap of all windows lies in the padded input."""
    return tuple(
        [
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, s, d, n in zip(tap, stride, dilation, counts, strict=True)
        ]
    )


def blocks(xp: Any, examples: int, elements: int) -> Iterator[slice]:
    """Ranges of examples whose columns, `elements` elements per example, fit in a block."""
    step = max(1, (BLOCK_CPU if xp is np else BLOCK_CUDA) // max(elements, 1))
    for start in range(0, examples, step):
        yield slice(start, min(start + step, examples))


def channels_first(x: Array) -> Array:
    """(n, C, ...) as (C, n, ...)."""
    return x.swapaxes(0, 1)


def by_library(xp: Any, record: Any, x: Array, y: Array, *geometry: Any) -> Array | None:
    """A record's result by cuDNN; None on other devices, and for what cuDNN does not do."""
    if xp.__name__ != "cupy" or not x.size or not y.size:
        return None
    eager = brought("adjoint.engine.backends.array.libraries.eager")  # on a GPU alone
    return eager.convolved(record, x, y, *geometry)


@lowers(ops.CONVOLUTION)
def convolution(
    xp: Any, x: Array, y: Array, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Array:
    result = by_library(xp, ops.CONVOLUTION, x, y, stride, padding, dilation, groups)
    if result is not None:
        return result
    dtype, x, y = x.dtype, widen(x), widen(y)
    kernel, rank = y.shape[2:], len(stride)
    x = padded(xp, x, padding)
    counts = fitting(x.shape[2:], kernel, stride, dilation)
    out = xp.empty((x.shape[0], y.shape[0], *counts), dtype=x.dtype)
    if out.size == 0:
        return out.astype(dtype, copy=False)
    if y.shape[1] == 0:
        out[...] = 0
    elif y.shape[1] == 1 and groups > 1:
        _depthwise(xp, x, y, stride, dilation, groups, out)
    else:
        view = windows(xp, x, kernel, stride, dilation, counts)
        weight = y.reshape((groups, y.shape[0] // groups, -1))
        taps, places = prod(kernel), prod(counts)
        elements = x.shape[1] * taps * places
        for part in blocks(xp, x.shape[0], elements):
            n = part.stop - part.start
            columns = view[part].transpose((*range(1, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank)))
            columns = columns.reshape((groups, -1, n * places))
            block = xp.matmul(weight, columns).reshape((y.shape[0], n, *counts))
            out[part] = channels_first(block)
    return out.astype(dtype, copy=False)


def fitting(sizes: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    """How many windows fit in a padded input."""
    none = ((0, 0),) * len(sizes)
    return tuple(map(ops.window_count, sizes, kernel, stride, none, dilation))


def _depthwise(
    xp: Any, x: Array, y: Array, stride: Shape, dilation: Shape, groups: int, out: Array
) -> None:
    """One channel per group: out (n, G, m, L...) adds x's taps times a number each."""
    kernel, counts = y.shape[2:], out.shape[2:]
    many = y.shape[0] // groups
    weight = y.reshape((groups, many, *kernel, *(1,) * len(kernel)))
    for part in blocks(xp, x.shape[0], 4 * out[0].size):
        total = out[part].reshape((-1, groups, many, *counts))
        first = True
        for tap in indices(*map(range, kernel)):
            where = (slice(None), slice(None), *tap_slices(tap, stride, dilation, counts))
            term = x[part][where][:, :, None] * weight[(slice(None), slice(None), *tap)]
            if first:
                total[...] = term
            else:
                total += term
            first = False


@lowers(ops.CONVOLUTION_TRANSPOSE)
def convolution_transpose(
    xp: Any, x: Array, y: Array, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Array:
    result = by_library(xp, ops.CONVOLUTION_TRANSPOSE, x, y, stride, padding, dilation, groups)
    if result is not None:
        return result
    dtype, x, y = x.dtype, widen(x), widen(y)
    kernel, counts = y.shape[2:], x.shape[2:]
    sizes = [
        (n - 1) * s + d * (k - 1) + 1
        for n, k, s, d in zip(counts, kernel, stride, dilation, strict=True)
    ]
    channels = y.shape[1] * groups
    out = xp.zeros((x.shape[0], channels, *sizes), dtype=x.dtype)
    if out.size and x.size:
        weight = y.reshape((groups, y.shape[0] // groups, -1)).swapaxes(1, 2)
        elements = channels * prod(kernel) * prod(counts)
        for part in blocks(xp, x.shape[0], elements):
            n = part.stop - part.start
            block = channels_first(x[part]).reshape((groups, y.shape[0] // groups, -1))
            columns = xp.matmul(weight, block).reshape((channels, *kernel, n, *counts))
            target = channels_first(out[part])
            for tap in indices(*map(range, kernel)):
                where = tap_slices(tap, stride, dilation, counts)
                target[(slice(None), slice(None), *where)] += columns[(slice(None), *tap)]
    back = tuple([(-a, -b) for a, b in padding])
    return xp.ascontiguousarray(padded(xp, out, back)).astype(dtype, copy=False)


@lowers(ops.CONVOLUTION_WEIGHT)
def convolution_weight(
    xp: Any, x: Array, y: Array, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Array:
    result = by_library(xp, ops.CONVOLUTION_WEIGHT, x, y, stride, padding, dilation, groups)
    if result is not None:
        return result
    dtype, x, y = x.dtype, widen(x), widen(y)
    counts, rank = y.shape[2:], len(stride)
    x = padded(xp, x, padding)
    kernel = tuple(
        [
            (n - (o - 1) * s - 1) // d + 1
            for n, o, s, d in zip(x.shape[2:], counts, stride, dilation, strict=True)
        ]
    )
    channels, outputs = x.shape[1], y.shape[1]
    total = xp.zeros((groups, outputs // groups, channels // groups * prod(kernel)), dtype=x.dtype)
    if total.size and y.size:
        view = windows(xp, x, kernel, stride, dilation, counts)
        places = prod(counts)
        for part in blocks(xp, x.shape[0], channels * prod(kernel) * places):
            n = part.stop - part.start
            columns = view[part].transpose((*range(1, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank)))
            columns = columns.reshape((groups, -1, n * places))
            block = channels_first(y[part]).reshape((groups, outputs // groups, n * places))
            total += xp.matmul(block, columns.swapaxes(1, 2))
    return total.reshape((outputs, channels // groups, *kernel)).astype(dtype, copy=False)


def biased(record: Any) -> Any:
    """The kernel of a convolution with a bias after it."""

    def kernel(xp: Any, x: Array, y: Array, bias: Array, **geometry: Any) -> Array:
        whole: Any = kernel_for(record, xp)
        out = whole(x, y, **geometry)
        if xp.__name__ == "cupy":
            return with_bias(wrap(out), wrap(bias))._array
        out += bias.reshape((-1, *(1,) * (out.ndim - 2)))
        return out

    return kernel


for _record in (ops.CONVOLUTION, ops.CONVOLUTION_TRANSPOSE):
    lowers(BIASED[_record.name])(biased(_record))
    WITH_BIAS[f"biased_{_record.name}"] = _record
