"""Sequences and optional values."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.reading import OnnxError
from adjoint.onnx.table import NodeCall, operator
from adjoint.onnx.types import Value, integers, number


def _position(position: Value, length: int, default: int) -> int:
    if position is None:
        return default
    place = int(number(position))
    if not -length - 1 <= place <= length:
        raise OnnxError(f"onnx: position {place} lies outside a sequence of {length}.")
    return place + length if place < 0 else place


@operator("SequenceConstruct")
def sequence_construct(*values: Value) -> list[Value]:
    """A sequence of values."""
    return list(values)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Value]:
    """A sequence of nothing."""
    return []


@operator("SequenceInsert")
def sequence_insert(sequence: list[Value], value: Value, position: Value = None) -> list[Value]:
    """With one more value, at a place or at the end."""
    place = _position(position, len(sequence), len(sequence))
    return [*sequence[:place], value, *sequence[place:]]


@operator("SequenceErase")
def sequence_erase(sequence: list[Value], position: Value = None) -> list[Value]:
    """Without the value at a place, or the last."""
    place = _position(position, len(sequence), len(sequence) - 1)
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("SequenceAt")
def sequence_at(sequence: list[Value], position: Value) -> Value:
    """The value at a place."""
    place = _position(position, len(sequence), 0)
    if place >= len(sequence):
        raise OnnxError(f"onnx: position {place} lies outside a sequence of {len(sequence)}.")
    return sequence[place]


@operator("SequenceLength")
def sequence_length(sequence: list[Value]) -> Tensor:
    """How many values a sequence has."""
    return ad.tensor(len(sequence), dtype=ad.int64)


@operator("ConcatFromSequence")
def concat_from_sequence(sequence: list[Tensor], *, axis: int, new_axis: int = 0) -> Value:
    """The values of a sequence joined along an axis, or along a new one."""
    if sequence and isinstance(sequence[0], np.ndarray):
        return np.stack(sequence, axis) if new_axis else np.concatenate(sequence, axis)
    return ad.stack(sequence, axis) if new_axis else ad.cat(sequence, axis)


@operator("SplitToSequence", moves=True)
def split_to_sequence(
    x: Tensor, split: Value = None, *, axis: int = 0, keepdims: int = 1
) -> list[Tensor]:
    """Parts along an axis, as a sequence."""
    length = int(x.shape[axis])
    if split is None:
        parts = list(ad.split(x, 1, axis)) if length else []
        return parts if keepdims else [part.squeeze(axis) for part in parts]
    sizes = integers(split)
    if split.ndim == 0:
        size = sizes[0]
        if size <= 0:
            raise OnnxError(f"onnx: SplitToSequence: parts of {size} are no parts.")
        sizes = [min(size, length - start) for start in range(0, length, size)]
    return list(ad.split(x, sizes, axis))


@operator("SequenceMap")
def sequence_map(
    sequence: list[Value], *others: Value, body: Any, call: NodeCall
) -> tuple[list[Value], ...]:
    """A graph applied to each value."""
    run = call.body(body)
    rows = [
        run(value, *[other[k] if isinstance(other, list) else other for other in others])
        for k, value in enumerate(sequence)
    ]
    return tuple([row[k] for row in rows] for k in range(len(body.output)))


@operator("Optional")
def optional(value: Value = None, *, type: Any = None) -> Value:
    """A value, or none."""
    return value


@operator("OptionalHasElement")
def optional_has_element(value: Value = None) -> Tensor:
    """Whether there is a value."""
    return ad.tensor(value is not None)


@operator("OptionalGetElement")
def optional_get_element(value: Value) -> Value:
    """The value, which must be there."""
    if value is None:
        raise OnnxError("onnx: OptionalGetElement: there is no value.")
    return value
