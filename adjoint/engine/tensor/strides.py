"""Which strides a result will have, for tensors whose elements are not there yet."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.layout import format_strides, preserve_format
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.spec import same_shape

Shape = tuple[int, ...]


def result_strides(
    record: Record, operands: tuple[Any, ...], params: dict[str, Any], shape: Shape
) -> Shape | None:
    """The strides eager execution would give a result; None means row-major.

    Operations that keep the layout do so when all operands of the result's shape agree on it.
    """
    wanted: Shape | str | None = params.get("strides", "same")
    if not isinstance(wanted, str):
        return wanted
    if not record.keeps_layout:
        return None
    like = {
        tuple(x.stride()) for x in operands if is_tensor(x) and same_shape(x._array.shape, shape)
    }
    if len(like) != 1:
        return None
    (strides,) = like
    return format_strides(record.name, shape, strides, preserve_format) or strides


def lane_strides(value: Any, shape: Shape) -> Shape | None:
    """The strides of one lane of a batched value, or of the value itself; None: row-major."""
    if value.is_contiguous():
        return None
    strides = tuple(value.stride())
    if len(strides) == len(shape):
        return strides
    return format_strides("vmap", shape, strides[1:], preserve_format)
