"""Sums, differences, products and quotients with sparse operands."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.index.index import INDEX
from adjoint.engine.ops.order.search import searchsorted
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.sparse.compressed import CompressedTensor
from adjoint.engine.sparse.coo import (
    CooTensor,
    added,
    coordinates_of,
    full_size,
    make,
    picked,
    positions,
    refuse_capture,
)
from adjoint.engine.sparse.tensor import SparseTensor, refusal
from adjoint.engine.tensor.tensor import Tensor


def add(x: Any, y: Any) -> Tensor:
    """x + y: sparse and sparse of one layout, or dense and sparse."""
    if not isinstance(x, SparseTensor):
        return _dense_plus(x, y)
    if not is_tensor(y):
        raise refusal("add of a number", x)
    if not isinstance(y, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    _same_shape("add", x, y)
    if isinstance(x, CompressedTensor) or isinstance(y, CompressedTensor):
        if not isinstance(x, CompressedTensor) or type(x) is not type(y):
            raise refusal("add of two layouts", x)
        if x._starts is y._starts and x._places is y._places:
            return x.with_elements(x._elements + y._elements)
        return x.in_layout(joined(x.spread(), y.spread()).coalesce())
    return joined(x, y)


def joined(x: Any, y: Any) -> CooTensor:
    """The elements of both, coalesced if both are, or if there are more than in a dense tensor."""
    if x.sparse_dim() != y.sparse_dim():
        raise ShapeError(
            f"add: the tensors index {x.sparse_dim()} and {y.sparse_dim()} dimensions; these "
            "numbers must be equal"
        )
    if x._coordinates is y._coordinates:
        return x.with_elements(x._elements + y._elements)
    coordinates = cat([x._coordinates, y._coordinates], 1)
    elements = cat([x._elements, y._elements], 0)
    total = make(coordinates, elements, tuple(x.shape), coalesced=False)
    if (x._coalesced and y._coalesced) or total._nnz() > full_size(x):
        return total.coalesce()
    return total


def _dense_plus(x: Any, y: Any) -> Tensor:
    if not is_tensor(x):
        raise refusal("add of a number", y)
    _same_shape("add", x, y)
    y = y.spread()
    dtype = (x._elements if isinstance(x, SparseTensor) else x).new_zeros(())
    common = (dtype + y._elements.new_zeros(())).dtype
    return added(x.to(common), y.to(common))


def subtract(x: Any, y: Any) -> Tensor:
    """x - y."""
    return add(x, -y)


def multiply(x: Any, y: Any) -> Tensor:
    """x * y: by a number, by a dense tensor, or element by element of two sparse ones."""
    if not isinstance(x, SparseTensor):
        x, y = y, x
    if not is_tensor(y) or (not isinstance(y, SparseTensor) and y.ndim == 0):
        return x.with_elements(x._elements * y)
    if isinstance(y, SparseTensor):
        _same_shape("mul", x, y)
        return x.in_layout(_common(x.to_sparse().coalesce(), y.to_sparse().coalesce()))
    return x.with_elements(x._elements * picked(y.expand(tuple(x.shape)), x))


def _common(x: CooTensor, y: CooTensor) -> CooTensor:
    """The product of two coalesced tensors: what both keep."""
    refuse_capture("mul")
    if x.sparse_dim() != y.sparse_dim():
        raise refusal("mul of tensors with different sparse dimensions", x)
    size = tuple(x.shape)
    sparse_size = size[: x.sparse_dim()]
    if not x._nnz() or not y._nnz():
        return make(x._coordinates[:, :0], x._elements[:0] * y._elements[:0], size, coalesced=True)
    mine, others = positions(x._coordinates, sparse_size), positions(y._coordinates, sparse_size)
    at = searchsorted(others, mine).clamp_max(y._nnz() - 1)
    both = INDEX(others, at, dims=(0,)) == mine
    here, there = both.nonzero().squeeze(1), at[both]
    elements = INDEX(x._elements, here, dims=(0,)) * INDEX(y._elements, there, dims=(0,))
    return make(coordinates_of(mine[both], sparse_size), elements, size, coalesced=True)


def divide(x: Any, y: Any) -> Tensor:
    """x / y, of a sparse tensor by a number."""
    if not isinstance(x, SparseTensor):
        raise refusal("div by a sparse tensor", y)
    if is_tensor(y) and (isinstance(y, SparseTensor) or y.ndim):
        raise ShapeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(y.shape)} for divisor)"
        )
    return x.with_elements(x._elements / y)


def power(x: Any, y: Any) -> Tensor:
    """x ** y, for a number y that keeps zeros zero."""
    if is_tensor(x) and isinstance(x, SparseTensor) and not is_tensor(y) and y > 0:
        x = x.coalesce() if isinstance(x, CooTensor) else x
        return x.with_elements(x._elements**y)
    raise refusal("pow", x if isinstance(x, SparseTensor) else y)


def _same_shape(name: str, x: Any, y: Any) -> None:
    if x.shape != y.shape:
        raise ShapeError(
            f"{name}: with a sparse operand sizes must be equal, received {list(x.shape)} and "
            f"{list(y.shape)}"
        )
