"""Elements read from a buffer of bytes, as storages of every kind are made of them."""

from __future__ import annotations

import sys
from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.tensor.tensor import Tensor, wrap

BYTE_ORDERS = ("native", "little", "big")


def read_bytes(
    buffer: Any, dtype: dt.DType, byte_order: str | None = None, count: int = -1, offset: int = 0
) -> Tensor:
    """A copy of the bytes of elements in a buffer, in the order of this machine's.

    Args:
        buffer: bytes, or what shows some.
        dtype: of the elements.
        byte_order: "native", "little" or "big": of elements of more than one byte.
        count: how many elements; all that follow the offset unless given.
        offset: where the first begins, in bytes.
    """
    held, size = bytes(memoryview(buffer).cast("B")), dtype.itemsize
    if byte_order is None and size > 1:
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    if byte_order not in (None, *BYTE_ORDERS):
        raise ValueError(
            f"invalid byte_order {byte_order!r} (expected 'big', 'little', or 'native')"
        )
    if not 0 <= offset <= len(held):
        raise ValueError(
            "offset must be non-negative and no greater than buffer length "
            f"({len(held)}), but got {offset}"
        )
    if count < 0 and (len(held) - offset) % size:
        raise ValueError(f"buffer size ({len(held)}) must be a multiple of element size ({size})")
    number = (len(held) - offset) // size if count < 0 else count
    if offset + number * size > len(held):
        raise ValueError(
            f"buffer has only {(len(held) - offset) // size} elements after offset {offset}, "
            f"but specified a size of {number}"
        )
    data = wrap(HOOKS.array.new_bytes(memoryview(held)[offset : offset + number * size]))
    if byte_order not in (None, "native", sys.byteorder):
        part = size // 2 if dtype.is_complex else size
        data = data.reshape(-1, part).flip(1).reshape(-1)
    if dtype is dt.bool_:  # any byte but zero is true
        data = data.ne(0).view(dt.uint8)
    return data.clone()
