"""Cofactors and determinants of little matrices by one kernel, which reads them element by element.

A cofactor is the determinant of what its row and column leave. The eager table has a launch for
every product and difference of minors, and CuPy some dozens of calls for a determinant.
"""

from __future__ import annotations

from itertools import product
from math import prod

from adjoint.engine.core.dtype import float64
from adjoint.engine.graph.ir import Node
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.linalg.det import MOST_BY_MINORS
from adjoint.engine.tensor.tensor import Tensor


def cofactors(x: Tensor) -> Tensor:
    """Those of (..., n, n), n from 2 to `MOST_BY_MINORS`."""
    n = int(x.shape[-1])
    elements = x.reshape(-1)
    # All of one shape, so that all of it is one kernel.
    number = elements.new_arange(prod([int(size) for size in x.shape]))
    row, column, begin = number // n % n, number % n, number // (n * n) * (n * n)
    left = range(n - 1)
    rows = [(row <= k).to(number.dtype) + k for k in left]  # those that a row leaves, in order
    columns = [(column <= k).to(number.dtype) + k for k in left]
    of = {(i, j): elements[begin + rows[i] * n + columns[j]] for i, j in product(left, left)}
    minor = of[0, 0]
    if n == 3:
        minor = of[0, 0] * of[1, 1] - of[0, 1] * of[1, 0]
    if n == 4:
        terms = [
            of[0, i] * (of[1, j] * of[2, k] - of[1, k] * of[2, j])
            for i, j, k in ((0, 1, 2), (1, 0, 2), (2, 0, 1))
        ]
        minor = terms[0] - terms[1] + terms[2]
    odd = (row + column) % 2 == 1
    return (-minor).where(odd, minor).reshape(x.shape)


def determinants(x: Tensor) -> Tensor:
    """Those of (..., n, n), by elimination: of what is left of a column, the largest is its pivot.

    A column of zeros has a pivot of zero, and leaves rows as they are; NaN stays in what it meets.
    Singles are computed in double precision, as on the CPU.
    """
    n, batch = int(x.shape[-1]), tuple(int(size) for size in x.shape[:-2])
    elements = x.reshape(-1)
    begin = elements.new_arange(prod(batch)) * (n * n)
    rows = [[elements[begin + (i * n + j)].to(float64) for j in range(n)] for i in range(n)]
    out = elements.new_ones(prod(batch), dtype=float64)
    for k in range(n):
        top = rows[k]
        for i in range(k + 1, n):
            swap = rows[i][k].abs() > top[k].abs()
            out = (-out).where(swap, out)
            both = [(b.where(swap, a), a.where(swap, b)) for a, b in zip(top, rows[i], strict=True)]
            top, rows[i] = [a for a, _ in both], [b for _, b in both]
        out = out * top[k]
        pivot = top[k].masked_fill(top[k] == 0, 1)
        for i in range(k + 1, n):
            factor = rows[i][k] / pivot
            rows[i] = [b - factor * a for a, b in zip(top, rows[i], strict=True)]
    return out.to(x.dtype).reshape(batch)


def are_little(node: Node) -> bool:
    """Whether matrices are known, and as little as that."""
    spec = node.inputs[0].spec
    known = not any(is_extent(size) or size == 0 for size in spec.shape)
    return known and not spec.dtype.is_complex and 2 <= spec.shape[-1] <= MOST_BY_MINORS
