"""Storages between memory and file: the bytes under tensors, shared by those that share them."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np

from adjoint.engine.backends.array.buffers import to_host
from adjoint.engine.backends.array.devices import library
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.gpu.transfers import transfer
from adjoint.engine.backends.array.memory.strides import element_strides, span, strided
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType, bool_, uint8
from adjoint.engine.core.spec import Spec, contiguous_strides
from adjoint.engine.tensor.memory import TypedStorage, UntypedStorage
from adjoint.engine.tensor.meta import META, blank
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.io.locations import locate

Array = Any


class Stored:
    """A storage read from a file, on which tensors are built.

    Args:
        flat: its elements in one dimension, on the host.
        dtype: their type.
        device: where the tensors shall be.
    """

    __slots__ = ("__weakref__", "_root", "device", "dtype", "flat", "shown")

    def __init__(self, flat: Array, dtype: DType, device: Device) -> None:
        self.flat = flat
        self.dtype = dtype
        self.device = device
        self._root: Tensor | None = None
        self.shown: TypedStorage | None = None

    def typed(self) -> TypedStorage:
        """The storage as programs see it; what is behind it is set by `settle`."""
        if self.shown is None:
            self.shown = TypedStorage.__new__(TypedStorage)
            self.shown._read_by = self
            self.shown.device = self.device
        return self.shown

    def settle(self) -> None:
        """Give the storage that `typed` handed out its memory, now that the tensors are there.

        It knows what it was read by, which then forgets it: what hold one another would keep all
        that was loaded until Python looks for cycles.
        """
        shown, self.shown = self.shown, None
        if shown is None:
            return
        shown.device = self.device
        if self.device is META:
            shown._storage = Storage(None, payload=int(self.flat.nbytes))
            return
        if self._root is None:
            self._root = wrap(self._moved(self.flat))
        shown._storage = self._root._storage

    def _moved(self, flat: Array) -> Array:
        return flat if self.device is CPU else transfer(flat, self.device)

    def tensor(
        self, size: tuple[Any, ...], stride: tuple[Any, ...], offset: Any, dtype: Any = None
    ) -> Tensor:
        """The window with this geometry; the first to show all of it becomes the root."""
        dtype = self.dtype if dtype is None else dtype
        self._check(size, stride, offset, dtype)
        if self.device is META:
            return blank(Spec(size, dtype, META), stride)
        count = len(self.flat) * self.dtype.itemsize // dtype.itemsize
        whole = offset == 0 and stride == contiguous_strides(size) and _count(size) == count
        if self._root is None:
            flat = self.flat if dtype is self.dtype else self.flat.view(NUMPY_OF[dtype])
            flat = self._moved(flat)
            self._root = wrap(flat.reshape(size) if whole else flat)
            if whole:
                return self._root
        root = self._root if self._root.dtype is dtype else self._root.view(dtype)
        out = root.detach().as_strided(size, stride, offset)
        out._base = None  # a leaf of its own, on shared memory
        return out

    def marked(self, tensor: Tensor, metadata: Any) -> Tensor:
        """A tensor of this storage as its file marks it."""
        return as_marked(tensor, metadata)

    def _check(self, size: Any, stride: Any, offset: Any, dtype: DType) -> None:
        numbers = (*size, *stride, offset)
        if len(size) != len(stride) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"size {size}, stride {stride} and offset {offset!r} make no tensor")
        if 0 in size:  # it reads nothing, wherever it starts: a slice of an empty tensor
            return
        room = len(self.flat) * self.dtype.itemsize
        if (offset + span(size, stride)) * dtype.itemsize > room:
            raise ValueError(f"size {size}, stride {stride}, offset {offset} exceed {room} bytes")


# Storages whose bytes come after the tensors on them, and are not there yet.
WAITING: weakref.WeakSet[Stored] = weakref.WeakSet()


def require_elements(what: str, *tensors: Tensor) -> None:
    """Refuse what is made of elements that are still to be read."""
    waiting = [stored._root._storage for stored in WAITING if stored._root is not None]
    if any(tensor._storage is storage for tensor in tensors for storage in waiting):
        raise TypeError(f"{what} is not loaded from a file of the layout before PyTorch 1.6")


def _count(size: tuple[int, ...]) -> int:
    total = 1
    for n in size:
        total *= n
    return total


def marks(metadata: Any) -> tuple[bool, bool]:
    """Whether a file says that a tensor is the conjugate, and the negative, of what is stored.

    PyTorch's `conj` and `imag` give views that are only marked so, and its files hold the marks.
    """
    if metadata is None:
        return False, False
    if type(metadata) is not dict:
        raise TypeError(f"expected a dict of marks, found a {type(metadata).__name__}")
    return metadata.get("conj") is True, metadata.get("neg") is True


def as_marked(tensor: Tensor, metadata: Any) -> Tensor:
    """A tensor as its file marks it. Adjoint has no such views: a marked one has its own memory."""
    conjugate, negative = marks(metadata)
    if conjugate:
        tensor = tensor.conj_physical()
    return tensor.neg() if negative else tensor


def memory_of(tensor: Tensor) -> tuple[Array, int]:
    """All elements of a tensor's storage in memory order, and where the tensor begins in them.

    A storage seen as another dtype is given in the tensor's.
    """
    buffer = tensor._storage.buffer
    xp = library(tensor.device)
    count = span(buffer.shape, element_strides(buffer))
    flat = strided(xp, buffer, (count,), (1,))
    shown = tensor._array
    if flat.dtype != shown.dtype:
        if count * flat.dtype.itemsize % shown.dtype.itemsize:
            return _own_copy(tensor)
        flat = flat.view(shown.dtype)
    offset = int(tensor.storage_offset()) if shown.size else 0
    if offset < 0 or offset + span(tuple(tensor.shape), tuple(tensor.stride())) > len(flat):
        return _own_copy(tensor)
    return flat, offset


def _own_copy(tensor: Tensor) -> tuple[Array, int]:
    raise RuntimeError(
        f"save: a tensor of {tensor.dtype} with shape {tuple(tensor.shape)} does not lie on whole "
        "elements of its storage. Save tensor.clone()."
    )


def host_bytes(flat: Array) -> Array:
    """The bytes of a one-dimensional array, on the host."""
    host = to_host(flat)
    return host.view(np.uint8) if len(host) else np.empty(0, np.uint8)


def from_bytes(data: Array, dtype: DType, byteorder: str, checked: bool = True) -> Array:
    """Bytes as elements, swapped if the file comes from a machine of the other kind.

    With `checked`, booleans that are neither 0 nor 1 become 1: NumPy counts on it, and writes
    outside its arrays where it is not so.
    """
    if checked and dtype is bool_ and len(data) and data.max() > 1:
        data = (data != 0).view(np.uint8)
    flat = data.view(NUMPY_OF[dtype])
    if byteorder != sys.byteorder and dtype.itemsize > 1:
        part = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        swapped = np.ascontiguousarray(data.reshape(-1, part)[:, ::-1]).reshape(-1)
        flat = swapped.view(NUMPY_OF[dtype])
    return flat


def placed(
    flat: Array, dtype: DType, location: str, map_location: Any, source: str, kind: Any = Stored
) -> Stored:
    """A storage of a file, where `map_location` wants it (Note [locations])."""

    def offered() -> UntypedStorage:
        return UntypedStorage(Storage(flat), CPU)

    target = locate(map_location, location, offered, source)
    if isinstance(target, Device):
        return kind(flat, dtype, target)
    buffer = target._storage.buffer
    if target.device is META or buffer is None:
        return kind(flat, dtype, META)
    if target.nbytes() != flat.nbytes:
        raise RuntimeError(
            f"load: {source}: map_location gave a storage of {target.nbytes()} bytes for one of "
            f"{flat.nbytes}"
        )
    host = to_host(buffer).reshape(-1).view(np.uint8).view(flat.dtype)
    return kind(host, dtype, target.device)


def check_dtype(name: Any) -> DType:
    """The dtype of a storage class mentioned in a file."""
    kind = name if isinstance(name, DType) else getattr(name, "kind", None)
    if isinstance(kind, DType):
        return kind
    if getattr(name, "name", "") == "torch.storage.UntypedStorage":
        return uint8
    raise TypeError(f"expected a storage class, found {name!r}")
