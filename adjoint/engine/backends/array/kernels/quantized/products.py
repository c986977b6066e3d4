"""The kernel of products of whole numbers."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.array.table import lowers
from adjoint.engine.ops.quantized.products import INTEGER_MATMUL

# Products of int8 are at most 2^14, so that so many of them add up exactly in float32: the array
# library's products of floats, which are fast, then give what those of int32, which are not, would.
EXACT = 1 << 10


@lowers(INTEGER_MATMUL)
def integer_matmul(xp: Any, x: Any, y: Any) -> Any:
    depth = x.shape[-1]
    if depth <= EXACT:
        rows, columns = x.astype(xp.float32), y.astype(xp.float32)
        return xp.matmul(rows, columns.swapaxes(-1, -2)).astype(xp.int32)
    total = None
    for start in range(0, depth, EXACT):
        part = slice(start, start + EXACT)
        part_sum = integer_matmul(xp, x[..., part], y[..., part])
        total = part_sum if total is None else xp.add(total, part_sum, out=total)
    return total
