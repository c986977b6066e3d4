"""Permuting, selecting and joining sparse tensors."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import ShapeError
from adjoint.engine.ops.index.index import INDEX
from adjoint.engine.ops.shape import join
from adjoint.engine.ops.shape.views import PERMUTE, SLICE
from adjoint.engine.sparse.compressed import CompressedTensor, make_compressed
from adjoint.engine.sparse.coo import CooTensor, make, refuse_capture
from adjoint.engine.sparse.runs import matches
from adjoint.engine.sparse.tensor import refusal
from adjoint.engine.tensor.tensor import Tensor

Dims = tuple[int, ...]


def permute(x: Any, *, dims: Dims) -> Any:
    """Dimensions in another order, indexed ones among themselves."""
    if isinstance(x, CompressedTensor):
        return _permuted_lines(x, dims)
    rank = x.sparse_dim()
    outer, inner = dims[:rank], dims[rank:]
    if any(d >= rank for d in outer):
        raise refusal("permute across indexed and dense dimensions", x)
    if dims == tuple(range(x.ndim)):
        return x
    elements = PERMUTE(x._elements, dims=(0, *(d - rank + 1 for d in inner)))
    size = tuple(x.shape[d] for d in dims)
    return make(x._coordinates[list(outer)], elements, size, coalesced=False)


def _permuted_lines(x: CompressedTensor, dims: Dims) -> Any:
    """Batch, matrix and dense dimensions of tensors of lines, each kind among themselves."""
    batch = x.batch_dim()
    kinds = ["batch"] * batch + ["matrix"] * 2 + ["dense"] * x.dense_dim()
    for place, d in enumerate(dims):
        if kinds[place] != kinds[d]:
            raise RuntimeError(
                "transpose(): can only transpose dimensions of the same type (Batch, Sparse, "
                f"Dense), got {place}({kinds[place]}) and {d}({kinds[d]})"
            )
    if dims[batch] > dims[batch + 1]:
        x = x.transposed()
    outer, inner = dims[:batch], dims[batch + 2 :]
    if outer == tuple(range(batch)) and list(inner) == sorted(inner):
        return x
    starts, places = (PERMUTE(t, dims=(*outer, batch)) for t in (x._starts, x._places))
    first = x._elements.ndim - x.dense_dim()  # of the dense dimensions
    moved = (*outer, *range(batch, first), *(d - batch - 2 + first for d in inner))
    elements = PERMUTE(x._elements, dims=moved)
    matrix = tuple(x.shape[batch : batch + 2])
    size = (*(x.shape[d] for d in outer), *matrix, *(x.shape[d] for d in inner))
    return make_compressed(type(x), starts, places, elements, size)


def _selected_lines(x: CompressedTensor, index: tuple[Any, ...]) -> Any:
    """Matrices of a batch, and parts of dense dimensions, in the same layout."""
    batch, inner = x.batch_dim(), x.dense_dim()
    outer, dense = index[:batch], index[batch + 2 :]
    matrix = tuple(x.shape[batch : batch + 2])

    def part(t: Tensor) -> Tensor:
        return SLICE(t, index=(*outer, (0, t.shape[-1], 1)))

    middle = x._elements.shape[batch : x._elements.ndim - inner]
    elements = SLICE(x._elements, index=(*outer, *((0, n, 1) for n in middle), *dense))
    kept = sum(not isinstance(entry, int) for entry in outer)
    left = elements.ndim - kept - len(middle)
    size = (*elements.shape[:kept], *matrix, *elements.shape[elements.ndim - left :])
    return make_compressed(type(x), part(x._starts), part(x._places), elements, size)


def _leaves_matrices(x: CompressedTensor, index: tuple[Any, ...]) -> bool:
    """Whether nothing is taken out of the matrices themselves."""
    batch = x.batch_dim()
    whole = [(0, n, 1) for n in x.shape[batch : batch + 2]]
    return None not in index and list(index[batch : batch + 2]) == whole


def select(x: Any, *, index: tuple[Any, ...]) -> Tensor:
    """`x[1, 2:4]`: an integer drops a dimension, a slice shortens it."""
    if isinstance(x, CompressedTensor) and _leaves_matrices(x, index):
        return _selected_lines(x, index)
    x = x.in_order()
    if None in index:
        raise refusal("a new dimension by indexing", x)
    refuse_capture("indexing")
    rank = x.sparse_dim()
    inside = x._coordinates[:1].new_ones((x._nnz(),)).bool()
    rows: list[Tensor] = []
    size: list[int] = []
    for row, entry in zip(x._coordinates.unbind(0), index[:rank], strict=True):
        if isinstance(entry, int):
            inside = inside & (row == entry)
            continue
        start, stop, step = entry
        inside = inside & (row >= start) & (row < stop) & ((row - start) % step == 0)
        rows.append((row - start) // step)
        size.append(-((start - stop) // step))
    elements = INDEX(x._elements, inside.nonzero().squeeze(1), dims=(0,))
    if rank < x.ndim:
        elements = SLICE(elements, index=((0, elements.shape[0], 1), *index[rank:]))
    if not rows:
        return elements.sum(0)
    coordinates = join.stack([row[inside] for row in rows])
    return make(coordinates, elements, (*size, *elements.shape[1:]), coalesced=x._coalesced)


def index_select(x: Any, *indices: Tensor, dims: Dims, wrap: bool = True) -> CooTensor:
    """The slices of x at the indices along one indexed dimension."""
    _require_coo("index_select", x)
    if len(dims) != 1 or dims[0] >= x.sparse_dim() or indices[0].ndim != 1:
        raise refusal("indexing by tensors along more than one dimension", x)
    (dim,), (wanted,) = dims, indices
    extent = x.shape[dim]
    if wrap:
        wanted = wanted + (wanted < 0) * extent
    place, element = matches("index_select", wanted, x._coordinates[dim], extent)
    coordinates = INDEX(x._coordinates, element, dims=(1,))
    rows = [place if d == dim else r for d, r in enumerate(coordinates.unbind(0))]
    size = (*x.shape[:dim], wanted.shape[0], *x.shape[dim + 1 :])
    elements = INDEX(x._elements, element, dims=(0,))
    selected = make(join.stack(rows), elements, size, coalesced=False)
    return selected.coalesce() if x._coalesced else selected


def cat(*tensors: Any, dim: int) -> CooTensor:
    """Tensors one after the other along an indexed dimension."""
    for x in tensors:
        _require_coo("cat", x)
    first = tensors[0]
    if dim >= first.sparse_dim() or any(x.sparse_dim() != first.sparse_dim() for x in tensors):
        raise refusal("cat along a dense dimension, or of different sparse dimensions,", first)
    for x in tensors[1:]:
        if any(
            a != b for d, (a, b) in enumerate(zip(first.shape, x.shape, strict=True)) if d != dim
        ):
            raise ShapeError(
                f"cat: sizes must match except in dimension {dim}, received {list(first.shape)} "
                f"and {list(x.shape)}"
            )
    shifted: list[Tensor] = []
    extent = 0
    for x in tensors:
        step = [extent if d == dim else 0 for d in range(first.sparse_dim())]
        shifted.append(x._coordinates + x._coordinates.new_tensor(step).unsqueeze(1))
        extent += x.shape[dim]
    elements = join.cat([x._elements for x in tensors], 0)
    size = (*first.shape[:dim], extent, *first.shape[dim + 1 :])
    return make(join.cat(shifted, 1), elements, size, coalesced=False)


def stack(*tensors: Any, dim: int) -> CooTensor:
    """Tensors of one shape along a new indexed dimension."""
    return cat(*[unsqueezed(x, dim) for x in tensors], dim=dim)


def unsqueezed(x: Any, dim: int) -> CooTensor:
    """The tensor with a new dimension of size 1, indexed where those before it are."""
    _require_coo("unsqueeze", x)
    rank = x.sparse_dim()
    if dim > rank:  # one more of each element
        elements = x._elements.unsqueeze(dim - rank + 1)
        return make(x._coordinates, elements, (*x.shape[:dim], 1, *x.shape[dim:]), x._coalesced)
    rows = list(x._coordinates.unbind(0))
    rows.insert(dim, x._coordinates.new_zeros((x._nnz(),)))
    size = (*x.shape[:dim], 1, *x.shape[dim:])
    return make(join.stack(rows), x._elements, size, coalesced=x._coalesced)


def reshape(x: Any, *, shape: Dims) -> CooTensor:
    """A new dimension of size 1, which is all that `unsqueeze` does; other shapes are refused."""
    old = tuple(x.shape)
    for dim in range(len(old) + 1):
        if (*old[:dim], 1, *old[dim:]) == shape:
            return unsqueezed(x, dim)
    raise refusal("reshape", x)


def _require_coo(name: str, x: Any) -> None:
    if not isinstance(x, CooTensor):
        raise refusal(name, x)
