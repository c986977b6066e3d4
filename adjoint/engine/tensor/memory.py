"""A tensor's memory: storages as PyTorch shows them, sizes in bytes, addresses, sharing."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Any

from numpy import ndarray

from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType, get_default_dtype, named
from adjoint.engine.core.errors import CaptureError, DeviceError, ShapeError
from adjoint.engine.core.operations.public import PUBLIC, method, prop
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.storage_bytes import read_bytes
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.engine.tensor.watching import show


def _holders(storage: Storage) -> tuple[list[Tensor], list[UntypedStorage]]:
    """The tensors and storages of users that refer to a storage; an error if others may."""
    found = gc.get_referrers(storage)
    tensors = [x for x in found if isinstance(x, Tensor)]
    handles = [x for x in found if isinstance(x, UntypedStorage)]
    # Two references are this function's argument, as its caller's attribute read and its own.
    if sys.getrefcount(storage) != len(tensors) + len(handles) + 2:
        raise NotImplementedError(
            "storage.share_memory_: more than tensors refer to this memory, and would keep it. "
            "Call share_memory_() of a tensor, or make the storage by share_memory_ first."
        )
    return tensors, handles


def listed_in_lines(storage: Any, kind: str) -> str:
    """A storage as PyTorch writes it: an element a line, then what it is."""
    elements = "\n ".join(map(str, storage))
    return f" {elements}\n[adjoint.storage.{kind} of size {storage.size()}]"


class UntypedStorage:
    """The bytes behind a tensor, shared by all its views; a number of new ones, or those given.

    Example:
        >>> import adjoint as ad
        >>> ad.UntypedStorage([1, 2]).tolist(), ad.UntypedStorage(4).nbytes()
        ([1, 2], 4)
    """

    __slots__ = ("_storage", "device")
    is_sparse = is_sparse_csr = is_hpu = False

    def __init__(self, storage: Storage | Any = 0, device: Device | Any = CPU) -> None:
        self.device = device if isinstance(device, Device) else Device(device)
        if not isinstance(storage, Storage):
            if self.device.type == "meta" and isinstance(storage, int):
                storage = Storage(None, payload=storage)  # a number of bytes, and none of them
            elif self.device is not CPU:
                raise NotImplementedError("UntypedStorage: new bytes are made on the CPU")
            else:
                storage = Storage(HOOKS.array.new_bytes(storage))
        self._storage = storage

    @property
    def _cdata(self) -> int:
        """A number that tells this storage from others that are there."""
        return id(self._storage)

    def data_ptr(self) -> int:
        """The address of the first byte."""
        known = HOOKS.storage_address(self._storage)
        if known is not None:
            return known
        show(self._storage)
        buffer = self._storage.buffer
        if HOOKS.address is not None and buffer.__class__ is ndarray and buffer.size:
            return HOOKS.address(buffer)
        there = buffer is not None and self.nbytes()
        return HOOKS.array.address(self._storage.buffer) if there else 0

    def nbytes(self) -> int:
        """The number of bytes."""
        storage = self._storage
        return int(storage.payload if storage.buffer is None else storage.buffer.nbytes)

    size = nbytes
    __len__ = nbytes

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a file, mapped; written through to it where `shared`.

        Args:
            filename: the file.
            shared: whether changes reach the file, which is lengthened if need be.
            nbytes: how many bytes; the whole file unless given.
        """
        return cls(Storage(HOOKS.array.map_file(str(filename), shared, int(nbytes))), CPU)

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        dtype: DType | None = None,
    ) -> UntypedStorage:
        """A copy of the bytes of elements in a buffer, which stand there in a byte order.

        Args:
            buffer: bytes, or what shows some.
            byte_order: "native", "little" or "big": of elements of more than one byte.
            count: how many elements; all that follow the offset unless given.
            offset: where the first begins, in bytes.
            dtype: of the elements.

        Example:
            >>> import adjoint as ad
            >>> ad.UntypedStorage.from_buffer(b"abcd", "big", dtype=ad.int16).tolist()
            [98, 97, 100, 99]
        """
        if dtype is None:
            raise RuntimeError("argument 'dtype' cannot be None")
        return read_bytes(buffer, dtype, byte_order, count, offset).untyped_storage()

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def element_size(self) -> int:
        """Bytes per element: one."""
        return 1

    def is_shared(self) -> bool:
        """Whether processes started later see what is written to it."""
        return bool(wrap(self._storage.buffer).is_shared())

    def _new_shared(self, size: int, *, device: Any = None) -> UntypedStorage:
        """So many bytes that processes write to together, as batches made by workers are."""
        place = self.device if device is None else device
        held = wrap(HOOKS.array.new_bytes(size)).to(place).share_memory_()
        return UntypedStorage(held._storage, held.device)

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes, with the tensor on them, to memory that processes write to together.

        Tensors hold an array of the memory each, so there may be one: views made before refuse.
        """
        if self._storage.buffer is None:
            raise NotImplementedError("storage.share_memory_: a storage on meta has no memory")
        if self.is_shared():
            return self
        tensors, handles = _holders(self._storage)
        if tensors:
            if len(tensors) > 1 or tensors[0].nbytes != UntypedStorage.nbytes(self):
                raise NotImplementedError(
                    "storage.share_memory_: several tensors, or a part of one, look at this memory "
                    "and would keep it. Call share_memory_() of the tensor before taking views."
                )
            moved = getattr(tensors[0], "share_memory_")()._storage  # noqa: B009 (a later layer's)
        else:
            moved = wrap(self._storage.buffer).share_memory_()._storage
        for handle in handles:
            handle._storage = moved
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is page-locked for copies to a GPU."""
        return self._storage.buffer is not None and bool(wrap(self._storage.buffer).is_pinned())

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        """A copy in page-locked memory, from which copies to a GPU are asynchronous."""
        return self if self.is_pinned() else type(self)(self._flat.pin_memory()._storage, CPU)

    @property
    def _flat(self) -> Tensor:
        return wrap(self._bytes())

    def _to(self, dtype: DType) -> TypedStorage:
        """The elements as another dtype's, in memory of their own."""
        return TypedStorage(self._flat.to(dtype, copy=True)._storage, self.device)

    @property
    def filename(self) -> None:
        """The file that is mapped; not known."""
        return None

    def get_device(self) -> int | None:
        """The number of the GPU; None on the CPU."""
        return self.device.index

    def resizable(self) -> bool:
        """Whether `resize_` may change its length: no."""
        return False

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes are on a GPU."""
        return self.device.type == "cuda"

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """The bytes on a device: itself, if they are there."""
        place = Device(device)
        if place is self.device:
            return self
        if place.type == "meta":
            size = UntypedStorage.nbytes(self)
            return type(self)(Storage(None, payload=size), place)
        if self._storage.buffer is None:
            raise NotImplementedError("storage.to: Cannot copy out of meta storage; no data!")
        return type(self)(wrap(self._storage.buffer).to(place)._storage, place)

    def cpu(self) -> UntypedStorage:
        """The bytes in host memory: itself, if they are there."""
        return self.to(device=CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """The bytes on a GPU: itself, if they are there."""
        number = device if isinstance(device, int) else None
        named = Device("cuda", number) if device is None or number is not None else device
        return self.to(device=named, non_blocking=non_blocking)

    def _bytes(self) -> Any:
        return HOOKS.array.as_bytes(self._storage.buffer)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise RuntimeError("a storage can be sliced with step 1 only")
            show(self._storage)
            return UntypedStorage(Storage(self._bytes()[index]), self.device)
        return int(self._bytes()[index])

    def __setitem__(self, index: Any, value: int) -> None:
        self._bytes()[index] = value
        self._storage.version += 1

    def fill_(self, value: int) -> UntypedStorage:
        """Write one byte everywhere."""
        self[:] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Write another storage's bytes, as many as there are here."""
        if source.nbytes() != self.nbytes():
            raise ShapeError(
                f"storage.copy_: expected {self.nbytes()} bytes, received {source.nbytes()}"
            )
        self[:] = source._bytes()
        return self

    def clone(self) -> UntypedStorage:
        """The same bytes in memory of their own."""
        return UntypedStorage(Storage(self._bytes().copy()), self.device)

    def resize_(self, size: int) -> UntypedStorage:
        """Change the length; refused for another length, since tensors may look at the bytes."""
        if size != self.nbytes():
            raise NotImplementedError(
                f"storage.resize_: {self.nbytes()} bytes cannot become {size} under the tensors "
                "that look at them. Make a new tensor and use `set_`."
            )
        return self

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """The bytes as integers."""
        return list(HOOKS.array.to_host(self._storage.buffer).tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self) -> int:
        if not hasattr(self, "_storage"):  # its file is still being read
            raise TypeError("a storage that is still being read has no hash")
        return hash(self._storage)

    def __repr__(self) -> str:
        return listed_in_lines(self, f"UntypedStorage(device={self.device})")


class TypedStorage(UntypedStorage):
    """The elements behind a tensor in memory order; a number of new ones, or those given.

    Args:
        storage: how many new elements, zeros, or the elements; what a tensor is a window on.
        wrap_storage: bytes to look at instead.
        dtype: of the elements; the default dtype unless given.
        device: the CPU.

    Example:
        >>> import adjoint as ad
        >>> ad.TypedStorage([1, 2], dtype=ad.int64).tolist()
        [1, 2]
    """

    # What a file is read by (`io.storages.Stored`): tensors are built on it, and so are these.
    __slots__ = ("_read_by",)
    _read_by: Any

    def __init__(
        self,
        storage: Any = 0,
        device: Device | Any = CPU,
        *,
        wrap_storage: UntypedStorage | None = None,
        dtype: DType | None = None,
    ) -> None:
        if isinstance(storage, Storage):
            super().__init__(storage, device)
            return
        dtype = get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            if wrap_storage.nbytes() % dtype.itemsize:
                raise RuntimeError(
                    f"TypedStorage: {wrap_storage.nbytes()} bytes are no whole number of elements "
                    f"of {dtype.itemsize} bytes"
                )
            show(wrap_storage._storage)
            seen = Storage(wrap(wrap_storage._bytes()).view(dtype)._array)
            super().__init__(seen, wrap_storage.device)
            return
        if isinstance(storage, (str, bytes, Tensor, UntypedStorage)):
            raise TypeError(
                "TypedStorage: expected a number of elements or a sequence of them, received "
                f"{type(storage).__name__}; bytes are read by from_buffer"
            )
        if Device(device) is not CPU:
            raise NotImplementedError("TypedStorage: new elements are made on the CPU")
        new = PUBLIC["", "zeros" if isinstance(storage, int) else "tensor"].fn
        given = storage if isinstance(storage, int) else list(storage)
        super().__init__(new(given, dtype=dtype, device=CPU)._storage, CPU)

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        dtype: DType | None = None,
        device: Device | Any = CPU,
    ) -> TypedStorage:
        """The same as elements: of the default dtype unless given, on the CPU."""
        if Device(device) is not CPU:
            raise RuntimeError(f"TypedStorage.from_buffer: Not available for device {device}")
        dtype = get_default_dtype() if dtype is None else dtype
        data = read_bytes(buffer, dtype, byte_order, count, offset)
        return TypedStorage(wrap_storage=data.untyped_storage(), dtype=dtype)

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        buffer = self._storage.buffer
        return self._read_by.dtype if buffer is None else wrap(buffer).dtype

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return self.untyped()

    @property
    def _flat(self) -> Tensor:
        return wrap(self._storage.buffer).reshape(-1)

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -self.size() <= index < self.size():
            raise IndexError(f"index {index} out of range for storage of size {self.size()}")
        return self._flat[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        self._flat[index] = value
        self._storage.version += 1

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Write another storage's elements, as many as there are here."""
        if len(source) != len(self):
            raise RuntimeError(
                f"storage.copy_: size does not match, self has {len(self)} elements but src has "
                f"{len(source)}"
            )
        self[:] = source._flat if isinstance(source, TypedStorage) else wrap(source._bytes())
        return self

    def _new_shared(self, size: int, *, device: Any = None) -> TypedStorage:
        """So many elements of the same kind that processes write to together."""
        held = super()._new_shared(size * self.dtype.itemsize, device=device)
        return TypedStorage(wrap_storage=held, dtype=self.dtype)

    def type(self) -> str:
        """The name of the kind of storage: `torch.FloatStorage`."""
        kind = wrap(self._storage.buffer).type()
        return kind.removesuffix("Tensor") + "Storage"

    def clone(self) -> TypedStorage:
        """The same elements in memory of their own."""
        return TypedStorage(self._flat.clone()._storage, self.device)

    def _to(self, dtype: DType) -> TypedStorage:
        """The elements as another dtype's, in memory of their own unless it is the same."""
        return self if dtype is self.dtype else super()._to(dtype)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._flat.tolist()

    def untyped(self) -> UntypedStorage:
        """The same memory, as bytes."""
        return UntypedStorage(self._storage, self.device)

    __eq__ = UntypedStorage.__eq__
    __hash__ = UntypedStorage.__hash__

    def __repr__(self) -> str:
        return listed_in_lines(self, f"TypedStorage(dtype={self.dtype}, device={self.device})")


CONVERSIONS = (
    "bfloat16:bfloat16 bool:bool byte:uint8 char:int8 complex_double:complex128 "
    "complex_float:complex64 double:float64 float:float32 half:float16 int:int32 long:int64 "
    "short:int16"
)


def _conversion(name: str, dtype: DType) -> Any:
    """The method of storages that gives elements of a dtype."""

    def converted(self: UntypedStorage) -> TypedStorage:
        return self._to(dtype)

    converted.__name__, converted.__doc__ = name, f"The elements as {dtype.name}."
    return converted


for _entry in CONVERSIONS.split():
    _name, _, _dtype = _entry.partition(":")
    setattr(UntypedStorage, _name, _conversion(_name, named(_dtype)))


StorageBase = UntypedStorage  # what PyTorch's storages inherit from


def is_storage(obj: Any) -> bool:
    """Whether a value is a storage.

    >>> import adjoint as ad
    >>> ad.is_storage(ad.ones(2).storage())
    True
    """
    return isinstance(obj, UntypedStorage)


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The storage this tensor is a window on."""
    shown: UntypedStorage | None = HOOKS.untyped(self)
    if shown is not None:
        return shown
    if self._storage.buffer is None:
        raise CaptureError("untyped_storage: a traced tensor has no memory")
    return UntypedStorage(self._storage, self.device)


@method
def storage(self: Tensor) -> TypedStorage:
    """The storage this tensor is a window on, by elements."""
    if self._storage.buffer is None:
        raise CaptureError("storage: a traced tensor has no memory")
    return TypedStorage(self._storage, self.device)


@method
def _typed_storage(self: Tensor) -> TypedStorage:
    """The memory, as elements of the tensor's dtype."""
    return storage(self)


@method
def storage_type(self: Tensor) -> type:
    """The type of `storage()`."""
    return TypedStorage


@method
def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, for reading."""
    return self.data_ptr()


@method
def element_size(self: Tensor) -> int:
    """Bytes per element."""
    array = self._array  # which knows as well, and is asked in less time
    return array.itemsize if array.__class__ is ndarray else self.dtype.itemsize


@prop
def itemsize(self: Tensor) -> int:
    """Bytes per element."""
    array = self._array  # which knows as well, and is asked in less time
    return array.itemsize if array.__class__ is ndarray else self.dtype.itemsize


@prop
def nbytes(self: Tensor) -> int:
    """Bytes of all elements, counted once each."""
    array = self._array
    return array.nbytes if array.__class__ is ndarray else int(array.size) * self.dtype.itemsize


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors are the same window on the same storage."""
    return (
        self._storage is tensor._storage
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
        and self.storage_offset() == tensor.storage_offset()
    )


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is page-locked for copies to a GPU."""
    return self.device is CPU and HOOKS.array.is_pinned(self._array)


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in page-locked memory, from which copies to a GPU are asynchronous."""
    if self.device is not CPU:
        raise DeviceError(f"cannot pin '{self.device}': only dense CPU tensors can be pinned")
    return self if self.is_pinned() else wrap(HOOKS.array.pin(self._array))


@method
def record_stream(self: Tensor, stream: Any) -> None:
    """Have this tensor's memory stay until what a stream was asked for so far is done.

    Needed where another stream uses it than the one that was current when it was made.
    """
    if self.device.type != "cuda":
        raise DeviceError(f"record_stream: the tensor is on {self.device}, which has no streams")
    HOOKS.array.used_by(self._array, stream)


@method
def dim_order(self: Tensor, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Dimensions from the outermost in memory to the innermost."""
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))


@method
def resize(self: Tensor, *sizes: Any) -> Tensor:
    """The same elements in another shape (PyTorch's deprecated form)."""
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    return self.reshape(*sizes)


@method
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The same elements in the shape of another tensor (PyTorch's deprecated form)."""
    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return self.reshape(tensor.shape)
