"""Cofactors of little matrices, by their minors: of a batch, one element of all at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
Row = Any  # the elements of a row, each of all matrices

MOST = 4  # rows: beyond, minors have minors, and singular values take fewer steps


def by_minors(x: Array) -> Array:
    """The conjugates of the cofactors of (..., n, n), singular or not.

    >>> by_minors(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[ 4., -3.],
           [-2.,  1.]])
    """
    n = x.shape[-1]
    elements = np.ascontiguousarray(np.conj(x).reshape(-1, n * n).T)
    rows = elements.reshape(n, n, -1)
    out = np.empty_like(rows)
    if n == 1:
        out[...] = 1
    elif n == 2:
        out[0, 0], out[0, 1] = rows[1, 1], -rows[1, 0]
        out[1, 0], out[1, 1] = -rows[0, 1], rows[0, 0]
    elif n == 3:
        for i in range(3):
            out[i] = _cross(rows[(i + 1) % 3], rows[(i + 2) % 3])
    else:
        upper, lower = _pairs(rows[0], rows[1]), _pairs(rows[2], rows[3])
        for i, (other, pairs) in enumerate(((1, lower), (0, lower), (3, upper), (2, upper))):
            for j in range(4):
                value = _minor(rows[other], pairs, [k for k in range(4) if k != j])
                out[i, j] = -value if (i + j) % 2 else value
    return np.ascontiguousarray(out.reshape(n * n, -1).T).reshape(x.shape)


def _cross(a: Row, b: Row) -> Array:
    """The vector product of two rows."""
    return np.stack(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    )


def _pairs(a: Row, b: Row) -> dict[tuple[int, int], Array]:
    """The minors of two rows, by columns."""
    return {(i, j): a[i] * b[j] - a[j] * b[i] for i in range(4) for j in range(i + 1, 4)}


def _minor(row: Row, pairs: dict[tuple[int, int], Array], columns: list[int]) -> Array:
    """The determinant of a row and two more, whose minors are given, in three columns."""
    p, q, r = columns
    return row[p] * pairs[q, r] - row[q] * pairs[p, r] + row[r] * pairs[p, q]
