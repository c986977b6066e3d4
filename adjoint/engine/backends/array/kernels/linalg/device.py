"""Linear algebra on a GPU, whole batches at a time, where CuPy goes from matrix to matrix."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, factorial, isfinite, log2
from typing import Any

import numpy as np

from adjoint.engine.backends.array.devices import beside_cupy
from adjoint.engine.backends.array.kernels.linalg import blocks
from adjoint.engine.backends.array.table import on_device

Array = Any
BATCHED = 1024  # rows up to which one call for all matrices is faster than one for each
PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}  # of cuBLAS's names
TERMS, BLOCK = 20, 5  # of the exponential's series: up to norm 1 the rest is below 2^-64
# Squares of condition that double precision bears, and the part of the condition at which a rank
# is doubted below which it is not.
BORNE, CERTAIN = 1e6, 0.1
REFINED = 3  # times: each takes a part of condition^2 2^-52 off the error


def adjoint_of(xp: Any, x: Array) -> Array:
    """Conjugate transposed matrices."""
    return xp.conj(x.swapaxes(-1, -2))


def triangular_solve(xp: Any, x: Array, y: Array, upper: bool, unit: bool) -> Array:
    """y with each matrix's triangle undone."""
    n, k = y.shape[-2:]
    if on_device(xp) and (out := blocks.triangular_solve(xp, x, y, upper, unit)) is not None:
        return out
    if x.ndim == 2 or n > BATCHED:
        solve = beside_cupy(xp, "cupyx.scipy.linalg").solve_triangular
        out = xp.empty(y.shape, y.dtype)
        for i in np.ndindex(x.shape[:-2]):
            out[i] = solve(x[i], y[i], lower=not upper, unit_diagonal=unit)
        return out
    cublas = beside_cupy(xp, "cupy.cuda").cublas
    matrices, out = xp.ascontiguousarray(x), y.copy(order="C")
    one = np.ones(1, out.dtype)
    places = [_places(xp, a) for a in (matrices, out)]
    # cuBLAS counts along columns: to it these are the transposed matrices, on the other side.
    getattr(cublas, f"{PREFIX[out.dtype.char]}trsmBatched")(
        xp.cuda.device.get_cublas_handle(),
        cublas.CUBLAS_SIDE_RIGHT,
        cublas.CUBLAS_FILL_MODE_LOWER if upper else cublas.CUBLAS_FILL_MODE_UPPER,
        cublas.CUBLAS_OP_N,
        cublas.CUBLAS_DIAG_UNIT if unit else cublas.CUBLAS_DIAG_NON_UNIT,
        k, n, one.ctypes.data, places[0].data.ptr, n, places[1].data.ptr, k, out.size // (n * k),
    )  # fmt: skip
    return out


def _places(xp: Any, x: Array) -> Array:
    """Where each matrix begins."""
    step = x.shape[-1] * x.shape[-2] * x.itemsize
    return xp.arange(x.data.ptr, x.data.ptr + x.size * x.itemsize, step, dtype=np.uint64)


@lru_cache(maxsize=1)
def _part(xp: Any) -> Any:
    return xp.ElementwiseKernel(
        f"T p1, T p2, T p3, T p4, {', '.join(f'float64 c{k}' for k in range(BLOCK))}, int64 n",
        "T out",
        "out = p1 * c1 + p2 * c2 + p3 * c3 + p4 * c4; if (i / n % n == i % n) out += T(c0);",
        "adjoint_exponential_part",
    )


def matrix_exp(xp: Any, x: Array) -> Array | None:
    """Exponentials by scaling, the series, and squaring, in double; None of what is not finite."""
    a = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    norms = abs(a).sum(axis=-2).max(axis=-1)
    most = float(norms.max())
    if not isfinite(most):
        return None
    halvings = xp.ceil(xp.log2(xp.maximum(norms, 1)))[..., None, None]
    a = xp.ascontiguousarray(a * xp.exp2(-halvings))
    powers = [a]
    for _ in range(BLOCK - 1):
        powers.append(xp.matmul(powers[-1], a))
    *few, top = powers
    out = top * (1 / factorial(TERMS))
    for first in range(TERMS - BLOCK, -1, -BLOCK):
        terms = [1 / factorial(first + k) for k in range(BLOCK)]
        part = _part(xp)(*few, *terms, a.shape[-1])
        out = part + (out if first == TERMS - BLOCK else xp.matmul(top, out))
    for turn in range(max(0, ceil(log2(most)) if most > 1 else 0)):
        out = xp.where(halvings > turn, xp.matmul(out, out), out)
    return out.astype(x.dtype)


def least_squares(xp: Any, x: Array, y: Array, rcond: float) -> Array | None:
    """The x of least squares, of least norm; None where a rank may be in doubt.

    By normal equations in double and refined: right to the digits that LAPACK's factors give, since
    no matrix here has a condition whose square takes all of them.
    """
    m, n = x.shape[-2:]
    wide = np.promote_types(x.dtype, np.float64)
    a, b = x.astype(wide), y.astype(wide)
    other = adjoint_of(xp, a)
    try:
        with beside_cupy(xp, "cupyx").errstate(linalg="raise"):
            factor = xp.linalg.cholesky(xp.matmul(other, a) if m >= n else xp.matmul(a, other))
    except np.linalg.LinAlgError:
        return None
    eye = xp.broadcast_to(xp.eye(min(m, n), dtype=wide), factor.shape)
    inverse = triangular_solve(xp, factor, eye, upper=False, unit=False)
    condition = _length(xp, factor) * _length(xp, inverse)
    limit = BORNE if rcond <= 0 else min(BORNE, CERTAIN / rcond)
    if not bool((condition < limit).all()):
        return None
    back = adjoint_of(xp, inverse)

    def solved(right: Array) -> Array:
        if m >= n:
            return xp.matmul(back, xp.matmul(inverse, xp.matmul(other, right)))
        return xp.matmul(other, xp.matmul(back, xp.matmul(inverse, right)))

    out = solved(b)
    for _ in range(REFINED):
        out = out + solved(b - xp.matmul(a, out))
    return out.astype(x.dtype, copy=False)


def _length(xp: Any, x: Array) -> Array:
    """The root of the sum of squares of each matrix."""
    return xp.sqrt((abs(x) ** 2).sum(axis=(-2, -1)))
