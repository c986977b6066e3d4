"""Reading the key of `x[key]`: a basic index, which is one SLICE, and index tensors.

Integers belong to the basic part, as in PyTorch and unlike NumPy; index tensors and masks name
dimensions of the sliced tensor.
"""

from __future__ import annotations

import warnings
from typing import Any

from numpy import integer, zeros

from adjoint.engine.core.dtype import INT, bool_, int32, int64, uint8
from adjoint.engine.core.errors import ShapeIndexError
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.spec import slice_bounds
from adjoint.engine.tensor.reading.item import known
from adjoint.engine.tensor.tensor import Tensor

Basic = tuple[Any, ...]  # the index of SLICE
Picks = list[tuple[int, Tensor]]  # (first dimension of the sliced tensor, index tensor or mask)


def quick_index(key: Any, shape: tuple[int, ...]) -> Basic | None:
    """The basic index of a key of ints in range, slices, None and `...`; None for all others."""
    keys = key if key.__class__ is tuple else (key,)
    index: list[Any] = []
    dim, ndim = 0, len(shape)
    for i, k in enumerate(keys):
        kind = k.__class__
        if k is None:
            index.append(None)
            continue
        if k is Ellipsis:
            if Ellipsis in keys[:i]:
                return None
            after = ndim - sum([r is not None for r in keys[i + 1 :]])
            while dim < after:
                index.append((0, shape[dim], 1))
                dim += 1
            continue
        if dim >= ndim:
            return None
        size = shape[dim]
        dim += 1
        if kind is slice:
            try:
                start, stop, step = slice_bounds(k, size)
            except (TypeError, ValueError):
                return None
            if step <= 0:
                return None
            index.append((start, stop if stop > start else start, step))
            continue
        if kind is not int:
            if isinstance(k, integer):  # NumPy's
                k = int(k)
            elif kind is bool or not isinstance(k, int):  # but a dynamic size, say
                return None
        if not -size <= k < size:
            return None
        index.append(k + size if k < 0 else k)
    while dim < ndim:
        index.append((0, shape[dim], 1))
        dim += 1
    return tuple(index)


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """The key as one entry per index. A list that holds more than numbers counts as a tuple."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, list) and len(key) < 32:
        for k in key:
            if k is None or k is Ellipsis or is_tensor(k) or isinstance(k, (slice, list, tuple)):
                return tuple(key)
    return (key,)


def _entry(x: Tensor, k: Any) -> Any:
    """One entry in canonical form: None, Ellipsis, slice, bool, int, or an index tensor or mask."""
    if k is None or k is Ellipsis or isinstance(k, (slice, bool)):
        return k
    if not is_tensor(k):
        if isinstance(k, str):
            raise TypeError(f"invalid index {k!r}: a string is not an index")
        if hasattr(k, "__index__") and not getattr(k, "shape", None):
            return k.__index__()
        if not hasattr(k, "__len__") or isinstance(k, (set, dict)) or getattr(k, "shape", 1) == ():
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte tensors "
                f"are valid indices (got {type(k).__name__})"
            )
        k = HOOKS.array.index_tensor(k, x.device)
    if k.dtype is bool_:
        return k
    if k.dtype is uint8:
        warnings.warn(
            "indexing with dtype uint8 is now deprecated, please use a dtype bool instead.",
            UserWarning,
            stacklevel=5,
        )
        return k.to(bool_)
    # A number may be of any width.
    if k.dtype is not int64 and k.dtype is not int32 and (k.ndim or k.dtype.category != INT):
        raise IndexError(
            "tensors used as indices must be long, int, byte or bool tensors, received "
            f"{k.dtype.name}"
        )
    if k.ndim == 0:
        value = known(k)
        if value is not None:
            return int(value)
    return k.to(int64)


def _entries(x: Tensor, key: Any) -> list[Any]:
    """One canonical entry per index, the ellipsis written out and missing ones filled in."""
    keys = [_entry(x, k) for k in _as_tuple(key)]
    consumed = 0
    for k in keys:
        if k is not None and k is not Ellipsis and not isinstance(k, bool):
            consumed += k.ndim if is_tensor(k) and k.dtype is bool_ else 1
    if consumed > x.ndim:
        if not x.ndim:
            raise ShapeIndexError(
                "invalid index of a 0-dim tensor: it has no dimension to index. Use "
                "tensor.item() to convert it to a number."
            )
        raise ShapeIndexError(
            f"too many indices for tensor of dimension {x.ndim}: received {consumed} in {key!r}"
        )
    rest = [slice(None)] * (x.ndim - consumed)
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    return keys[:at] + rest + [k for k in keys[at:] if k is not Ellipsis]


def _slice_entry(k: slice, size: int) -> tuple[int, int, int]:
    start, stop, step = slice_bounds(k, size)
    if step <= 0:
        raise ValueError(f"slice step must be greater than zero, received {step}")
    return start, max(start, stop), step


def split_key(x: Tensor, key: Any) -> tuple[Basic, Picks]:
    """A key as a basic index (for SLICE) and index tensors by dimension of its result."""
    basic: list[Any] = []
    picks: Picks = []
    shape = x._array.shape
    dim = 0  # of x
    out = 0  # of the sliced tensor
    for k in _entries(x, key):
        if k is None:
            basic.append(None)
            out += 1
        elif isinstance(k, slice):
            basic.append(_slice_entry(k, shape[dim]))
            dim += 1
            out += 1
        elif isinstance(k, bool):  # adds a dimension, and keeps it or empties it
            basic.append(None)
            picks.append((out, HOOKS.array.index_tensor(zeros(int(k), "int64"), x.device)))
            out += 1
        elif isinstance(k, int):
            size = shape[dim]
            if not -size <= k < size:
                raise IndexError(f"index {k} is out of bounds for dimension {dim} with size {size}")
            basic.append(k + size if k < 0 else k)
            dim += 1
        elif k.dtype is bool_ and k.ndim == 0:  # likewise
            basic.append(None)
            picks.append((out, k.reshape(1)))
            out += 1
        else:
            covers = k.ndim if k.dtype is bool_ else 1
            picks.append((out, k if k.device == x.device else k.to(x.device)))
            basic += [(0, n, 1) for n in shape[dim : dim + covers]]
            dim += covers
            out += covers
    return tuple(basic), picks
