"""Storages between memory and file: the bytes under tensors, shared by those that share them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from adjoint.engine.backends.array.buffers import to_host
from adjoint.engine.backends.array.devices import library
from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.gpu.cuda import is_available
from adjoint.engine.backends.array.gpu.transfers import transfer
from adjoint.engine.backends.array.memory.strides import element_strides, span, strided
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DType, bool_, uint8
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.tensor.memory import UntypedStorage
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor, wrap

Array = Any


class Stored:
    """A storage read from a file, on which tensors are built.

    Args:
        flat: its elements in one dimension, on the host.
        dtype: their type.
        device: where the tensors shall be.
    """

    __slots__ = ("_root", "device", "dtype", "flat")

    def __init__(self, flat: Array, dtype: DType, device: Device) -> None:
        self.flat = flat
        self.dtype = dtype
        self.device = device
        self._root: Tensor | None = None

    def tensor(
        self, size: tuple[Any, ...], stride: tuple[Any, ...], offset: Any, dtype: Any = None
    ) -> Tensor:
        """The window with this geometry; the first to show all of it becomes the root."""
        dtype = self.dtype if dtype is None else dtype
        self._check(size, stride, offset, dtype)
        count = len(self.flat) * self.dtype.itemsize // dtype.itemsize
        whole = offset == 0 and stride == contiguous_strides(size) and _count(size) == count
        if self._root is None:
            flat = self.flat if dtype is self.dtype else self.flat.view(NUMPY_OF[dtype])
            if self.device is not CPU:
                flat = transfer(flat, self.device)
            self._root = wrap(flat.reshape(size) if whole else flat)
            if whole:
                return self._root
        root = self._root if self._root.dtype is dtype else self._root.view(dtype)
        out = root.as_strided(size, stride, offset)
        out._base = None  # a leaf of its own, on shared memory
        return out

    def _check(self, size: Any, stride: Any, offset: Any, dtype: DType) -> None:
        numbers = (*size, *stride, offset)
        if len(size) != len(stride) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"size {size}, stride {stride} and offset {offset!r} make no tensor")
        room = len(self.flat) * self.dtype.itemsize
        if (offset + span(size, stride)) * dtype.itemsize > room:
            raise ValueError(f"size {size}, stride {stride}, offset {offset} exceed {room} bytes")


def _count(size: tuple[int, ...]) -> int:
    total = 1
    for n in size:
        total *= n
    return total


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


def locate(map_location: Any, location: str, flat: Array, source: str) -> Device:
    """Where a storage saved from `location` shall go."""
    target: Any = location
    if isinstance(map_location, dict):
        target = map_location.get(location, location)
    elif isinstance(map_location, (str, Device)):
        target = map_location
    elif isinstance(map_location, int):
        target = Device("cuda", map_location)
    elif callable(map_location):
        answer = map_location(UntypedStorage(Storage(flat), CPU), location)
        target = location if answer is None else getattr(answer, "device", answer)
    elif map_location is not None:
        raise TypeError(
            "load: map_location must be a device, a string, a dict or a function, received "
            f"{type(map_location).__name__}"
        )
    try:
        device = Device(target)
    except RuntimeError as error:
        raise DeviceError(
            f"load: {source}: don't know how to restore a storage on {str(target)[:80]!r}. Pass "
            "map_location='cpu'."
        ) from error
    if device.type == "cuda" and not is_available():
        raise DeviceError(
            f"load: {source}: attempting to load a storage on {str(device)!r}, but no CUDA device "
            "is available. Pass map_location='cpu'."
        )
    return device


def check_dtype(name: Any) -> DType:
    """The dtype of a storage class mentioned in a file."""
    kind = getattr(name, "kind", None)
    if isinstance(kind, DType):
        return kind
    if getattr(name, "name", "") == "torch.storage.UntypedStorage":
        return uint8
    raise TypeError(f"expected a storage class, found {name!r}")
