"""PyTorch's layout before 1.6: pickles one after another, then the storages."""

from __future__ import annotations

import gc
import pickle
import sys
from pickle import UnpicklingError
from typing import Any

import numpy as np

from adjoint.engine.core.device import CPU
from adjoint.engine.core.errors import FileError, FileFormatError
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.tensor.memory import TypedStorage
from adjoint.engine.tensor.meta import META
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.io.builders import brief, names
from adjoint.io.collecting import pickled_value
from adjoint.io.skipping import skipping
from adjoint.io.storages import (
    WAITING,
    Stored,
    as_marked,
    check_dtype,
    from_bytes,
    host_bytes,
    placed,
)
from adjoint.io.unpickler import Unpickler

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


def write(
    value: Any, file: Any, pickles: bool = False, pickle_module: Any = None, protocol: int = 2
) -> None:
    """Write a value to a binary file, as PyTorch before 1.6 reads it too."""
    pickled, storages = pickled_value(value, pickles, pickle_module, protocol, legacy=True)
    sizes = {"short": 2, "int": 4, "long": 4}
    info = {
        "protocol_version": PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": sizes,
    }
    for part in (MAGIC, PROTOCOL, info):
        file.write(pickle.dumps(part, protocol))
    file.write(pickled)
    file.write(pickle.dumps([str(key) for key in range(len(storages))], protocol))
    file.flush()
    for flat, count in storages:
        data = bytes(flat.nbytes) if skipping() else host_bytes(flat)
        file.write(count.to_bytes(8, "little"))
        file.write(data)


class LegacyReader:
    """Reads a value from a file of the old layout.

    Args:
        file: the whole file, with `read`, `readline`, `seek`, `tell`.
        source: its name, for messages.
        map_location: where storages go, see `load`.
        run: how a pickle that runs is read (Note [pickles that run]); None runs nothing.
    """

    def __init__(self, file: Any, source: str, map_location: Any, run: Any = None) -> None:
        self.run = run
        self.file = file
        self.left = file.seek(0, 2)  # bytes that storages may still claim
        file.seek(0)
        self.budget = Budget(self.left, f"load: {source}")
        self.source = source
        self.map_location = map_location
        self.byteorder = "little"
        self.bytes: dict[str, tuple[Any, Any]] = {}  # by key: the bytes to fill, the dtype
        self.stored: dict[Any, Stored] = {}

    def load(self) -> Any:
        """The value."""
        unpickler = Unpickler(self.file, names(), self._storage, self.source, self.budget)
        try:
            magic = unpickler.load()
        except (UnpicklingError, EOFError, ValueError) as error:
            if "refused" in str(error):
                raise
            magic = None
        if type(magic) is not int or magic != MAGIC:
            raise FileFormatError(
                f"load: {self.source} is not a file that save wrote (no zip archive, no magic "
                "number): another format, or damaged"
            )
        protocol = unpickler.load()
        if type(protocol) is not int or protocol != PROTOCOL:
            raise FileError(f"load: {self.source}: unknown version of the old format")
        info = unpickler.load()
        if isinstance(info, dict) and info.get("little_endian") is False:
            self.byteorder = "big"
        if self.run is None:
            value = unpickler.load()
        else:
            value = self.run(self.file, self._run_storage).load()
        self._fill(unpickler.load())
        return value

    def _run_storage(self, pid: Any) -> Any:
        """Whole modules are written with the source text of their classes, which is not read."""
        return pid[1] if pid[0] == "module" else self._storage(pid)

    def _storage(self, pid: Any) -> TypedStorage:
        try:
            kind, cls, key, location, count, *rest = pid
            dtype = check_dtype(cls)
            if kind != "storage" or not isinstance(key, str) or not isinstance(location, str):
                raise TypeError(f"not a storage: {brief(kind)}, {brief(key)}, {brief(location)}")
            if type(count) is not int or not 0 <= count * dtype.itemsize <= self.budget.size:
                raise ValueError(f"{brief(count)} elements are more than the file holds")
            view, name = _part(rest, key, count)
            self._claim(key, count, dtype)
        except (TypeError, ValueError) as error:
            raise UnpicklingError(f"load: {self.source}: damaged storage: {error}") from error
        if name not in self.stored:
            self.budget.spend(1024, "a storage")
            data = self.bytes[key][0]
            if view is not None:  # a storage that is part of another
                start, size = (n * dtype.itemsize for n in view)
                data = data[start : start + size]
            flat = from_bytes(data, dtype, "little", checked=False)
            where = (location, self.map_location, self.source)
            self.stored[name] = placed(flat, dtype, *where, _Filled)
        return self.stored[name].typed()

    def _claim(self, key: str, count: int, dtype: Any) -> None:
        """Make room for a storage whose bytes follow; together they are no more than the file."""
        if key in self.bytes:
            if self.bytes[key][1] is not dtype:
                raise ValueError(f"storage {brief(key)} is of two dtypes")
            return
        self.left -= count * dtype.itemsize
        if self.left < 0:
            raise ValueError(f"the storages up to {brief(key)} are more than the file holds")
        self.bytes[key] = np.empty(count * dtype.itemsize, np.uint8), dtype

    def _fill(self, keys: Any) -> None:
        if not isinstance(keys, list):
            raise UnpicklingError(f"load: {self.source}: the list of storages is damaged")
        waiting = dict(self.bytes)
        for key in keys:
            count = int.from_bytes(self._read(8), "little")
            data, dtype = waiting.pop(key, (None, None)) if isinstance(key, str) else (None, None)
            if data is None or dtype is None:
                raise FileError(
                    f"load: {self.source}: storage {brief(key)} belongs to no tensor, or occurs "
                    "twice: damaged"
                )
            if count * dtype.itemsize != len(data):
                raise FileError(f"load: {self.source}: storage {brief(key)} has the wrong size")
            self._read_into(data)
            elements = from_bytes(data, dtype, self.byteorder).view(np.uint8)
            if elements.ctypes.data != data.ctypes.data:
                data[:] = elements
        if waiting:
            raise FileError(
                f"load: {self.source}: the elements of {len(waiting)} storages are missing: damaged"
            )
        waiting_for_device = [s for s in self.stored.values() if s.is_elsewhere()]  # type: ignore[attr-defined]
        seen = _seen_on([s._root for s in waiting_for_device if s._root is not None])
        for stored in self.stored.values():
            stored.finish(seen)  # type: ignore[attr-defined]

    def _read(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise FileError(f"load: {self.source}: the file is truncated")
        return bytes(data)

    def _read_into(self, data: Any) -> None:
        view, done = memoryview(data), 0
        while done < len(view):
            read = self.file.readinto(view[done:])
            if not read:
                raise FileError(f"load: {self.source}: the file is truncated")
            done += read


def _part(
    rest: list[Any], key: str, count: int
) -> tuple[tuple[int, int] | None, tuple[str, str | None]]:
    """The part of a storage that another is, and its name: (start, count) or None."""
    if not rest or rest[0] is None:
        return None, (key, None)
    if type(rest[0]) is not tuple or len(rest[0]) != 3:
        raise ValueError("a part of a storage needs a key, a start and a size")
    view_key, start, size = rest[0]
    numbers = type(start) is int and type(size) is int
    if not isinstance(view_key, str) or not numbers or min(start, size, count - start - size) < 0:
        raise ValueError(f"{brief(size)} elements from {brief(start)}, of {brief(count)}")
    return (start, size), (key, view_key)


def _seen_on(roots: list[Tensor]) -> dict[int, list[Tensor]]:
    """By the storage of each root, the tensors on it.

    Parameters, subclasses and parts of sparse tensors are made of a tensor of the file, and are
    other objects on its memory: only the collector knows of them all.
    """
    storages = [root._storage for root in roots]
    seen: dict[int, list[Tensor]] = {id(storage): [] for storage in storages}
    for tensor in gc.get_referrers(*storages) if storages else ():
        if isinstance(tensor, Tensor):
            seen[id(tensor._storage)].append(tensor)
    return seen


class _Filled(Stored):
    """A storage whose bytes come after the tensors on it: they move to their device at the end."""

    __slots__ = ("late", "wanted")

    def __init__(self, flat: Any, dtype: Any, device: Any) -> None:
        super().__init__(flat, dtype, META if device is META else CPU)
        self.wanted = device
        WAITING.add(self)
        self.late: list[tuple[Any, Any, Any]] = []  # a marked tensor, what it is of, the marks

    def is_elsewhere(self) -> bool:
        """Whether the tensors are still to move."""
        return self.wanted is not self.device

    def marked(self, tensor: Any, metadata: Any) -> Any:
        """The same, with memory whose elements are computed when the bytes are there."""
        out = super().marked(tensor, metadata)
        if out is not tensor:
            self.late.append((out, tensor, metadata))
        return out

    def finish(self, on: dict[int, list[Tensor]]) -> None:
        """Move to the device, now that the bytes are there; what shares them there still does."""
        WAITING.discard(self)
        if self.is_elsewhere():
            self.device = self.wanted
            tensors = on[id(self._root._storage)] if self._root is not None else []
            root = self._root = wrap(self._moved(self.flat))
            for tensor in tensors:
                seen = root if root.dtype is tensor.dtype else root.view(tensor.dtype)
                place = (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
                tensor.data = seen.as_strided(*place)
        for out, tensor, metadata in self.late:
            values = as_marked(tensor.detach(), metadata)
            if values.device == out.device:
                out.detach().copy_(values)  # in place: a parameter may be on the same memory
            else:
                out.data = values
        self.settle()
