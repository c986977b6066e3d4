"""Operators that take and put elements by index."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.table import operator
from adjoint.onnx.types import Value


def _wrapped(index: Tensor, size: int) -> Tensor:
    index = index.long()
    return ad.where(index < 0, index + size, index)


@operator("Gather", moves=True)
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Slices along an axis."""
    axis = axis % x.ndim
    index = _wrapped(indices, x.shape[axis])
    taken = ad.index_select(x, axis, index.reshape(-1))
    return taken.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


@operator("GatherElements", moves=True)
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Elements along an axis."""
    return ad.gather(x, axis, _wrapped(indices, x.shape[axis]))


@operator("GatherND", moves=True)
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices at tuples of indices."""
    return x[_batched(indices, x.shape, batch_dims)]


def _batched(indices: Tensor, shape: tuple[int, ...], batch_dims: int) -> tuple[Tensor, ...]:
    """Tuples of indices as one index to a dimension, those of the batch in front."""
    rank = indices.ndim - 1
    rows = []
    for k in range(batch_dims):
        view = [1] * rank
        view[k] = shape[k]
        rows.append(ad.arange(shape[k]).reshape(view))
    width = int(indices.shape[-1])
    return (*rows, *[_wrapped(indices[..., k], shape[batch_dims + k]) for k in range(width)])


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("Scatter", "ScatterElements")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Elements put along an axis, or combined with those there."""
    index = _wrapped(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _REDUCE[reduction])


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Slices put at tuples of indices, or combined with those there."""
    width = int(indices.shape[-1])
    inner = math.prod(x.shape[width:])
    place = ad.zeros(indices.shape[:-1], dtype=ad.int64)
    for k in range(width):
        place = place * x.shape[k] + _wrapped(indices[..., k], x.shape[k])
    rows = x.reshape(math.prod(x.shape[:width]), inner)
    index = place.reshape(-1, 1).expand(-1, inner)
    values = updates.reshape(-1, inner)
    if reduction == "none":
        return rows.scatter(0, index, values).reshape(x.shape)
    return rows.scatter_reduce(0, index, values, _REDUCE[reduction]).reshape(x.shape)


@operator("Compress", moves=True)
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """The slices along an axis, or the elements, where a condition holds."""
    x, dim = (x.reshape(-1), 0) if axis is None else (x, axis)
    return ad.index_select(x, dim, ad.nonzero(condition).reshape(-1))


@operator("TensorScatter")
def tensor_scatter(
    past: Tensor,
    update: Tensor,
    write_indices: Value = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """A cache with new entries written from an index of each batch on."""
    axis = axis % past.ndim
    length, count, batch = past.shape[axis], update.shape[axis], past.shape[0]
    start = ad.zeros(batch, dtype=ad.int64) if write_indices is None else write_indices.long()
    places = start[:, None] + ad.arange(count)[None, :]
    places = places % length if mode == "circular" else places
    view = [batch, *[1] * (past.ndim - 1)]
    view[axis] = count
    return past.scatter(axis, places.reshape(view).expand(update.shape), update)
