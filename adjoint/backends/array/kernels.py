"""Kernels of the spine operations."""

from __future__ import annotations

from typing import Any

from adjoint.backends.array.devices import transfer
from adjoint.backends.array.dtypes import NUMPY_OF
from adjoint.backends.array.table import NAMED, lowers
from adjoint.core.device import Device
from adjoint.core.dtype import DType
from adjoint.ops import convert, creation, elementwise, join, views

Array = Any

NAMED.update(
    {
        elementwise.ADD: "add",
        elementwise.SUB: "subtract",
        elementwise.MUL: "multiply",
        elementwise.DIV: "divide",
        elementwise.NEG: "negative",
        elementwise.EXP: "exp",
        elementwise.LOG: "log",
        elementwise.SIN: "sin",
        elementwise.COS: "cos",
        elementwise.EQ: "equal",
        elementwise.LT: "less",
        elementwise.GT: "greater",
        elementwise.LOGICAL_NOT: "logical_not",
        elementwise.WHERE: "where",
        elementwise.CONJ: "conj",
    }
)


@lowers(convert.CAST)
def cast(xp: Any, x: Array, dtype: DType) -> Array:
    return x.astype(NUMPY_OF[dtype])


@lowers(convert.TO_DEVICE)
def to_device(xp: Any, x: Array, device: Device) -> Array:
    return transfer(x, device)


@lowers(convert.CLONE)
def clone(xp: Any, x: Array) -> Array:
    return x.copy(order="C")


@lowers(views.RESHAPE)
def reshape(xp: Any, x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


@lowers(views.PERMUTE)
def permute(xp: Any, x: Array, dims: tuple[int, ...]) -> Array:
    return x.transpose(dims)


@lowers(views.EXPAND)
def expand(xp: Any, x: Array, shape: tuple[int, ...]) -> Array:
    if x.shape == shape:
        return x[...]
    return xp.broadcast_to(x, shape)


def basic_index(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Our index entries as the array library's."""
    return tuple(slice(*e) if isinstance(e, tuple) else e for e in index)


@lowers(views.SLICE)
def slice_(xp: Any, x: Array, index: tuple[Any, ...]) -> Array:
    return x[(*basic_index(index), ...)]


@lowers(views.VIEW_SCATTER)
def view_scatter(xp: Any, x: Array, y: Array, chain: Any) -> Array:
    from adjoint.backends.array.table import kernel_for

    out = x.copy()
    window = out
    for record, params in chain:
        window = kernel_for(record, xp)(window, **params)  # type: ignore[misc]
    window[...] = y
    return out


@lowers(join.CAT)
def cat(xp: Any, *xs: Array, dim: int) -> Array:
    return xp.concatenate(xs, axis=dim)


@lowers(creation.FULL)
def full(xp: Any, value: Any, shape: tuple[int, ...], dtype: DType, device: Any) -> Array:
    return xp.full(shape, value, dtype=NUMPY_OF[dtype])


@lowers(creation.ARANGE)
def arange(xp: Any, *, start: Any, step: Any, length: int, dtype: DType, device: Any) -> Array:
    return (start + step * xp.arange(length)).astype(NUMPY_OF[dtype])
