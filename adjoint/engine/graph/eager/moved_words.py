"""Operations that only move elements, of complex numbers seen as words."""

from __future__ import annotations

from typing import Any

from numpy import complex64, float64, ndarray

from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, SEVERAL
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.tensor.tensor import wrap

# What besides records that select moves its operands' elements, or puts zeros.
MOVING = frozenset({"cat", "stack", "tril", "triu"})


def as_words(record: Record, operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The operands of what only moves elements, with complex64 seen as float64; None: not so.

    Both are eight bytes, and their zeros are the same: one program moves either, with one load and
    one store for an element instead of one for each part. Few elements are not worth the words.
    """
    words: list[Any] = []
    if not any(is_tensor(x) and x._array.size >= SEVERAL for x in operands):
        return None
    for k, x in enumerate(operands):
        array: Any = x._array if is_tensor(x) else None
        if array.__class__ is not ndarray:
            return None
        if array.dtype == complex64:
            array = array.view(float64)
            if not array.flags.aligned:
                return None
            x = wrap(array)
        elif not (k and record.selects and array.dtype.kind in "iub"):
            return None  # the first operand's dtype, or one that is converted
        words.append(x)
    return tuple(words) if words else None


def as_device_words(record: Record, operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The same of operands on a GPU, however few elements they have."""
    first: Any = operands[0] if operands else None
    if not is_tensor(first) or first._array.dtype.char != "F":
        return None
    words: list[Any] = []
    for k, x in enumerate(operands):
        array: Any = x._array if is_tensor(x) else None
        if array.__class__ not in DEVICE_LAYOUTS:
            return None
        if array.dtype == complex64:
            if array.data.ptr % 8:
                return None
            x = wrap(array.view(float64))
        elif not (k and record.selects and array.dtype.kind in "iub"):
            return None  # one that is converted
        words.append(x)
    return tuple(words)
