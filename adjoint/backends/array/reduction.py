"""Array kernels of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.backends.array.dtypes import accumulator
from adjoint.backends.array.table import lowers
from adjoint.ops import extremes, product, reduction
from adjoint.tensor.tensor import DTYPE_OF

Array = Any
Dims = tuple[int, ...]


def widen(x: Array) -> Array:
    """Halves as float32, anything else as it is."""
    return x.astype(np.float32) if DTYPE_OF[x.dtype].is_half else x


@lowers(reduction.SUM)
def sum_(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    d = DTYPE_OF[x.dtype]
    if d.is_half:
        return xp.sum(x, axis=dims, keepdims=keepdim, dtype=np.float32).astype(x.dtype)
    return xp.add.reduce(x, axis=dims, keepdims=keepdim, dtype=x.dtype)


@lowers(product.PROD)
def prod(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    wide = accumulator(DTYPE_OF[x.dtype])
    return xp.prod(x, axis=dims, keepdims=keepdim, dtype=wide).astype(x.dtype, copy=False)


@lowers(reduction.ALL)
def all_(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    out = xp.all(widen(x), axis=dims, keepdims=keepdim)
    return out.astype(np.uint8) if x.dtype == np.uint8 else out


@lowers(reduction.ANY)
def any_(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    out = xp.any(widen(x), axis=dims, keepdims=keepdim)
    return out.astype(np.uint8) if x.dtype == np.uint8 else out


@lowers(extremes.AMAX)
def amax(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    return xp.max(widen(x), axis=dims, keepdims=keepdim).astype(x.dtype, copy=False)


@lowers(extremes.AMIN)
def amin(xp: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    return xp.min(widen(x), axis=dims, keepdims=keepdim).astype(x.dtype, copy=False)


@lowers(extremes.ARGMAX)
def argmax(xp: Any, x: Array, dim: int, keepdim: bool) -> Array:
    return xp.argmax(widen(x), axis=dim, keepdims=keepdim).astype(np.int64, copy=False)


@lowers(extremes.ARGMIN)
def argmin(xp: Any, x: Array, dim: int, keepdim: bool) -> Array:
    return xp.argmin(widen(x), axis=dim, keepdims=keepdim).astype(np.int64, copy=False)
