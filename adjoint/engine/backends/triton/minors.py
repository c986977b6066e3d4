"""Cofactors of little matrices by one kernel: each is the determinant of what its row and column
leave, which is read element by element.

The eager table has a launch for every product and difference of their minors.
"""

from __future__ import annotations

from itertools import product
from math import prod

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


def are_little(node: Node) -> bool:
    """Whether matrices are known, and as little as that."""
    spec = node.inputs[0].spec
    known = not any(is_extent(size) or size == 0 for size in spec.shape)
    return known and not spec.dtype.is_complex and 2 <= spec.shape[-1] <= MOST_BY_MINORS
