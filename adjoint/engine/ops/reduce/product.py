"""The product over dimensions."""

from __future__ import annotations

from math import prod as product_of
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.reductions import Dims, reduction
from adjoint.engine.ops.reduce.reduction import SUM, all_dims, in_dtype, restore
from adjoint.engine.ops.reduce.scan import before
from adjoint.engine.ops.shape.views import inverse_permutation

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _others(x: Tensor, dims: Dims) -> Tensor:
    """For each element the product of all others it is multiplied with; zeros do not matter."""
    others = tuple(d for d in range(x.ndim) if d not in dims)
    order = (*others, *dims)
    moved = x.permute(order)
    rows = [x.shape[d] for d in others]
    flat = moved.reshape(*rows, product_of(x.shape[d] for d in dims))
    last = len(rows)
    rest = before(flat, last) * before(flat, last, reverse=True)
    return rest.reshape(moved.shape).permute(inverse_permutation(order))


PROD = reduction(
    "prod",
    lambda g, x, x_spec, dims, keepdim: restore(g, x_spec, dims, keepdim) * _others(x, dims).conj(),
    jvp=lambda tx, x, dims, keepdim: SUM(tx * _others(x, dims), dims=dims, keepdim=keepdim),
    rounding="product",
)


@public(method=True, out=True)
def prod(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The product over `dim` (all dimensions by default); integers multiply in int64.

    Example:
        >>> import adjoint as ad
        >>> ad.tensor([2, 3, 4]).prod()
        tensor(24)
    """
    x = in_dtype(input, dtype)
    return PROD(x, dims=all_dims("prod", dim, x.ndim), keepdim=keepdim)
