"""Kernels of views and of their inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import FLOAT8, NUMPY_OF
from adjoint.engine.backends.array.memory.strides import (
    bounds,
    copy_with,
    element_strides,
    span,
    strided,
)
from adjoint.engine.backends.array.table import kernel_for, lowers
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.layout import broadcast_strides
from adjoint.engine.ops.common import stop
from adjoint.engine.ops.shape import reinterpret, views
from adjoint.engine.ops.shape import strided as strided_ops

Array = Any
Shape = tuple[int, ...]


@lowers(views.RESHAPE)
def reshape(xp: Any, x: Array, shape: Shape) -> Array:
    return x.reshape(shape)


@lowers(views.PERMUTE)
def permute(xp: Any, x: Array, dims: Shape) -> Array:
    return x.transpose(dims)


@lowers(views.EXPAND)
def expand(xp: Any, x: Array, shape: Shape) -> Array:
    if x.shape == shape:
        return x[...]
    quick = x.flags.c_contiguous and x.dtype.isbuiltin == 1
    if xp is not np or not x.size or not (quick or 1 in shape):
        out = xp.broadcast_to(x, shape)
        if xp is np:  # NumPy hands it out read-only, though a write may be fine
            out.flags.writeable = x.flags.writeable
        return out
    # The same, up to six times as fast; a dimension that stays one element keeps its stride.
    return strided(np, x, shape, broadcast_strides(x.shape, element_strides(x), shape))


def basic_index(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Our index entries as the array library's."""
    return tuple([slice(*e) if e.__class__ is tuple else e for e in index])


@lowers(views.SLICE)
def slice_(xp: Any, x: Array, index: tuple[Any, ...]) -> Array:
    return x[(*basic_index(index), ...)]


@lowers(stop.STOP)
def stop_gradient(xp: Any, x: Array, tangents: bool) -> Array:
    return x[...]


@lowers(stop.CUSTOM)
def custom_function(xp: Any, x: Array, name: str) -> Array:
    return x.copy()


@lowers(strided_ops.DIAGONAL)
def diagonal(xp: Any, x: Array, offset: int, dim1: int, dim2: int) -> Array:
    out = xp.diagonal(x, offset, dim1, dim2)
    if xp is np:  # NumPy hands diagonals out read-only
        out.flags.writeable = x.flags.writeable
    return out


@lowers(strided_ops.UNFOLD)
def unfold(xp: Any, x: Array, dim: int, size: int, step: int) -> Array:
    steps = list(element_strides(x))
    inner = steps[dim]
    steps[dim] = inner * step
    shape = list(x.shape)
    shape[dim] = (shape[dim] - size) // step + 1
    return strided(xp, x, (*shape, size), (*steps, inner))


@lowers(strided_ops.AS_STRIDED)
def as_strided(
    xp: Any, x: Array, size: Shape, stride: Shape, offset: int, x_stride: Shape
) -> Array:
    if 0 in size and offset >= 0:  # nothing is read, wherever it starts
        return strided(xp, x, size, stride)
    actual = zip(x.shape, element_strides(x), x_stride, strict=True)
    inside = x.flags.c_contiguous and offset >= 0 and offset + span(size, stride) <= x.size
    if not inside:
        before, after = bounds(x)
        inside = offset >= -before and offset + span(size, stride) <= after
    if inside and (not x.size or all(n == 1 or a == b for n, a, b in actual)):
        return strided(xp, x, size, stride, offset)
    room = span(x.shape, x_stride)
    if offset < 0 or offset + span(size, stride) > room:
        raise ShapeError(
            f"as_strided: the view (sizes {size}, strides {stride}, {offset} from the start) "
            "reaches outside the tensor, whose storage is not there. Use the base tensor."
        )
    # x lies otherwise than it did: put its elements where they were, and look there.
    memory = xp.zeros(room, x.dtype)
    strided(xp, memory, x.shape, x_stride)[...] = x
    return strided(xp, memory, size, stride, offset)


@lowers(reinterpret.VIEW_AS_REAL)
def view_as_real(xp: Any, x: Array) -> Array:
    part = x.real.dtype
    return strided(xp, x, (*x.shape, 2), (*[s // part.itemsize for s in x.strides], 1), 0, part)


@lowers(reinterpret.VIEW_AS_COMPLEX)
def view_as_complex(xp: Any, x: Array) -> Array:
    if x.size and (
        x.strides[-1] != x.dtype.itemsize or any(s % (2 * x.dtype.itemsize) for s in x.strides[:-1])
    ):
        x = xp.ascontiguousarray(x)
    dtype = np.dtype(np.complex64 if x.dtype == np.float32 else np.complex128)
    if not x.size:
        return xp.empty(x.shape[:-1], dtype)
    return x.view(dtype)[..., 0]


@lowers(reinterpret.VIEW_DTYPE)
def view_dtype(xp: Any, x: Array, dtype: DType) -> Array:
    new = NUMPY_OF[dtype] if xp is np else FLOAT8.get(NUMPY_OF[dtype], NUMPY_OF[dtype])
    if x.ndim and x.shape[-1] == 1 and x.dtype.itemsize != new.itemsize:
        x = strided(xp, x, x.shape, (*element_strides(x)[:-1], 1))
    return x.view(new)


# Views that show the same bytes as elements of another dtype.
REINTERPRETING = (reinterpret.VIEW_AS_REAL, reinterpret.VIEW_AS_COMPLEX, reinterpret.VIEW_DTYPE)


@lowers(views.VIEW_SCATTER)
def view_scatter(xp: Any, x: Array, y: Array, chain: Any) -> Array:
    out = copy_with(xp, x, "same")
    window = follow(xp, out, chain)
    if not window.size:
        return out
    if xp.may_share_memory(window, out):
        window[...] = y
        return out
    # In this layout the chain cannot be followed without copies.
    for k, (record, params) in enumerate(chain):
        if record in REINTERPRETING:  # numbers of elements are none of their parts'
            part = xp.array(follow(xp, out, chain[:k]), order="C")
            shown = kernel_for(record, xp)(part, **params)  # type: ignore[misc]
            shown[...] = view_scatter(xp, shown, y, chain[k + 1 :])
            return view_scatter(xp, out, part, chain[:k])
    # Follow the elements' numbers.
    chosen = follow(xp, xp.arange(out.size).reshape(out.shape), chain)
    flat = xp.ascontiguousarray(out).reshape(-1)
    flat[chosen.reshape(-1)] = xp.broadcast_to(y, chosen.shape).reshape(-1)
    return flat.reshape(out.shape)


def follow(xp: Any, x: Array, chain: Any) -> Array:
    """The array a chain of views leads to."""
    for record, params in chain:
        x = kernel_for(record, xp)(x, **params)  # type: ignore[misc]
    return x
