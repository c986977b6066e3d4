"""Making a batch of examples: containers stay, leaves are stacked into tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from adjoint.data.worker_info import WORKER
from adjoint.engine.backends.array.interop import as_tensor, tensor
from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import float64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor, wrap

Collate = Callable[..., Any]
_TEXT_OR_OBJECTS = "SaUO"  # dtype kinds that have no tensor


def default_convert(data: Any) -> Any:
    """One example with its NumPy arrays made tensors; used when automatic batching is off.

    Example:
        >>> import numpy as np
        >>> default_convert({"a": np.array([1, 2]), "b": "text"})
        {'a': tensor([1, 2]), 'b': 'text'}
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)) and not isinstance(data, (np.str_, np.bytes_)):
        return data if data.dtype.kind in _TEXT_OR_OBJECTS else as_tensor(data)
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]  # as PyTorch has it
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return like_sequence(data, [default_convert(item) for item in data])
    return data


def like_mapping(model: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """`values` in a mapping of `model`'s type, with its extra attributes where it can be copied."""
    try:
        if isinstance(model, MutableMapping):
            clone = copy.copy(model)
            clone.update(values)
            return clone
        return type(model)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def like_sequence(model: Sequence[Any], values: list[Any]) -> Any:
    """`values` in a sequence of `model`'s type, as for mappings."""
    try:
        if isinstance(model, MutableSequence):
            clone = copy.copy(model)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(model)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def collate(
    batch: Any, *, collate_fn_map: dict[type | tuple[type, ...], Collate] | None = None
) -> Any:
    """Stack a list of examples leaf by leaf, with a function per leaf type.

    Args:
        batch: the examples, all of one structure.
        collate_fn_map: what to do with a list of leaves, by their type.
    """
    first = batch[0]
    table = collate_fn_map or {}
    function = table.get(type(first))
    if function is None:
        function = next((fn for kind, fn in table.items() if isinstance(first, kind)), None)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {key: collate([d[key] for d in batch], collate_fn_map=table) for key in first}
        return like_mapping(first, columns)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(
            *(collate(column, collate_fn_map=table) for column in zip(*batch, strict=True))
        )
    if isinstance(first, Sequence):
        return _collate_sequences(batch, first, table)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}. Pass a collate_fn that handles it."
    )


def _collate_sequences(batch: Any, first: Sequence[Any], table: dict[Any, Any]) -> Any:
    lengths = {len(item) for item in batch}
    if len(lengths) > 1:
        raise ShapeError(
            "default_collate: each element in list of batch should be of equal size, received "
            f"lengths {sorted(lengths)}. Pad them in a collate_fn."
        )
    columns = [collate(column, collate_fn_map=table) for column in zip(*batch, strict=True)]
    return columns if isinstance(first, tuple) else like_sequence(first, columns)


def _collate_tensors(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    first = batch[0]
    if any(type(x) is not Tensor for x in batch):  # a subclass has its own `stack`, so have others
        _check_tensors(batch)
        return stack(batch, 0)
    shapes = {x._array.shape for x in batch}
    if len(shapes) > 1:
        other = next(i for i, x in enumerate(batch) if x.shape != first.shape)
        raise ShapeError(
            "default_collate: stack expects each tensor to be equal size, but got "
            f"{list(first.shape)} at entry 0 and {list(batch[other].shape)} at entry {other}. "
            "Resize, crop or pad them to one size, or pass a collate_fn."
        )
    arena = WORKER.arena
    if arena is None or first.device is not CPU or any(x.dtype is not first.dtype for x in batch):
        return stack(batch, 0)
    if any(x.requires_grad for x in batch):
        return stack(batch, 0)
    # In a worker: straight into the memory that the parent will read.
    out = arena.allocate((len(batch), *first.shape), first._array.dtype)
    for row, x in zip(out, batch, strict=True) if first.ndim else ():
        row[...] = x._array
    if not first.ndim:
        out[...] = [x._array for x in batch]
    return wrap(out)


def _check_tensors(batch: Any) -> None:
    for i, x in enumerate(batch):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"default_collate: expected Tensor as element {i}, as element 0 is one, but got "
                f"{type(x).__name__}. Let each example have the same types, or pass a collate_fn."
            )


def _collate_arrays(batch: Any, *, collate_fn_map: Any = None) -> Any:
    if batch[0].dtype.kind in _TEXT_OR_OBJECTS:
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found {batch[0].dtype}"
        )
    return collate([as_tensor(item) for item in batch], collate_fn_map=collate_fn_map)


def _collate_numpy_scalars(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    return as_tensor(np.array(batch))


def _collate_floats(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    return tensor(batch, dtype=float64)


def _collate_ints(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    return tensor(batch)


def _collate_text(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return batch


# A program adds its own types here, as in PyTorch. Order matters: the first match by isinstance.
default_collate_fn_map: dict[type | tuple[type, ...], Collate] = {
    Tensor: _collate_tensors,
    np.ndarray: _collate_arrays,
    (np.bool_, np.number, np.object_): _collate_numpy_scalars,
    float: _collate_floats,
    int: _collate_ints,
    str: _collate_text,
    bytes: _collate_text,
}


def default_collate(batch: Any) -> Any:
    """A list of examples as one batch: each leaf becomes a tensor with a new first dimension.

    Tensors, NumPy arrays and numbers are stacked; strings stay lists; mappings, named tuples and
    sequences keep their kind (plain tuples become lists).

    Example:
        >>> default_collate([{"x": 0.5, "name": "a"}, {"x": 1.5, "name": "b"}])
        {'x': tensor([0.5000, 1.5000], dtype=adjoint.float64), 'name': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
