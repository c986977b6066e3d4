"""Arrays by strides: reading memory in another geometry, and allocating in a given one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.engine.core.layout import (
    format_strides,
    is_dense,
    ordered_strides,
    preserve_format,
)
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
    reach = 1  # added up here: a generator of few takes longer to start than to run
    for n, s in zip(shape, strides, strict=True):
        reach += (n - 1) * s
    return reach


def allocate(xp: Any, shape: Shape, dtype: Any, strides: Shape | None) -> Array:
    """An uninitialised array with the given strides (None: row-major)."""
    if strides is None:
        return xp.empty(shape, dtype)
    packing = _packing(tuple(shape), tuple(strides))
    if packing is None:
        return strided(xp, xp.empty(max(span(shape, strides), 1), dtype), shape, strides)
    sizes, inverse = packing
    packed = xp.empty(sizes, dtype)
    return packed if inverse is None else packed.transpose(inverse)


@lru_cache(maxsize=1 << 12)
def _packing(shape: Shape, strides: Shape) -> tuple[Shape, Shape | None] | None:
    """Sizes of a row-major array, and the order of dimensions in which it has such strides.

    None where no array without gaps has them.
    """
    if 0 not in shape and strides == contiguous_strides(shape):
        return shape, None
    if 0 in shape or not is_dense(shape, strides):
        return None
    order = sorted(range(len(shape)), key=lambda d: (-strides[d], -shape[d], d))
    if ordered_strides(shape, order) != strides:
        return None
    inverse = sorted(range(len(shape)), key=order.__getitem__)
    return tuple([shape[d] for d in order]), tuple(inverse)


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


def places_in_rows(x: Array) -> Shape | None:
    """Of a copy in the order in which dimensions lie, where each is among them; None: in order."""
    if x.flags.c_contiguous or not x.size:
        return None
    own = unit_strides(x.shape, element_strides(x))
    strides = format_strides("copy", x.shape, own, preserve_format)
    if strides is None:
        return None
    order = sorted(range(x.ndim), key=lambda d: (-strides[d], -x.shape[d], d))
    return tuple(sorted(range(x.ndim), key=order.__getitem__))


def bounds(x: Array) -> tuple[int, int]:
    """How many elements lie before and after x's first one in the memory it is part of."""
    owner = x
    while isinstance(owner.base, (type(x), _Memory)):
        owner = owner.base.owner if isinstance(owner.base, _Memory) else owner.base
    low = owner.__array_interface__["data"][0] if isinstance(x, np.ndarray) else owner.data.ptr
    here = x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else x.data.ptr
    length = (span(owner.shape, element_strides(owner)) * owner.dtype.itemsize) - (here - low)
    return (here - low) // x.dtype.itemsize, length // x.dtype.itemsize
