"""The kernel of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.backends.array.dtypes import NUMPY_OF, accumulator
from adjoint.backends.array.table import lowers
from adjoint.core.dtype import DTYPES, bfloat16, bool_
from adjoint.ops.matmul import MATMUL

# What the library multiplies as PyTorch does. NumPy has no products of halves worth having; they
# go through float32. CuPy multiplies halves on tensor cores, accumulating in float32.
_DIRECT = frozenset(d for k, d in NUMPY_OF.items() if k is not bool_ and not k.is_half)
_WIDE = {NUMPY_OF[d]: accumulator(d) for d in DTYPES if d.is_half}
_matmul = np.matmul


@lowers(MATMUL)
def matmul(xp: Any, x: Any, y: Any) -> Any:
    dtype = x.dtype
    if dtype is not y.dtype and dtype != y.dtype:
        raise TypeError("matmul: operands of two dtypes")  # infer says it better
    if xp is np:
        if dtype in _DIRECT:
            return _matmul(x, y)
        wide = _WIDE[dtype]  # booleans raise here, and infer says why
        return _matmul(x.astype(wide), y.astype(wide)).astype(dtype)
    if dtype == NUMPY_OF[bfloat16] and (x.ndim > 2 or y.ndim > 2):
        wide = _WIDE[dtype]  # CuPy has no batched products of bfloat16
        return xp.matmul(x.astype(wide), y.astype(wide)).astype(dtype)
    return xp.matmul(x, y)
