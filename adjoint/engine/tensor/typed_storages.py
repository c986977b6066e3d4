"""Storages named by what they hold, `FloatStorage` and the rest, as older programs make them.

Made, each is a `TypedStorage`; `isinstance` asks for its dtype, as in PyTorch.
"""

from __future__ import annotations

import sys
from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.device import CPU
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.tensor.memory import TypedStorage, UntypedStorage
from adjoint.engine.tensor.tensor import wrap

BYTE_ORDERS = ("native", "little", "big")


class LegacyStorageMeta(type):
    """The type of the classes below: a storage is of the one whose dtype it has."""

    dtype: dt.DType

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, TypedStorage):
            return False
        return cls is LegacyStorage or (instance.device is CPU and instance.dtype is cls.dtype)

    def __call__(cls, *args: Any, wrap_storage: UntypedStorage | None = None) -> TypedStorage:
        """New elements: none, so many zeros, those of a sequence, or those that bytes are."""
        if cls is LegacyStorage:
            raise RuntimeError("_LegacyStorage: only its subclasses can be made, FloatStorage ...")
        if len(args) > 1 or (args and wrap_storage is not None):
            raise RuntimeError(
                f"{cls.__name__}: received an invalid combination of arguments. Expected none, a "
                "number of elements, a sequence, or wrap_storage="
            )
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype)


class LegacyStorage(metaclass=LegacyStorageMeta):
    """What the classes have in common."""

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0
    ) -> TypedStorage:
        """A copy of the elements in a buffer of bytes.

        Args:
            buffer: bytes, or what shows some.
            byte_order: "native", "little" or "big": of elements of more than one byte.
            count: how many elements; all that follow the offset unless given.
            offset: where the first begins, in bytes.

        Example:
            >>> import adjoint as ad
            >>> ad.ShortStorage.from_buffer(bytes([1, 0, 0, 1]), "little").tolist()
            [1, 256]
        """
        held, size = bytes(memoryview(buffer).cast("B")), cls.dtype.itemsize
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
            raise ValueError(
                f"buffer size ({len(held)}) must be a multiple of element size ({size})"
            )
        number = (len(held) - offset) // size if count < 0 else count
        if offset + number * size > len(held):
            raise ValueError(
                f"buffer has only {(len(held) - offset) // size} elements after offset {offset}, "
                f"but specified a size of {number}"
            )
        data = wrap(HOOKS.array.new_bytes(memoryview(held)[offset : offset + number * size]))
        if byte_order not in (None, "native", sys.byteorder):
            part = size // 2 if cls.dtype.is_complex else size
            data = data.reshape(-1, part).flip(1).reshape(-1)
        if cls.dtype is dt.bool_:  # any byte but zero is true
            data = data.ne(0).view(dt.uint8)
        return TypedStorage(wrap_storage=data.clone().untyped_storage(), dtype=cls.dtype)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """The elements of a file, mapped; written through to it where `shared`.

        Args:
            filename: the file.
            shared: whether changes reach the file, which is lengthened if need be.
            size: how many elements; the whole file unless given.
        """
        held = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=held, dtype=cls.dtype)


def storage_class(name: str, dtype: dt.DType) -> Any:
    """The class of storages of a dtype."""
    about = {"dtype": dtype, "__doc__": f"Elements of {dtype.name} in memory order."}
    return LegacyStorageMeta(name, (LegacyStorage,), {**about, "__module__": "torch"})


FloatStorage = storage_class("FloatStorage", dt.float32)
DoubleStorage = storage_class("DoubleStorage", dt.float64)
HalfStorage = storage_class("HalfStorage", dt.float16)
BFloat16Storage = storage_class("BFloat16Storage", dt.bfloat16)
ByteStorage = storage_class("ByteStorage", dt.uint8)
CharStorage = storage_class("CharStorage", dt.int8)
ShortStorage = storage_class("ShortStorage", dt.int16)
IntStorage = storage_class("IntStorage", dt.int32)
LongStorage = storage_class("LongStorage", dt.int64)
BoolStorage = storage_class("BoolStorage", dt.bool_)
ComplexFloatStorage = storage_class("ComplexFloatStorage", dt.complex64)
ComplexDoubleStorage = storage_class("ComplexDoubleStorage", dt.complex128)
