"""Kernels of factorisations and solvers the array libraries have, on batches of matrices.

NumPy refuses a whole batch for one singular matrix; `info` is then found matrix by matrix.
"""

from __future__ import annotations

from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.devices import beside_cupy
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.kernels.linalg import blocks, cofactors, device, singular
from adjoint.engine.backends.array.kernels.linalg.lapack import (
    blas,
    each_matrix,
    lapack,
    lu_factor,
    refuse,
)
from adjoint.engine.backends.array.kernels.linalg.threaded import lowers
from adjoint.engine.backends.array.table import on_device, row_major
from adjoint.engine.core.errors import LinAlgError
from adjoint.engine.ops.linalg import cholesky, det, eigen, powers, qr, solve, svd
from adjoint.engine.ops.linalg.failures import NO_EIGENVALUES, NOT_FINITE, UNFINISHED
from adjoint.engine.tensor.tensor import DTYPE_OF

Array = Any


def _strict(xp: Any) -> Any:
    """A context in which CuPy, like NumPy, raises where a factorisation fails."""
    if xp is np:
        return nullcontext()
    return beside_cupy(xp, "cupyx").errstate(linalg="raise")


def _no_info(xp: Any, x: Array) -> Array:
    return xp.zeros(x.shape[:-2], np.int32)


def _finite(xp: Any, x: Array) -> bool:
    return bool(xp.isfinite(x).all())


# -- inverses and systems -----------------------------------------------------------------------


def _pivots_of(x: Array) -> Array:
    """LAPACK's info per matrix: 0, or the place of the first zero pivot."""
    return lu_factor(np, x, name="", check=False)[2]


def _host(xp: Any, x: Array) -> Array:
    return x if xp is np else xp.asnumpy(x)


def _of_regular(
    xp: Any, kind: str, arrays: tuple[Array, ...], like: Array, name: str, check: bool
) -> tuple[Array, Array]:
    """xp.linalg's function of matrices, and info; infinite where a matrix is singular."""
    fn = getattr(xp.linalg, kind)
    try:
        with _strict(xp):
            return row_major(xp, fn(*arrays)), _no_info(xp, arrays[0])
    except np.linalg.LinAlgError:
        info = _pivots_of(_host(xp, arrays[0]))
    if check:
        refuse(name, kind, info)
    out = xp.full(like.shape, np.inf, like.dtype)
    for place in map(tuple, np.argwhere(info == 0)):
        out[place] = fn(*(a[place] for a in arrays))
    return out, xp.asarray(info)


@lowers(solve.INV)
def inv(xp: Any, x: Array, name: str, check: bool) -> tuple[Array, Array]:
    if 0 in x.shape:
        return x.copy(), _no_info(xp, x)
    return _of_regular(xp, "inv", (x,), x, name, check)


@lowers(solve.SOLVE)
def solve_(xp: Any, x: Array, y: Array, name: str, check: bool) -> tuple[Array, Array]:
    if 0 in x.shape:
        return xp.zeros(y.shape, y.dtype), _no_info(xp, x)
    if 0 in y.shape:  # a singular matrix is one without right-hand sides, too
        info = _pivots_of(_host(xp, x))
        if check:
            refuse(name, "solve", info)
        return xp.zeros(y.shape, y.dtype), xp.asarray(info)
    return _of_regular(xp, "solve", (x, y), y, name, check)


@lowers(solve.TRIANGULAR_SOLVE)
def triangular_solve(xp: Any, x: Array, y: Array, upper: bool, unit: bool) -> Array:
    if 0 in y.shape:
        return xp.zeros(y.shape, y.dtype)
    if xp is not np:
        return device.triangular_solve(xp, x, y, upper, unit)
    trsm = blas("trsm", np.result_type(x, y))
    out = np.empty(y.shape, y.dtype)
    for i in np.ndindex(x.shape[:-2]) if x.ndim > 2 else ((),):
        # BLAS goes down columns: rows are given to it as such, solved from the other side, or it
        # would be given copies turned round.
        turned = x[i].flags.f_contiguous
        matrix, lower = (x[i], not upper) if turned else (x[i].T, upper)
        out[i] = trsm(1.0, matrix, y[i].T, side=1, lower=lower, trans_a=turned, diag=unit).T
    return out


@lowers(cholesky.CHOLESKY)
def cholesky_(xp: Any, x: Array, upper: bool, name: str, check: bool) -> tuple[Array, Array]:
    if on_device(xp) and 0 not in x.shape:
        factors = blocks.cholesky(xp, x, upper)
        if factors is not None and not xp.asnumpy(factors[1] | _first_nan(xp, factors[0])).any():
            return factors
    if upper:
        out, info = cholesky_(xp, _adjoint(xp, x), upper=False, name=name, check=check)
        return xp.ascontiguousarray(_adjoint(xp, out)), info
    if 0 in x.shape:
        return x.copy(), _no_info(xp, x)
    try:
        with _strict(xp):
            out = xp.linalg.cholesky(x if xp is np else xp.tril(x))
            info = _first_nan(xp, out)
    except np.linalg.LinAlgError:
        here = _host(xp, x)
        potrf = lapack("potrf", here)
        out, info = each_matrix(lambda a: potrf(a, lower=1, clean=1), here, 2)
        info = np.where(info, info, _first_nan(np, out)).astype(np.int32)
    if check and info.any():
        refuse(name, "cholesky", _host(xp, info) if xp is not np else info)
    return row_major(xp, xp.asarray(out)), xp.asarray(info)


def _first_nan(xp: Any, factor: Array) -> Array:
    """LAPACK's info for NaN on the diagonal, which not every library takes for a failure."""
    bad = xp.isnan(xp.diagonal(factor, axis1=-2, axis2=-1))
    return xp.where(bad.any(-1), bad.argmax(-1) + 1, 0).astype(np.int32)


def _adjoint(xp: Any, x: Array) -> Array:
    return xp.conj(x.swapaxes(-1, -2))


@lowers(cholesky.CHOLESKY_SOLVE)
def cholesky_solve(xp: Any, x: Array, y: Array, upper: bool) -> Array:
    other = _adjoint(xp, y)
    first, second = (other, y) if upper else (y, other)
    half = triangular_solve(xp, first, x, upper=False, unit=False)
    return triangular_solve(xp, second, half, upper=True, unit=False)


# -- determinants -------------------------------------------------------------------------------


@lowers(det.DET)
def det_(xp: Any, x: Array) -> Array:
    out = xp.asarray(xp.linalg.det(x)).astype(x.dtype)
    return _unless(_pivots_nan(xp, x, out), out)


def _pivots_nan(xp: Any, x: Array, out: Array) -> Array | None:
    """Which determinants are zero only because LAPACK takes a NaN for no pivot; None: no one."""
    if xp is not np or out.all():
        return None
    return (out == 0) & np.isnan(x).any(axis=(-2, -1))


def _unless(nan: Array | None, out: Array) -> Array:
    return out if nan is None else np.where(nan, out.dtype.type(np.nan), out)


@lowers(det.SLOGDET)
def slogdet(xp: Any, x: Array) -> tuple[Array, Array]:
    sign, logabs = map(xp.asarray, xp.linalg.slogdet(x))
    sign = sign.astype(x.dtype)
    nan = _pivots_nan(xp, x, sign)
    return _unless(nan, sign), _unless(nan, logabs)


@lowers(det.COFACTOR)
def cofactor(xp: Any, x: Array) -> Array:
    """conj(det) x^-H; through singular values where x is (nearly) singular, which is exact."""
    if 0 in x.shape:
        return x.copy()
    if x.shape[-1] <= det.MOST_BY_MINORS:
        return cofactors.by_minors(xp, x)
    if xp is np and (out := cofactors.by_inverse(x)) is not None:
        return out
    finite = xp.isfinite(x).all(axis=(-2, -1), keepdims=True)  # others have no singular values
    U, S, Vh = xp.linalg.svd(xp.where(finite, x, x.dtype.type(0)))
    turn = xp.linalg.det(U) * xp.linalg.det(Vh)
    n = x.shape[-1]
    others = xp.where(xp.eye(n, dtype=bool), 1, S[..., None, :])  # without its own value
    products = xp.prod(others, axis=-1).astype(S.dtype)
    out = xp.conj(turn)[..., None, None] * xp.matmul(U * products[..., None, :], Vh)
    return xp.where(finite, out, out.dtype.type(np.nan))


# -- orthogonal factors -------------------------------------------------------------------------


def _identity(xp: Any, like: Array, rows: int, columns: int) -> Array:
    """Identity matrices in the batch of `like`: the orthogonal factors of empty matrices."""
    eye = xp.eye(rows, columns, dtype=like.dtype)
    return xp.broadcast_to(eye, (*like.shape[:-2], rows, columns)).copy()


@lowers(qr.QR)
def qr_(xp: Any, x: Array, mode: str) -> tuple[Array, Array]:
    m, n = x.shape[-2:]
    if 0 in x.shape:
        return _empty_qr(xp, x, m, n, mode)
    factors = blocks.qr(xp, x, mode) if on_device(xp) else None
    if factors is not None:
        left, right = factors
        return xp.empty((0,), x.dtype) if left is None else left, right
    if mode == "r":
        return xp.empty((0,), x.dtype), row_major(xp, xp.linalg.qr(x, mode="r"))
    q, r = xp.linalg.qr(x, mode=mode)
    return row_major(xp, q), row_major(xp, r)


def _empty_qr(xp: Any, x: Array, m: int, n: int, mode: str) -> tuple[Array, Array]:
    k = m if mode == "complete" else min(m, n)
    batch = x.shape[:-2]
    q = xp.empty((0,), x.dtype)
    if mode != "r":
        q = _identity(xp, x, m, k)
    return q, xp.zeros((*batch, k, n), x.dtype)


@lowers(qr.GEQRF)
def geqrf(xp: Any, x: Array) -> tuple[Array, Array]:
    if 0 in x.shape:
        return x.copy(), xp.zeros((*x.shape[:-2], min(x.shape[-2:])), x.dtype)
    h, tau = np.linalg.qr(_host(xp, x), mode="raw")
    h, tau = h.swapaxes(-1, -2).astype(x.dtype), tau.astype(x.dtype)
    return xp.ascontiguousarray(xp.asarray(h)), xp.asarray(tau)


@lowers(svd.SVD)
def svd_(xp: Any, x: Array, full_matrices: bool) -> tuple[Array, Array, Array]:
    m, n = x.shape[-2:]
    if 0 in x.shape:
        k = min(m, n)
        rows, columns = (m, n) if full_matrices else (k, k)
        values = xp.zeros((*x.shape[:-2], k), np.zeros(0, x.dtype).real.dtype)
        return _identity(xp, x, m, rows), values, _identity(xp, x, columns, n)
    _need_finite(xp, x, "linalg.svd")
    if on_device(xp) and (m == n or not full_matrices):
        factors = singular.svd(xp, x)
        if factors is not None:
            return factors
    if xp is np and _is_single(x):
        u, s, vh = _svd_single(x, "svd_f" if full_matrices else "svd_s")
        return u, s, vh
    u, s, vh = xp.linalg.svd(x, full_matrices=full_matrices)
    return u, s, vh


def _svd_single(x: Array, name: str) -> Any:
    """LAPACK's own routine, as below; without vectors where `name` is "svd"."""
    alone = name == "svd"
    try:
        from numpy.linalg import _umath_linalg as loops
    except ImportError:
        if alone:
            return np.linalg.svd(x, compute_uv=False)
        return np.linalg.svd(x, full_matrices=name == "svd_f")
    char = x.dtype.char
    with np.errstate(all="ignore"):
        kinds = f"{char}->f" if alone else f"{char}->{char}f{char}"
        factors = getattr(loops, name)(x, signature=kinds)
    if np.isnan(factors if alone else factors[1]).any():
        raise LinAlgError(f"linalg.svd: {UNFINISHED}")
    return factors


@lowers(svd.SVDVALS)
def svdvals(xp: Any, x: Array) -> Array:
    if 0 in x.shape or on_device(xp):
        return svd_(xp, x, full_matrices=False)[1]
    _need_finite(xp, x, "linalg.svd")
    if xp is np and _is_single(x):
        return _svd_single(x, "svd")
    return xp.linalg.svd(x, compute_uv=False)


def _need_finite(xp: Any, x: Array, name: str) -> None:
    if not _finite(xp, x):
        which = ""
        if x.ndim > 2:
            bad = ~xp.isfinite(x).all(axis=(-2, -1)).reshape(-1)
            which = f"(Batch element {int(xp.argmax(bad))}): "
        raise LinAlgError(f"{name}: {which}{NOT_FINITE}")


@lowers(svd.PINV)
def pinv(xp: Any, x: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    m, n = x.shape[-2:]
    if 0 in x.shape:
        return xp.zeros((*x.shape[:-2], n, m), x.dtype)
    if hermitian:
        s, u = eigh(xp, x, upper=False)
        vh = _adjoint(xp, u)
    elif xp is np:
        u, s, vh = svd_(xp, x, full_matrices=False)
    else:
        _need_finite(xp, x, "linalg.svd")
        u, s, vh = xp.linalg.svd(x, full_matrices=False)
    size = abs(s)
    limit = _threshold(xp, size, atol, rtol)
    inverse = xp.where(size > limit, 1 / xp.where(size > limit, s, 1), 0).astype(s.dtype)
    out = xp.matmul(_adjoint(xp, vh) * inverse[..., None, :], _adjoint(xp, u))
    return out.astype(x.dtype)


def _threshold(xp: Any, size: Array, atol: Any, rtol: Any) -> Array:
    per_matrix = (t[..., None] if hasattr(t, "shape") else t for t in (atol, rtol))
    absolute, relative = per_matrix
    return xp.maximum(absolute, relative * size.max(axis=-1, keepdims=True))


# -- eigenvalues --------------------------------------------------------------------------------


# NumPy computes eigenvectors and singular vectors of single precision in double. Their signs then
# differ from those LAPACK's own routine finds, which PyTorch's users see.


def _is_single(x: Array) -> bool:
    return bool(x.dtype.itemsize == (8 if x.dtype.kind == "c" else 4))


@lowers(eigen.EIGH)
def eigh(xp: Any, x: Array, upper: bool) -> tuple[Array, Array]:
    real = np.zeros(0, x.dtype).real.dtype
    if 0 in x.shape:
        return xp.zeros(x.shape[:-1], real), x.copy()
    _need_finite(xp, x, "linalg.eigh")
    if xp is np and _is_single(x):
        return _eigh_single(x, upper)
    values, vectors = xp.linalg.eigh(x, UPLO="U" if upper else "L")
    return values, vectors


def _eigh_single(x: Array, upper: bool) -> tuple[Array, Array]:
    """LAPACK's own routine by NumPy's generalised function, or by SciPy where that is gone."""
    try:
        from numpy.linalg._umath_linalg import eigh_lo, eigh_up
    except ImportError:
        from scipy.linalg import eigh as solve

        return each_matrix(lambda a: solve(a, lower=not upper, driver="evd"), x, 2)
    kinds = "F->fF" if x.dtype.kind == "c" else "f->ff"
    with np.errstate(all="ignore"):
        values, vectors = (eigh_up if upper else eigh_lo)(x, signature=kinds)
    if np.isnan(values).any():
        raise LinAlgError(f"linalg.eigh: {UNFINISHED}")
    return values, vectors


@lowers(eigen.EIGVALSH)
def eigvalsh(xp: Any, x: Array, upper: bool) -> Array:
    real = np.zeros(0, x.dtype).real.dtype
    if 0 in x.shape:
        return xp.zeros(x.shape[:-1], real)
    _need_finite(xp, x, "linalg.eigvalsh")
    if xp is np and _is_single(x):
        return _eigvalsh_single(x, upper)
    return xp.linalg.eigvalsh(x, UPLO="U" if upper else "L")


def _eigvalsh_single(x: Array, upper: bool) -> Array:
    """The same, of values alone."""
    try:
        from numpy.linalg._umath_linalg import eigvalsh_lo, eigvalsh_up
    except ImportError:
        return _eigh_single(x, upper)[0]
    with np.errstate(all="ignore"):
        signature = "F->f" if x.dtype.kind == "c" else "f->f"
        values = (eigvalsh_up if upper else eigvalsh_lo)(x, signature=signature)
    if np.isnan(values).any():
        raise LinAlgError(f"linalg.eigvalsh: {UNFINISHED}")
    return values


@lowers(eigen.EIG)
def eig(xp: Any, x: Array) -> tuple[Array, Array]:
    kind = NUMPY_OF[DTYPE_OF[x.dtype].to_complex()]
    if 0 in x.shape:
        return xp.zeros(x.shape[:-1], kind), xp.zeros(x.shape, kind)
    if not _finite(xp, x):
        raise RuntimeError(NO_EIGENVALUES)
    values, vectors = _eig(_host(xp, x))
    return xp.asarray(values.astype(kind)), xp.asarray(vectors.astype(kind))


def _eig(x: Array) -> tuple[Array, Array]:
    """In the precision of x: NumPy's generalised function has that of real numbers alone."""
    if not _is_single(x):
        values, vectors = np.linalg.eig(x)
        return values, vectors
    if x.dtype.kind != "c":
        try:
            from numpy.linalg._umath_linalg import eig as general
        except ImportError:
            pass
        else:
            with np.errstate(all="ignore"):
                values, vectors = general(x, signature="f->FF")
            if np.isnan(values).any():
                raise LinAlgError(f"linalg.eig: {UNFINISHED}")
            return values, vectors
    from scipy.linalg import eig as solve

    values, vectors = each_matrix(solve, x, 2)
    return values, vectors


@lowers(eigen.EIG_PAIRS)
def eig_pairs(xp: Any, x: Array) -> tuple[Array, Array]:
    values, vectors = (xp.ascontiguousarray(y) for y in eig(xp, x))
    return tuple(y.view(x.dtype).reshape((*y.shape, 2)) for y in (values, vectors))


@lowers(powers.MATRIX_EXP)
def matrix_exp(xp: Any, x: Array) -> Array:
    if 0 in x.shape:
        return x.copy()
    if on_device(xp):
        exponentials = device.matrix_exp(xp, x)
        if exponentials is not None:
            return exponentials
    from scipy.linalg import expm

    # In double: SciPy's single precision loses more digits than PyTorch's does.
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    flat = _host(xp, x).astype(wide).reshape((prod(x.shape[:-2]), *x.shape[-2:]))
    finite = np.isfinite(flat).all(axis=(-2, -1))
    out = np.full(flat.shape, np.nan, wide)  # as PyTorch has all of a matrix that is not finite
    if finite.any():
        out[finite] = expm(flat[finite])
    return xp.asarray(out.reshape(x.shape).astype(x.dtype))
