"""Shapes: joining, splitting and rearranging arrays."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.array_api.arrays import anything, standard
from adjoint.array_api.dtypes import cast, result_type
from adjoint.engine.core.errors import ShapeIndexError, ShapeValueError
from adjoint.engine.tensor.tensor import Tensor


def _axis(name: str, axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise ShapeIndexError(
            f"{name}: axis {axis} is out of range for an array of {ndim} dimensions"
        )
    return axis % ndim


def axes_of(name: str, axis: Any, ndim: int) -> list[int]:
    """Axes as a list of numbers from 0: all of them for None."""
    if axis is None:
        return list(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [_axis(name, axis, ndim) for axis in given]
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: repeated axis in {axis}")
    return axes


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise ValueError(f"broadcast_shapes: {error}") from None


@anything
def broadcast_arrays(*arrays: Any) -> Any:
    """The arrays, each in the shape they broadcast to."""
    shape = broadcast_shapes(*(tuple(array.shape) for array in arrays))
    return [array.expand(shape) for array in arrays]


@anything
def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    """The array repeated along dimensions of size one."""
    return x.expand(tuple(shape))


@standard
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays joined along a dimension they have; all flattened if `axis` is None."""
    dtype = result_type(*arrays)
    parts = [cast(array, dtype) for array in arrays]
    if axis is None:
        parts, axis = [part.reshape(-1) for part in parts], 0
    sizes = {part.ndim for part in parts}
    if len(sizes) != 1 or 0 in sizes:
        raise ShapeValueError(
            f"concat: expected arrays of equal rank above 0, received ranks {sizes}"
        )
    axis = _axis("concat", axis, parts[0].ndim)
    return ad.cat(parts, axis)


@standard
def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Arrays of one shape joined along a new dimension."""
    dtype = result_type(*arrays)
    return ad.stack([cast(array, dtype) for array in arrays], axis)


@anything
def expand_dims(x: Any, /, axis: Any = 0) -> Any:
    """The array with new dimensions of size one."""
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    for place in sorted(
        _axis("expand_dims", axis_given, x.ndim + len(given)) for axis_given in given
    ):
        x = x.unsqueeze(place)
    return x


@standard
def flip(x: Any, /, *, axis: Any = None) -> Any:
    """The array turned round along some dimensions, all if None."""
    return x.flip(axes_of("flip", axis, x.ndim))


@anything
def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """The array with dimensions at other places."""
    return x.movedim(source, destination)


@anything
def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    """The array with its dimensions in another order."""
    return x.permute(tuple(axes))


@standard
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element (or slice along `axis`) repeated."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    if isinstance(repeats, Tensor):
        size = x.shape[axis]
        repeats = repeats.to(ad.int64).reshape(-1)
        repeats = repeats.expand(size) if repeats.shape[0] == 1 else repeats
    return x.repeat_interleave(repeats, axis)


@anything
def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """The elements in another shape."""
    shape = tuple(shape)
    if copy:
        return x.clone().reshape(shape)
    if copy is False:
        try:
            return x.view(shape)
        except RuntimeError as error:
            raise ValueError(f"reshape: copy=False, but {error}") from None
    return x.reshape(shape)


@standard
def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """The elements shifted round, along some dimensions or as if there were one."""
    if axis is None:
        return x.reshape(-1).roll(shift, 0).reshape(x.shape)
    axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift]
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    return x.roll(tuple(shifts), tuple(axes))


@anything
def squeeze(x: Any, /, axis: Any) -> Any:
    """The array without some dimensions of size one."""
    axes = axes_of("squeeze", axis, x.ndim)
    for axis_of_one in axes:
        if x.shape[axis_of_one] != 1:
            raise ShapeValueError(
                f"squeeze: axis {axis_of_one} has size {x.shape[axis_of_one]}, not 1"
            )
    return x.reshape([n for d, n in enumerate(x.shape) if d not in axes]) if axes else x


@standard
def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    """The whole array repeated along each dimension."""
    return x.tile(tuple(repetitions))


@anything
def unstack(x: Any, /, *, axis: int = 0) -> Any:
    """The slices along a dimension, as a tuple of arrays."""
    axis = _axis("unstack", axis, x.ndim)
    return tuple(x.select(axis, i) for i in builtins.range(x.shape[axis]))


@standard
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The slices along a dimension at the given places."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis is needed for an array of {x.ndim} dimensions")
        axis = 0
    axis = _axis("take", axis, x.ndim)
    return x[(builtins.slice(None),) * axis + (indices.to(ad.int64),)]


@standard
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Elements along a dimension at places given for each line of it."""
    axis = _axis("take_along_axis", axis, x.ndim)
    indices = indices.to(ad.int64)
    shape = list(broadcast_shapes(
        tuple(1 if d == axis else n for d, n in enumerate(x.shape)),
        tuple(1 if d == axis else n for d, n in enumerate(indices.shape)),
    ))  # fmt: skip
    shape[axis] = indices.shape[axis]
    indices = ad.where(indices < 0, indices + x.shape[axis], indices).expand(shape)
    shape[axis] = x.shape[axis]
    return x.expand(shape).gather(axis, indices)
