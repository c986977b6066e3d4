"""Convolutions of eager mode on a GPU, by cuDNN: how operands of a kind not met before are prepared
(Note [prepared convolutions])."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.array.libraries.convolutions import (
    Pairs,
    Shape,
    convolution_of,
    dense_strides,
    operation,
)
from adjoint.engine.backends.array.libraries.cudnn import cudnn_of, is_used
from adjoint.engine.backends.array.libraries.prepared import (
    PREPARED,
    Prepared,
    key_of,
    prepared_by,
)
from adjoint.engine.core.dtype import named
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state import switches

Array = Any
KEPT = 1024  # kinds of operands


def convolved(
    record: Record, x: Array, y: Array, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Array | None:
    """What a record gives for arrays on a GPU; None where cuDNN does not do it.

    The result lies with channels last, if one of the operands has them last.
    """
    key = key_of(record.name, x, y, stride, padding, dilation, groups)
    if key not in PREPARED:
        if len(PREPARED) >= KEPT:
            PREPARED.clear()
        PREPARED[key] = prepare(record, x, y, stride, padding, dilation, groups)
    prepared = PREPARED[key]
    return None if prepared is None else prepared(x, y)


def prepare(
    record: Record, x: Array, y: Array, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Prepared | None:
    """How arrays are convolved; None where cuDNN does not do it."""
    if x.dtype.name not in ("float16", "bfloat16", "float32", "float64") or not is_used():
        return None
    last = any(is_dense(a, True) and not is_dense(a, False) for a in (x, y))
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
    copied = not is_dense(x, last), not is_dense(y, last)
    return prepared_by(plan, x, tuple(shape), last, copied)


def is_dense(x: Array, channels_last: bool) -> bool:
    """Whether an array lies without gaps in an order, dimensions of one element aside."""
    wanted = dense_strides(x.shape, channels_last)
    return all(
        n == 1 or s == w * x.itemsize for n, s, w in zip(x.shape, x.strides, wanted, strict=True)
    )
