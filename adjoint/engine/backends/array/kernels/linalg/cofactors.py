"""Cofactors of little matrices by their minors, of others by their inverses.

Minors are of a batch, one element of all at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
Row = Any  # the elements of a row, each of all matrices

# Errors, of what is one at its largest, that double precision may make of these matrices.
SURE = {"f": 1e-7, "d": 1e-10, "F": 1e-7, "D": 1e-10}
BLOCK = 64  # columns that LAPACK treats together


def by_minors(xp: Any, x: Array) -> Array:
    """The conjugates of the cofactors of (..., n, n), singular or not.

    >>> by_minors(np, np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[ 4., -3.],
           [-2.,  1.]])
    """
    n = x.shape[-1]
    elements = xp.ascontiguousarray(xp.conj(x).reshape(-1, n * n).T)
    rows = elements.reshape(n, n, -1)
    out = xp.empty_like(rows)
    if n == 1:
        out[...] = 1
    elif n == 2:
        out[0, 0], out[0, 1] = rows[1, 1], -rows[1, 0]
        out[1, 0], out[1, 1] = -rows[0, 1], rows[0, 0]
    elif n == 3:
        for i in range(3):
            out[i] = _cross(xp, rows[(i + 1) % 3], rows[(i + 2) % 3])
    else:
        upper, lower = _pairs(rows[0], rows[1]), _pairs(rows[2], rows[3])
        for i, (other, pairs) in enumerate(((1, lower), (0, lower), (3, upper), (2, upper))):
            for j in range(4):
                value = _minor(rows[other], pairs, [k for k in range(4) if k != j])
                out[i, j] = -value if (i + j) % 2 else value
    return xp.ascontiguousarray(out.reshape(n * n, -1).T).reshape(x.shape)


def by_inverse(x: Array) -> Array | None:
    """The same of matrices that are all far from singular: det(x)* x^-H, in double precision.

    Rounding errors grow with the condition: None where they might be larger than `SURE`.
    """
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)
    with np.errstate(all="ignore"):
        try:
            if wide.ndim == 2:
                inverse, det = _inverted(wide)
            else:
                inverse, det = np.linalg.inv(wide), np.linalg.det(wide)
        except np.linalg.LinAlgError:  # singular
            return None
        condition = _norm(wide) * _norm(inverse)
        sure = condition * np.finfo(np.float64).eps < SURE[x.dtype.char]
        size = np.abs(det)
        sure &= np.isfinite(size) & (size >= np.finfo(np.float64).tiny)
        if not sure.all():
            return None
        out = np.conj(det)[..., None, None] * np.conj(np.swapaxes(inverse, -2, -1))
        return np.ascontiguousarray(out.astype(x.dtype))


def _inverted(x: Array) -> tuple[Array, Array]:
    """The inverse and the determinant of one matrix, whose elimination is done once."""
    from scipy.linalg import get_lapack_funcs

    getrf, getri = get_lapack_funcs(("getrf", "getri"), (x,))
    factors, pivots, info = getrf(x)
    if info:
        raise np.linalg.LinAlgError
    inverse, _ = getri(factors, pivots, lwork=BLOCK * len(x))
    exchanged = np.count_nonzero(pivots != np.arange(len(x)))
    return inverse, np.prod(np.diagonal(factors)) * (-1) ** exchanged


def _norm(x: Array) -> Array:
    """The largest sum of a column's absolute values."""
    return np.abs(x).sum(-2).max(-1)


def _cross(xp: Any, a: Row, b: Row) -> Array:
    """The vector product of two rows."""
    return xp.stack(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    )


def _pairs(a: Row, b: Row) -> dict[tuple[int, int], Array]:
    """The minors of two rows, by columns."""
    return {(i, j): a[i] * b[j] - a[j] * b[i] for i in range(4) for j in range(i + 1, 4)}


def _minor(row: Row, pairs: dict[tuple[int, int], Array], columns: list[int]) -> Array:
    """The determinant of a row and two more, whose minors are given, in three columns."""
    p, q, r = columns
    return row[p] * pairs[q, r] - row[q] * pairs[p, r] + row[r] * pairs[p, q]
