"""Indexing by tensors: gather along several dimensions at once, and its inverse."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from adjoint.core.families import linear
from adjoint.core.record import Record
from adjoint.core.spec import Spec, broadcast_shapes

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor

# INDEX(x, *indices, dims): indices[i] picks along dims[i]; they broadcast together. Indices are
# int64 and in range or negative within range. The picked dimensions stand where the first of
# `dims` stood if `dims` are adjacent, else in front.
Dims = tuple[int, ...]


def _position(dims: Dims) -> int:
    adjacent = all(b == a + 1 for a, b in pairwise(dims))
    return dims[0] if adjacent else 0


def _index_infer(x: Spec, *indices: Spec, dims: Dims) -> Spec:
    picked = broadcast_shapes("index", *(i.shape for i in indices))
    rest = [n for d, n in enumerate(x.shape) if d not in dims]
    at = _position(dims)
    return Spec((*rest[:at], *picked, *rest[at:]), x.dtype, x.device)


def _index_batch(size: int, x: Tensor, *indices: Tensor, dims: Dims) -> Tensor:
    """Index the batch too, by its own number, and keep it in front."""
    rank = max(i.ndim for i in indices)
    lanes = indices[0].new_arange(size).reshape((size, *(1,) * (rank - 1)))
    aligned = [i.reshape((size, *(1,) * (rank - i.ndim), *i.shape[1:])) for i in indices]
    out = INDEX(x, lanes, *aligned, dims=(0, *(d + 1 for d in dims)))
    # The batch leads the picked block, which numpy puts in front unless dims touch dimension 1.
    at = _position(dims)
    if at == 0:
        return out
    return out.movedim(tuple(range(1, rank)), tuple(range(1 + at, at + rank)))


INDEX: Record = linear(
    "index",
    _index_infer,
    lambda g, x_spec, indices, dims: INDEX_PUT(
        g.new_zeros(x_spec.shape), g, *indices, dims=dims, accumulate=True
    ),
    None,
    operands=("x", "*indices"),
    batch=_index_batch,
)


def _put_batch(
    size: int, x: Tensor, values: Tensor, *indices: Tensor, dims: Dims, accumulate: bool
) -> Tensor:
    rank = max(i.ndim for i in indices)
    lanes = indices[0].new_arange(size).reshape((size, *(1,) * (rank - 1)))
    aligned = [i.reshape((size, *(1,) * (rank - i.ndim), *i.shape[1:])) for i in indices]
    at = _position(dims)
    if at:  # the values' picked block moves in front, beside the batch
        values = values.movedim(tuple(range(1 + at, at + rank)), tuple(range(1, rank)))
    return INDEX_PUT(
        x, values, lanes, *aligned, dims=(0, *(d + 1 for d in dims)), accumulate=accumulate
    )


def _put_values(g: Tensor, indices: Any, dims: Dims, y_spec: Spec) -> Tensor:
    return INDEX(g, *indices, dims=dims).sum_to_size(y_spec.shape)


def _put_self(g: Tensor, indices: Any, dims: Dims, accumulate: bool, y_spec: Spec) -> Tensor:
    if accumulate:
        return g
    return INDEX_PUT(g, g.new_zeros(y_spec.shape), *indices, dims=dims, accumulate=False)


# INDEX_PUT(x, values, *indices, dims, accumulate): x with values at (or added at) the indices.
INDEX_PUT: Record = linear(
    "index_put",
    lambda x, values, *indices, dims, accumulate: x,
    _put_self,
    _put_values,
    None,
    operands=("x", "y", "*indices"),
    batch=_put_batch,
)
