"""Storages named by what they hold, `FloatStorage` and the rest, as older programs make them.

Made, each is a `TypedStorage`; `isinstance` asks for its dtype, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.device import CPU
from adjoint.engine.tensor.memory import TypedStorage, UntypedStorage
from adjoint.engine.tensor.storage_bytes import read_bytes


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
        data = read_bytes(buffer, cls.dtype, byte_order, count, offset)
        return TypedStorage(wrap_storage=data.untyped_storage(), dtype=cls.dtype)

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
