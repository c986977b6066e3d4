"""Kernels that call LAPACK through SciPy, matrix by matrix; on CUDA they go through the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.linalg.device import least_squares
from adjoint.engine.backends.array.kernels.linalg.threaded import lowers
from adjoint.engine.backends.array.table import on_device
from adjoint.engine.core.errors import LinAlgError
from adjoint.engine.ops.linalg import ldl, lstsq, lu
from adjoint.engine.ops.linalg.failures import SINGULAR, WRONG_PIVOTS, kind_of

Array = Any


def refuse(name: str, kind: str, info: Array) -> None:
    """Raise for the first matrix whose `info` says that it failed."""
    failed = np.flatnonzero(info)
    if not failed.size:
        return
    first = int(failed[0])
    which = f"(Batch element {first}): " if info.ndim else ""
    code = int(info.reshape(-1)[first])
    raise LinAlgError(f"{name}: {which}{SINGULAR[kind].format(info=code)}")


def lapack(name: str, *arrays: Array) -> Any:
    """The LAPACK function of that name for the arrays' dtype."""
    return _lapack(name, np.result_type(*arrays))


@cache
def _lapack(name: str, dtype: Any) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs((name,), dtype=dtype)[0]


@cache
def blas(name: str, dtype: Any) -> Any:
    """The function of BLAS of that name for a dtype."""
    from scipy.linalg import get_blas_funcs

    return get_blas_funcs((name,), dtype=dtype)[0]


def host(xp: Any, *arrays: Array) -> tuple[Array, ...]:
    """Arrays in the host's memory."""
    return arrays if xp is np else tuple(xp.asnumpy(a) for a in arrays)


def device(xp: Any, *arrays: Array) -> tuple[Array, ...]:
    """Arrays where the operands were."""
    return tuple(xp.asarray(a) for a in arrays)


def each_matrix(fn: Callable[..., tuple[Any, ...]], x: Array, count: int) -> tuple[Array, ...]:
    """fn's results for each matrix of a batch that is not empty, stacked."""
    batch = x.shape[:-2]
    if not batch:
        return tuple(np.asarray(y, order="C") for y in fn(x)[:count])
    rows = [fn(x[i])[:count] for i in np.ndindex(batch)]
    columns = (np.stack([np.asarray(r[c]) for r in rows]) for c in range(count))
    return tuple(c.reshape((*batch, *c.shape[1:])) for c in columns)


@lowers(lu.LU_FACTOR)
def lu_factor(xp: Any, x: Array, name: str, check: bool) -> tuple[Array, Array, Array]:
    k = min(x.shape[-2:])
    batch = x.shape[:-2]
    if 0 in x.shape:
        return x.copy(), xp.zeros((*batch, k), np.int32), xp.zeros(batch, np.int32)
    (x,) = host(xp, x)
    getrf = lapack("getrf", x)
    factors, pivots, info = each_matrix(getrf, x, 3)
    info = info.astype(np.int32)
    if check:
        called = f"torch.{name}" if name == "linalg.lu_factor" else name
        refuse(called, kind_of("lu_factor", name), info)
    return device(xp, np.ascontiguousarray(factors), (pivots + 1).astype(np.int32), info)


@lowers(lu.PERMUTATION)
def permutation(xp: Any, pivots: Array, size: int, inverse: bool) -> Array:
    (pivots,) = host(xp, pivots)
    if pivots.ndim == 1:
        return xp.asarray(_exchanged(pivots.tolist(), size, inverse))
    out = np.broadcast_to(np.arange(size), (*pivots.shape[:-1], size)).copy()
    lanes = tuple(np.indices(pivots.shape[:-1], sparse=True))
    for i in range(pivots.shape[-1]):
        j = (*lanes, pivots[..., i] - 1)
        row = out[..., i].copy()
        out[..., i] = out[j]
        out[j] = row
    if inverse:
        out = np.argsort(out, axis=-1)
    return xp.asarray(out)


def _exchanged(pivots: list[int], size: int, inverse: bool) -> Array:
    """The same of one matrix, without NumPy's calls at each exchange."""
    rows = list(range(size))
    for i, pivot in enumerate(pivots):
        rows[i], rows[pivot - 1] = rows[pivot - 1], rows[i]
    return np.argsort(rows) if inverse else np.array(rows, np.int64)


@lowers(ldl.LDL_FACTOR)
def ldl_factor(
    xp: Any, x: Array, name: str, check: bool, hermitian: bool
) -> tuple[Array, Array, Array]:
    batch = x.shape[:-2]
    if 0 in x.shape:
        return x.copy(), xp.zeros(x.shape[:-1], np.int32), xp.zeros(batch, np.int32)
    (x,) = host(xp, x)
    factor = lapack(_kind("trf", x, hermitian), x)
    factors, pivots, info = each_matrix(lambda a: factor(a, lower=1), x, 3)
    info = info.astype(np.int32)
    if check:
        refuse(name, "ldl_factor", info)
    return device(xp, np.tril(factors), pivots.astype(np.int32), info)


def _kind(stem: str, x: Array, hermitian: bool) -> str:
    """Hermitian matrices have routines of their own where complex."""
    return ("he" if hermitian and x.dtype.kind == "c" else "sy") + stem


@lowers(ldl.LDL_SOLVE)
def ldl_solve(xp: Any, x: Array, pivots: Array, y: Array, hermitian: bool) -> Array:
    if 0 in y.shape:
        return xp.zeros(y.shape, y.dtype)
    x, pivots, y = host(xp, x, pivots, y)
    if not _are_pivots(pivots):
        raise RuntimeError(WRONG_PIVOTS)
    solve = lapack(_kind("trs", x, hermitian), x)
    out = np.empty(y.shape, y.dtype)
    for i in np.ndindex(x.shape[:-2]):
        out[i] = solve(x[i], pivots[i], y[i], lower=1)[0]
    return xp.asarray(out)


def _are_pivots(pivots: Array) -> bool:
    """Whether exchanges are of rows that there are: LAPACK would go wherever they say.

    A block of two by two is told by two equal numbers below zero.
    """
    rows = np.abs(pivots)
    if not ((rows >= 1) & (rows <= pivots.shape[-1])).all():
        return False
    for line in pivots.reshape(-1, pivots.shape[-1]).tolist():
        k = 0
        while k < len(line):
            if line[k] < 0 and line[k : k + 2] != [line[k]] * 2:
                return False
            k += 2 if line[k] < 0 else 1
    return True


@lowers(lstsq.LSTSQ)
def lstsq_(xp: Any, x: Array, y: Array, rcond: float, driver: str) -> tuple[Array, Array, Array]:
    m, n = x.shape[-2:]
    batch, k = x.shape[:-2], y.shape[-1]
    real = np.zeros(0, x.dtype).real.dtype
    if on_device(xp) and driver in ("gels", "gelsy") and x.size and y.size:
        solutions = least_squares(xp, x, y, rcond)
        if solutions is not None:
            ranks = xp.full(batch, min(m, n), np.int64)
            return solutions, ranks, xp.zeros((*batch, min(m, n)), real)
    x, y = host(xp, x, y)
    solution = np.zeros((*batch, n, k), x.dtype)
    rank = np.zeros(batch, np.int64)
    values = np.zeros((*batch, min(m, n)), real)
    used = "gelsy" if driver == "gels" else driver
    if used == "gelsy" and x.size and k:
        find = _pivoted(x, y, rcond)
        for i in np.ndindex(batch) if batch else ((),):
            solution[i], rank[i] = find(x[i], y[i])
    elif m and n:
        from scipy.linalg import lstsq as solve

        for i in np.ndindex(batch):
            results = solve(x[i], y[i], cond=rcond, lapack_driver=used, check_finite=False)
            solution[i], rank[i] = results[0], results[2]
            if results[3] is not None:
                values[i] = results[3]
    return device(xp, solution, rank, values)


@lru_cache(maxsize=256)
def _room(dtype: Any, m: int, n: int, k: int) -> int:
    """How much memory gelsy asks for, which the rank's bound has no say in."""
    return int(np.real(_lapack("gelsy_lwork", dtype)(m, n, k, 0.0)[0]))


def _pivoted(x: Array, y: Array, rcond: float) -> Callable[[Array, Array], tuple[Array, int]]:
    """LAPACK's solution of least squares by orthogonal factors with pivots, and its rank.

    SciPy's function takes several times as long around it as a little matrix does.
    """
    (m, n), k = x.shape[-2:], y.shape[-1]
    gelsy, work = lapack("gelsy", x, y), _room(np.result_type(x, y), m, n, k)
    # Room for the solution where that is longer than the right side.
    right = np.zeros((max(m, n), k), y.dtype, order="F")
    pivots = np.zeros((n, 1), np.int32)

    def find(a: Array, b: Array) -> tuple[Array, int]:
        right[:m], pivots[:] = b, 0
        _, found, _, rank, info = gelsy(a, right, pivots, rcond, work, False, False)
        if info:
            raise LinAlgError(f"linalg.lstsq: LAPACK's gelsy refuses its argument {-info}")
        return found[:n], rank

    return find
