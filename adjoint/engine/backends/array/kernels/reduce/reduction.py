"""Array kernels of reductions."""

from __future__ import annotations

import math
from math import isinf, isqrt
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF, accumulator
from adjoint.engine.backends.array.table import lowers, row_major
from adjoint.engine.core.dtype import DTYPES
from adjoint.engine.core.operations.reductions import reduced_shape
from adjoint.engine.ops.reduce import extremes, norms, product, reduction
from adjoint.engine.tensor.tensor import DTYPE_OF

Array = Any
Dims = tuple[int, ...]


_empty = np.empty
_HALVES = frozenset(NUMPY_OF[d] for d in DTYPES if d.is_half)
FEW = 1 << 11  # elements of which a copy costs less than to convert them in pieces
# NumPy's own `max`, `min`, `all` and `any` come to these by three calls of Python.
_TOTAL: Any = np.add.reduce
_LARGEST: Any = np.maximum.reduce
_LEAST: Any = np.minimum.reduce
_EACH: Any = np.logical_and.reduce
_SOME: Any = np.logical_or.reduce


def widen(x: Array) -> Array:
    """Halves as float32, anything else as it is."""
    return x.astype(np.float32) if DTYPE_OF[x.dtype].is_half else x


@lowers(reduction.SUM)
def sum_(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    if x.dtype in _HALVES:
        if xp is np and x.size <= FEW:  # at once, in the order of float32's own
            x, half = x.astype(np.float32), x.dtype
            return row_major(xp, xp.add.reduce(x, dims, keepdims=keepdim)[...].astype(half))
        total = xp.sum(x, axis=dims, keepdims=keepdim, dtype=np.float32)
        return row_major(xp, total.astype(x.dtype))
    if x.size > SERIES and xp is np and x.dtype.kind in "fc" and in_series(x, dims):
        rows = turned(x, dims)
        return _TOTAL(rows, -1).reshape(reduced_shape(x.shape, dims, keepdim))
    if x.size > LONG and xp is np and x.dtype.itemsize <= 8 and x.dtype.kind in "fc":
        longest = max((e for e in dims if e != x.ndim - 1), key=x.shape.__getitem__, default=None)
        if longest is not None and x.shape[longest] > LONG:
            out = row_major(xp, sum_in_blocks(x, dims, longest))
            return out if keepdim else out.reshape(reduced_shape(x.shape, dims, False))
    # An array to fill spares the detour over a NumPy scalar; keywords would cost 0.3 us.
    total = _empty((), x.dtype) if xp is np and not keepdim and len(dims) == x.ndim else None
    out = xp.add.reduce(x, dims, x.dtype, total, keepdim)
    return row_major(xp, out) if keepdim or x.ndim > 2 else out


@lowers(norms.P_NORM)
def p_norm(xp: Any, x: Array, ord: float, dims: Dims, keepdim: bool) -> Array:
    if x.dtype in _HALVES:  # rounded once; squares of halves overflow where their root would not
        return p_norm(xp, x.astype(np.float32), ord, dims, keepdim).astype(x.dtype)
    if ord == 1 or (ord and norms.of_single(x.shape, dims)):
        return sum_(xp, abs(x), dims, keepdim)
    if ord == 2:  # the usual one, in an eighth of the time of its composition
        squares = x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
        return xp.sqrt(sum_(xp, squares, dims, keepdim))
    if ord == 0:
        return sum_(xp, (x != 0).astype(abs(x).dtype), dims, keepdim)
    size = abs(x)
    if isinf(ord):
        extreme = xp.max if ord > 0 else xp.min
        return row_major(xp, extreme(size, axis=dims, keepdims=keepdim) if dims else size)
    return sum_(xp, size**ord, dims, keepdim) ** (1 / ord)


LONG = 1024  # beyond this many terms, adding one after the other loses digits
SERIES = 64  # and beyond this many it does where copying costs no more than is gained by it
MOVED = 1 << 14  # elements up to which that is so


def in_series(x: Array, dims: Dims) -> bool:
    """Whether NumPy, which adds in pairs along the last dimension only, would add many in turn."""
    rank = len(dims)
    if x.size > MOVED or math.prod([x.shape[d] for d in dims]) <= SERIES or x.ndim == 1:
        return False
    return not x.flags.c_contiguous or dims != (*range(x.ndim - rank, x.ndim),)


def turned(x: Array, dims: Dims) -> Array:
    """x with the dimensions to add up as its last one, along which NumPy adds in pairs."""
    size = math.prod([x.shape[d] for d in dims])
    return np.ascontiguousarray(x.transpose(kept_first(x.ndim, dims))).reshape(-1, size)


def kept_first(ndim: int, dims: Dims) -> Dims:
    """The order of dimensions in which those to add up are last."""
    return (*[d for d in range(ndim) if d not in dims], *dims)


def sum_in_blocks(x: Array, dims: Dims, d: int) -> Array:
    """A sum with its longest dimension in blocks of about its square root, dimensions kept.

    NumPy adds in pairs along the last dimension only, along others one after the other: two
    million float32 lost four digits. In blocks it takes the same time.
    """
    n = x.shape[d]
    size = isqrt(n)
    whole = n // size * size
    blocks = part(x, d, 0, whole).reshape((*x.shape[:d], whole // size, size, *x.shape[d + 1 :]))
    inner = tuple(e + (e >= d) for e in dims)
    total = np.add.reduce(np.add.reduce(blocks, axis=inner, keepdims=True), axis=d)
    if whole < n:
        total = total + np.add.reduce(part(x, d, whole, n), axis=dims, keepdims=True)
    return total


def part(x: Array, dim: int, start: int | None, stop: int | None) -> Array:
    """x[..., start:stop, ...] at `dim`."""
    return x[(slice(None),) * dim + (slice(start, stop),)]


@lowers(product.PROD)
def prod(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    wide = accumulator(DTYPE_OF[x.dtype])
    out = xp.prod(x, axis=dims, keepdims=keepdim, dtype=wide)
    return row_major(xp, out.astype(x.dtype, copy=False))


@lowers(reduction.ALL)
def all_(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    if xp is np and x.dtype.kind in "fib" and x.dtype not in _HALVES:
        return row_major(xp, _EACH(x, dims, None, None, keepdim))
    out = row_major(xp, xp.all(widen(x), axis=dims, keepdims=keepdim))
    return out.astype(np.uint8) if x.dtype == np.uint8 else out


@lowers(reduction.ANY)
def any_(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    if xp is np and x.dtype.kind in "fib" and x.dtype not in _HALVES:
        return row_major(xp, _SOME(x, dims, None, None, keepdim))
    out = row_major(xp, xp.any(widen(x), axis=dims, keepdims=keepdim))
    return out.astype(np.uint8) if x.dtype == np.uint8 else out


@lowers(extremes.AMAX)
def amax(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    if xp is np and x.dtype not in _HALVES:
        out = _LARGEST(x, dims, None, None, keepdim)
        return row_major(xp, out) if keepdim or x.ndim > 2 else out
    out = xp.max(widen(x), axis=dims, keepdims=keepdim)
    return row_major(xp, out.astype(x.dtype, copy=False))


@lowers(extremes.AMIN)
def amin(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    if xp is np and x.dtype not in _HALVES:
        out = _LEAST(x, dims, None, None, keepdim)
        return row_major(xp, out) if keepdim or x.ndim > 2 else out
    out = xp.min(widen(x), axis=dims, keepdims=keepdim)
    return row_major(xp, out.astype(x.dtype, copy=False))


@lowers(extremes.ARGMAX)
def argmax(xp: Any, x: Array, dim: int, keepdim: bool) -> Array:
    out = xp.argmax(widen(x), axis=dim, keepdims=keepdim)
    return row_major(xp, out.astype(np.int64, copy=False))


@lowers(extremes.ARGMIN)
def argmin(xp: Any, x: Array, dim: int, keepdim: bool) -> Array:
    out = xp.argmin(widen(x), axis=dim, keepdims=keepdim)
    return row_major(xp, out.astype(np.int64, copy=False))
