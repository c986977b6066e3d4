"""`x[...]` and `x[...] = y`: basic, boolean, integer-array and mixed indexing."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtype import bool_, uint8
from adjoint.core.record import HOOKS, is_tensor
from adjoint.ops.index import INDEX, INDEX_PUT
from adjoint.ops.views import SLICE
from adjoint.tensor.mutation import assign, write
from adjoint.tensor.tensor import Tensor

Entry = Any


def _entries(x: Tensor, key: Any) -> list[Entry]:
    """One entry per indexed dimension (plus None's), the ellipsis written out."""
    keys = list(key) if isinstance(key, tuple) else [key]
    consumed = 0
    for k in keys:
        if k is None or k is Ellipsis or isinstance(k, bool):
            continue
        consumed += k.ndim if is_tensor(k) and k.dtype in (bool_, uint8) else 1
    if consumed > x.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {x.ndim}: received {consumed} in {key!r}"
        )
    rest = [slice(None)] * (x.ndim - consumed)
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), None)
    if at is None:
        return keys + rest
    return keys[:at] + rest + keys[at + 1 :]


def _slice_entry(k: slice, size: int) -> tuple[int, int, int]:
    step = 1 if k.step is None else int(k.step)
    if step <= 0:
        raise ValueError(f"slice step must be greater than zero, received {step}")
    start, stop, _ = slice(k.start, k.stop, step).indices(size)
    return start, max(start, stop), step


def split_key(x: Tensor, key: Any) -> tuple[tuple[Any, ...], dict[int, Tensor]]:
    """A key as a basic index (for SLICE) and index tensors by dimension of its result."""
    basic: list[Any] = []
    tensors: dict[int, Tensor] = {}
    dim = 0  # of x
    out = 0  # of the sliced tensor
    for k in _entries(x, key):
        if k is None:
            basic.append(None)
            out += 1
            continue
        if isinstance(k, bool):
            basic.append(None)
            tensors[out] = HOOKS.array.index_tensor([0] if k else [], x.device)
            out += 1
            continue
        size = x._array.shape[dim]
        if isinstance(k, slice):
            basic.append(_slice_entry(k, size))
        elif is_tensor(k) or not hasattr(k, "__index__"):
            picks = _index_tensors(x, k, dim)
            for pick in picks:
                basic.append((0, x._array.shape[dim], 1))
                tensors[out] = pick
                dim += 1
                out += 1
            continue
        else:
            i = k.__index__()
            if not -size <= i < size:
                raise IndexError(f"index {i} is out of bounds for dimension {dim} with size {size}")
            basic.append(i + size if i < 0 else i)
            dim += 1
            continue
        dim += 1
        out += 1
    return tuple(basic), tensors


def _index_tensors(x: Tensor, k: Any, dim: int) -> list[Tensor]:
    """An index tensor (or list, or mask) as int64 tensors, one per dimension it covers."""
    index = k if is_tensor(k) else HOOKS.array.index_tensor(k, x.device)
    if index.dtype is bool_ or index.dtype is uint8:
        covered = tuple(x._array.shape[dim : dim + index.ndim])
        if tuple(index.shape) != covered:
            raise IndexError(
                f"The shape of the mask {list(index.shape)} at index {dim} does not match the "
                f"shape of the indexed tensor {list(x.shape)} at index {dim}"
            )
        return list(index.nonzero(as_tuple=True))
    if index.dtype.is_inexact:
        raise IndexError(
            "tensors used as indices must be long, int, byte or bool tensors, received "
            f"{index.dtype.name}"
        )
    return [index.long()]


def _is_whole(basic: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    return len(basic) == len(shape) and all(
        e == (0, n, 1) for e, n in zip(basic, shape, strict=True)
    )


def getitem(self: Tensor, key: Any) -> Any:
    """Select elements: a view for basic indices, a copy for index tensors."""
    basic, tensors = split_key(self, key)
    if not tensors:
        return SLICE(self, index=basic)
    sliced = self if _is_whole(basic, self._array.shape) else SLICE(self, index=basic)
    return INDEX(sliced, *tensors.values(), dims=tuple(tensors))


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """Write elements in place, through a view for basic indices."""
    basic, tensors = split_key(self, key)
    target = SLICE(self, index=basic)
    if not is_tensor(value):
        value = HOOKS.array.scalar_like(value, target)
    elif value.dtype is not target.dtype:
        value = value.to(target.dtype)
    if not tensors:
        while value.ndim > target.ndim and value.shape[0] == 1:
            value = value.squeeze(0)
        write(target, value.expand(target.shape))
        return
    put = INDEX_PUT(target, value, *tensors.values(), dims=tuple(tensors), accumulate=False)
    assign("index_put_", target, put)


def install_indexing() -> None:
    """Put indexing on Tensor."""
    setattr(Tensor, "__getitem__", getitem)  # noqa: B010
    setattr(Tensor, "__setitem__", setitem)  # noqa: B010
