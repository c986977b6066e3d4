"""Arrays by strides: reading memory in another geometry, and allocating in a given one."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from adjoint.engine.core.layout import format_strides, is_dense, preserve_format
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.tensor.tensor import unit_strides

Array = Any
Shape = tuple[int, ...]


class _Memory:
    """What NumPy needs to make an array over memory that `owner` keeps alive."""

    def __init__(self, owner: Array, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def strided(
    xp: Any, x: Array, shape: Shape, strides: Shape, offset: int = 0, dtype: Any = None
) -> Array:
    """An array over x's memory; strides and the offset from its first element are in elements."""
    dtype = x.dtype if dtype is None else dtype
    size = dtype.itemsize
    steps = tuple([s * size for s in strides])
    if xp is not np:
        return xp.ndarray(shape, dtype, memptr=x.data + offset * size, strides=steps)
    if x.flags.c_contiguous and offset >= 0 and x.size:
        try:  # the common case, four times as fast; NumPy checks the bounds
            # Only NumPy's own dtypes can be lent as a buffer.
            buffer = x if x.dtype.isbuiltin == 1 else x.reshape(-1).view(np.uint8)
            return np.ndarray(shape, dtype, buffer, offset * size, steps)
        except (ValueError, TypeError):
            pass  # beyond x, into the storage around it
    interface = {
        "version": 3,
        "shape": shape,
        "strides": steps,
        "data": (x.__array_interface__["data"][0] + offset * size, not x.flags.writeable),
        "typestr": f"|V{size}",
    }
    return np.asarray(_Memory(x, interface)).view(dtype)


def element_strides(x: Array) -> Shape:
    """Strides in elements."""
    size = x.dtype.itemsize
    return tuple([s // size for s in x.strides])


def span(shape: Shape, strides: Shape) -> int:
    """How many places lie between the first element and the last, both included."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def allocate(xp: Any, shape: Shape, dtype: Any, strides: Shape | None) -> Array:
    """An uninitialised array with the given strides (None: row-major)."""
    if strides is None or (0 not in shape and strides == contiguous_strides(shape)):
        return xp.empty(shape, dtype)
    if prod(shape) and is_dense(shape, strides):
        order = sorted(range(len(shape)), key=lambda d: (-strides[d], -shape[d], d))
        packed = xp.empty([shape[d] for d in order], dtype)
        out = packed.transpose(np.argsort(order).tolist())
        if element_strides(out) == tuple(strides):
            return out
    return strided(xp, xp.empty(max(span(shape, strides), 1), dtype), shape, strides)


def copy_with(xp: Any, x: Array, strides: Any, dtype: Any = None) -> Array:
    """A copy with the given strides; "same" keeps the order in which dimensions lie."""
    dtype = x.dtype if dtype is None else dtype
    if strides == "same":
        # NumPy has places of its own for dimensions of one element and for those it repeats.
        natural = xp is np and 1 not in x.shape and min(x.strides, default=1) > 0
        if natural and not x.flags.c_contiguous:
            return x.astype(dtype, order="K")
        own = unit_strides(x.shape, element_strides(x))
        strides = None if natural else format_strides("copy", x.shape, own, preserve_format)
    if strides is None and x.flags.c_contiguous:
        return x.astype(dtype) if xp is not np or x.dtype != dtype else x.copy()
    out = allocate(xp, x.shape, dtype, strides)
    if xp is np and x.dtype != dtype and 0 in x.strides:  # what repeats is converted once
        x = x[tuple([slice(1) if s == 0 else slice(None) for s in x.strides])].astype(dtype)
    out[...] = x
    return out


def bounds(x: Array) -> tuple[int, int]:
    """How many elements lie before and after x's first one in the memory it is part of."""
    owner = x
    while isinstance(owner.base, (type(x), _Memory)):
        owner = owner.base.owner if isinstance(owner.base, _Memory) else owner.base
    low = owner.__array_interface__["data"][0] if isinstance(x, np.ndarray) else owner.data.ptr
    here = x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else x.data.ptr
    length = (span(owner.shape, element_strides(owner)) * owner.dtype.itemsize) - (here - low)
    return (here - low) // x.dtype.itemsize, length // x.dtype.itemsize
