"""Convolutions of eager mode on a GPU, by cuDNN."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.libraries.convolutions import (
    Pairs,
    Shape,
    convolution_of,
    dense_strides,
    operation,
)
from adjoint.engine.backends.array.libraries.cudnn import cudnn_of, is_used
from adjoint.engine.core import switches
from adjoint.engine.core.dtype import named
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec

Array = Any


def convolved(
    record: Record, x: Array, y: Array, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Array | None:
    """What a record gives for arrays on a GPU; None where cuDNN does not do it.

    The result lies as the first operand does: with channels last, if that has them last.
    """
    if x.dtype.name not in ("float16", "bfloat16", "float32", "float64") or not is_used():
        return None
    last = is_dense(x, True) and not is_dense(x, False)
    specs = (Spec(a.shape, named(a.dtype.name)) for a in (x, y))
    shape = record.infer(
        *specs, stride=stride, padding=padding, dilation=dilation, groups=groups
    ).shape
    call = convolution_of(
        record.name, x.dtype.name, (x.shape, y.shape, shape), stride, padding, dilation, last
    )
    if call is None:
        return None
    timed = bool(switches.get("backends.cudnn.benchmark"))
    plan = cudnn_of(x.device.id).planned(operation(call), timed)
    if plan is None:
        return None
    out = empty(shape, x.dtype, last)
    room = cupy().empty(max(plan.workspace, 1), "uint8")
    arrays = (dense(x, last), dense(y, last), out)
    plan([int(a.data.ptr) for a in arrays], int(room.data.ptr))
    return out


def is_dense(x: Array, channels_last: bool) -> bool:
    """Whether an array lies without gaps in an order, dimensions of one element aside."""
    wanted = dense_strides(x.shape, channels_last)
    return all(
        n == 1 or s == w * x.itemsize for n, s, w in zip(x.shape, x.strides, wanted, strict=True)
    )


def empty(shape: Shape, dtype: Any, channels_last: bool) -> Array:
    """A new array in an order."""
    if not channels_last:
        return cupy().empty(shape, dtype)
    made = cupy().empty((shape[0], *shape[2:], shape[1]), dtype)
    return made.transpose((0, len(shape) - 1, *range(1, len(shape) - 1)))


def dense(x: Array, channels_last: bool) -> Array:
    """The same elements without gaps in an order."""
    if is_dense(x, channels_last):
        return x
    made = empty(x.shape, x.dtype, channels_last)
    made[...] = x
    return made
