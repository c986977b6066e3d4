"""The kernels of matrix products."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF, accumulator
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.core.dtype import DTYPES, bfloat16, bool_
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.ops.products.linear import LINEAR, bias_of_another_dtype
from adjoint.engine.ops.products.matmul import MATMUL

# What the libraries multiply as PyTorch does. NumPy has no products of halves worth having; they
# go through float32. CuPy multiplies halves on tensor cores, accumulating in float32,
# all but batches of bfloat16.
_DIRECT = frozenset(d for k, d in NUMPY_OF.items() if k is not bool_ and not k.is_half)
_WIDE = {NUMPY_OF[d]: accumulator(d) for d in DTYPES if d.is_half}
_BFLOAT16 = NUMPY_OF[bfloat16]
OUTER = 1 << 12  # elements from which on one call takes longer than two, of fewer steps each


@lowers(MATMUL)
def matmul(xp: Any, x: Any, y: Any) -> Any:
    dtype = x.dtype
    if xp is not np and STREAM_CAPTURE.graph is not None:
        return STREAM_CAPTURE.graph.product(x, y)
    if dtype is y.dtype and dtype in _DIRECT:  # the path that must be quick
        if y.ndim > 1 and y.shape[-2] == 1 and xp is np and _is_outer(x, y):
            return _outer(x, y)
        return _by_rows(xp, xp.matmul(x, y))
    if dtype != y.dtype or dtype.kind == "b":
        raise TypeError("matmul: operands of two dtypes, or booleans")  # infer says it better
    on_tensor_cores = xp is not np and (dtype != _BFLOAT16 or (x.ndim == 2 and y.ndim == 2))
    if on_tensor_cores or dtype not in _WIDE:
        return _by_rows(xp, xp.matmul(x, y))
    wide = _WIDE[dtype]
    return _by_rows(xp, xp.matmul(x.astype(wide), y.astype(wide)).astype(dtype))


def _is_outer(x: Any, y: Any) -> bool:
    """Whether these are one column and one row, or stacks of as many, for a result of some size.

    Of real numbers, and of sizes that fit: of others the library says what is wrong.
    """
    columns, rows = x.shape, y.shape
    if columns[:-2] != rows[:-2] or columns[-1] != 1 or x.dtype.kind == "c":
        return False
    return bool(x.size * rows[-1] >= OUTER)


def _outer(x: Any, y: Any) -> Any:
    """Their product, a term for each element: the library's takes four times as long, and ten
    times as long of stacks, whose matrices it takes one by one.

    Sums begin with 0, which such a term may lack the sign of.
    """
    out = np.multiply(x, y, order="C")
    if out.dtype.kind == "f":
        out += 0
    return out


def _by_rows(xp: Any, out: Any) -> Any:
    """Of two or more leading dimensions the libraries keep the order that the operands have."""
    return out if out.ndim < 4 else xp.ascontiguousarray(out)


@lowers(LINEAR)
def linear(xp: Any, x: Any, y: Any, z: Any = None) -> Any:
    if x.dtype != y.dtype or x.dtype.kind == "b":
        raise DTypeError(
            f"linear: mat1 and mat2 must have the same dtype, but got {x.dtype} and {y.dtype}. "
            "Convert one with .to(...)."
        )
    if z is not None and z.dtype != x.dtype:
        raise DTypeError(bias_of_another_dtype(x.dtype, z.dtype))
    if x.ndim > 2 and y.ndim == 2:  # one product of matrices, not one per leading index
        rows = prod(x.shape[:-1])  # of no features, -1 would say nothing
        out = matmul(xp, x.reshape(rows, x.shape[-1]), y.T).reshape(*x.shape[:-1], y.shape[0])
    elif y.ndim == 1:
        out = matmul(xp, x, y[:, None])[..., 0]
    else:
        out = matmul(xp, x, y.T)
    if z is None:
        return out
    if out.ndim:
        out += z
        return out
    return out + z
