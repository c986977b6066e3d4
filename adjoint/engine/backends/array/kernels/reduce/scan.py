"""Array kernels of scans.

NumPy's ufuncs accumulate; CuPy's mostly do not, so there a scan doubles its reach log2(n) times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import accumulator
from adjoint.engine.backends.array.kernels.reduce.reduction import LONG, part, widen
from adjoint.engine.backends.array.table import lowers, row_major
from adjoint.engine.ops.reduce import scan
from adjoint.engine.tensor.tensor import DTYPE_OF

Array = Any
_DOUBLE = {"f": np.dtype(np.float64), "F": np.dtype(np.complex128)}


def _carried(xp: Any, x: Array, is_long: bool = False) -> Any:
    """The dtype in which a running result goes on, or each would carry the errors of all before."""
    wide = accumulator(DTYPE_OF[x.dtype])
    return _DOUBLE.get(wide.char, wide) if xp is np or is_long else wide


def doubling(xp: Any, combine: Callable[[Array, Array], Array], x: Array, dim: int) -> Array:
    """An inclusive scan by an associative `combine`, in log2(n) steps."""
    out, reach = x.copy(), 1
    while reach < x.shape[dim]:
        head = part(out, dim, None, reach)
        rest = combine(part(out, dim, None, -reach), part(out, dim, reach, None))
        out = xp.concatenate([head, rest], axis=dim)
        reach *= 2
    return out


def accumulate(xp: Any, name: str, x: Array, dim: int) -> Array:
    """A running `name` (a binary ufunc) along `dim`."""
    ufunc = getattr(xp, name)
    if xp is np:
        return ufunc.accumulate(x, axis=dim)
    return doubling(xp, ufunc, x, dim)


def flipped(xp: Any, x: Array, dim: int, reverse: bool) -> Array:
    return xp.flip(x, axis=dim) if reverse else x


@lowers(scan.CUMSUM)
def cumsum(xp: Any, x: Array, dim: int, reverse: bool) -> Array:
    wide = _carried(xp, x, x.shape[dim] > LONG)
    if xp is np and not reverse:  # what `cumsum` calls
        return np.add.accumulate(x, dim, wide).astype(x.dtype, copy=False)
    out = xp.cumsum(flipped(xp, x, dim, reverse), axis=dim, dtype=wide)
    # A copy where it was turned round: no tensor has negative strides.
    return flipped(xp, out, dim, reverse).astype(x.dtype, copy=reverse)


@lowers(scan.CUMPROD)
def cumprod(xp: Any, x: Array, dim: int, reverse: bool) -> Array:
    out = xp.cumprod(flipped(xp, x, dim, reverse), axis=dim, dtype=_carried(xp, x))
    return flipped(xp, out, dim, reverse).astype(x.dtype, copy=reverse)


@lowers(scan.LINEAR_SCAN)
def linear_scan(xp: Any, a: Array, b: Array, dim: int, reverse: bool) -> Array:
    result = np.result_type(b.dtype)
    a, b = widen(a), widen(b)
    a, b = flipped(xp, a, dim, reverse), flipped(xp, b, dim, reverse)
    if xp is np:
        out = _recur(a, b.astype(_carried(xp, b)), dim)
    else:
        out = _recur_doubling(xp, a, b, dim)
    return row_major(xp, flipped(xp, out, dim, reverse).astype(result, copy=False))


def _recur(a: Array, b: Array, dim: int) -> Array:
    """Step by step in b, each step on all the other dimensions at once."""
    a, out = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
    for t in range(1, out.shape[0]):
        out[t] += a[t] * out[t - 1]
    return np.moveaxis(out, 0, dim)


def _recur_doubling(xp: Any, a: Array, b: Array, dim: int) -> Array:
    """(a, b) then (c, d) is the step (a c, b c + d): associative, so it doubles."""
    reach = 1
    while reach < b.shape[dim]:
        late = part(a, dim, reach, None)
        rest = part(b, dim, None, -reach) * late + part(b, dim, reach, None)
        b = xp.concatenate([part(b, dim, None, reach), rest], axis=dim)
        carried = part(a, dim, None, -reach) * late
        a = xp.concatenate([part(a, dim, None, reach), carried], axis=dim)
        reach *= 2
    return b


@lowers(scan.LOGCUMSUMEXP)
def logcumsumexp(xp: Any, x: Array, dim: int) -> Array:
    if x.dtype.kind == "c":
        out = xp.moveaxis(x.copy(), dim, 0)
        for t in range(1, out.shape[0]):  # in order, so that the branch of the logarithm is too
            out[t] = _complex_logaddexp(xp, out[t - 1], out[t])
        return xp.moveaxis(out, 0, dim)
    wide = x.astype(np.float64) if xp is np else widen(x)
    return accumulate(xp, "logaddexp", wide, dim).astype(x.dtype, copy=False)


def _complex_logaddexp(xp: Any, a: Array, b: Array) -> Array:
    swap = a.real < b.real
    high, low = xp.where(swap, b, a), xp.where(swap, a, b)
    out = high + xp.log1p(xp.exp(low - high))
    return xp.where(low.real == -np.inf, high, out)


@lowers(scan.CUMEXTREME)
def cumextreme(xp: Any, x: Array, dim: int, largest: bool) -> Array:
    x = widen(x)
    running = accumulate(xp, "maximum" if largest else "minimum", x, dim)
    hit = x == running
    if x.dtype.kind == "f":
        hit |= xp.isnan(x)
    steps = xp.arange(x.shape[dim]).reshape((-1,) + (1,) * (x.ndim - dim - 1))
    return accumulate(xp, "maximum", xp.where(hit, steps, 0), dim)
