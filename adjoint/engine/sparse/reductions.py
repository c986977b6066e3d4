"""Sums, norms and softmax of sparse tensors."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.spec import wrap_dim
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT
from adjoint.engine.ops.reduce.norms import P_NORM
from adjoint.engine.ops.reduce.reduction import ANY, SUM
from adjoint.engine.ops.reduce.softmax import log_softmax as dense_log_softmax
from adjoint.engine.ops.reduce.softmax import softmax as dense_softmax
from adjoint.engine.sparse.compressed import CompressedTensor
from adjoint.engine.sparse.coo import make, positions
from adjoint.engine.sparse.runs import groups
from adjoint.engine.sparse.tensor import SparseTensor, refusal
from adjoint.engine.tensor.tensor import Tensor

Dims = tuple[int, ...]


def total(x: Any, *, dims: Dims, keepdim: bool) -> Tensor:
    """The sum over dimensions: dense once no indexed dimension is left, sparse otherwise."""
    if len(dims) == x.ndim:
        every = tuple(range(x._elements.ndim))
        out = SUM(x._elements, dims=every, keepdim=False)
        return out.reshape((1,) * x.ndim) if keepdim else out
    if not dims:
        return x
    whole, x = x, x.spread()
    rank = x.sparse_dim()
    gone = [d for d in dims if d < rank]
    inner = tuple(d - rank + 1 for d in dims if d >= rank)
    elements = SUM(x._elements, dims=inner, keepdim=keepdim) if inner else x._elements
    left = [d for d in range(rank) if d not in gone]
    if not left:
        out = SUM(elements, dims=(0,), keepdim=False)
        return out.reshape((*(1,) * rank, *out.shape)) if keepdim else out
    size = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
    if keepdim:
        flags = x._coordinates.new_tensor([int(d in left) for d in range(rank)])
        coordinates = x._coordinates * flags.unsqueeze(1)
    else:
        coordinates = x._coordinates[left]
    out = make(coordinates, elements, tuple(size), coalesced=x._coalesced and not gone).coalesce()
    single = isinstance(whole, CompressedTensor) and not whole.in_blocks and not whole.batch_dim()
    return whole.in_layout(out) if keepdim and single else out


def any_of(x: Any, *, dims: Dims, keepdim: bool) -> Tensor:
    """Whether any element kept is not zero; over all dimensions."""
    if len(dims) != x.ndim or keepdim:
        raise refusal("any over some dimensions", x)
    return ANY(x._elements, dims=tuple(range(x._elements.ndim)), keepdim=False)


def norm(x: Any, *, ord: float, dims: Dims, keepdim: bool) -> Tensor:
    """The norm of all elements."""
    if len(dims) != x.ndim or keepdim or ord <= 0:
        raise refusal("norm over some dimensions, or of an order that counts zeros,", x)
    elements = x.coalesce()._elements
    return P_NORM(elements, ord=ord, dims=tuple(range(elements.ndim)), keepdim=False)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of a sparse tensor over all or some dimensions.

    Example:
        >>> import adjoint as ad
        >>> x = ad.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 3))
        >>> ad.sparse.sum(x)
        tensor(7.)
        >>> ad.sparse.sum(x, dim=0).to_dense()
        tensor([4., 3., 0.])
    """
    return input.sum(dtype=dtype) if dim is None else input.sum(dim, dtype=dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax along a dimension over the elements kept; the others count as minus infinity.

    Example:
        >>> import adjoint as ad
        >>> x = ad.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 1.0, 5.0], (2, 3))
        >>> ad.sparse.softmax(x, dim=1).values()
        tensor([0.5000, 0.5000, 1.0000])
    """
    return _normalised("softmax", input, dim, dtype, logarithm=False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return _normalised("log_softmax", input, dim, dtype, logarithm=True)


def _normalised(name: str, input: Any, dim: int, dtype: Any, *, logarithm: bool) -> Any:
    if not isinstance(input, SparseTensor):
        raise RuntimeError(f"sparse.{name}: expected a sparse tensor, received {input._spec}")
    x = input.to_sparse().coalesce()
    x = x if dtype is None else x.to(dtype)
    dim = wrap_dim(name, dim, x.ndim)
    rank = x.sparse_dim()
    if dim >= rank:
        dense = dense_log_softmax if logarithm else dense_softmax
        return x.with_elements(dense(x._elements, dim - rank + 1))
    others = [d for d in range(rank) if d != dim]
    size = tuple(x.shape[d] for d in others)
    keys = positions(x._coordinates[others], size) if others else x._coordinates[0] * 0
    number, count = groups(name, keys)
    elements = x._elements
    spread = number.reshape((-1, *(1,) * (elements.ndim - 1))).expand(tuple(elements.shape))
    lowest = elements.new_full((count, *elements.shape[1:]), -float("inf"))
    top = lowest.scatter_reduce(0, spread, elements.detach(), "amax")
    shifted = elements - INDEX(top, number, dims=(0,))
    powers = shifted.exp()
    sums = INDEX_PUT(lowest.new_zeros(lowest.shape), powers, number, dims=(0,), accumulate=True)
    below = INDEX(sums, number, dims=(0,))
    return x.with_elements(shifted - below.log() if logarithm else powers / below)
