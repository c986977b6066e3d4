"""PyTorch's format before 1.6: pickles one after another, then the storages."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

import numpy as np

from adjoint.engine.core.device import CPU
from adjoint.io.builders import names
from adjoint.io.storages import Stored, check_dtype, from_bytes, locate
from adjoint.io.unpickler import Unpickler

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


class LegacyReader:
    """Reads a value from a file of the old layout.

    Args:
        file: the whole file, with `read`, `readline`, `seek`, `tell`.
        length: its size in bytes.
        source: its name, for messages.
        map_location: where storages go, see `load`.
    """

    def __init__(
        self, file: Any, length: int, source: str, map_location: Any, weights_only: bool = True
    ) -> None:
        self.weights_only = weights_only
        self.file = file
        self.length = length
        self.source = source
        self.map_location = map_location
        self.byteorder = "little"
        self.bytes: dict[str, tuple[Any, Any]] = {}  # by key: the bytes to fill, the dtype
        self.stored: dict[Any, Stored] = {}

    def load(self) -> Any:
        """The value."""
        unpickler = Unpickler(self.file, names(), self._storage, self.source, self.weights_only)
        try:
            magic = unpickler.load()
        except (UnpicklingError, EOFError, ValueError) as error:
            if "refused" in str(error):
                raise
            magic = None
        if magic != MAGIC:
            raise RuntimeError(
                f"load: {self.source} is not a file that save wrote (no zip archive, no magic "
                "number): another format, or damaged"
            )
        if unpickler.load() != PROTOCOL:
            raise RuntimeError(f"load: {self.source}: unknown version of the old format")
        info = unpickler.load()
        if isinstance(info, dict) and info.get("little_endian") is False:
            self.byteorder = "big"
        value = unpickler.load()
        self._fill(unpickler.load())
        return value

    def _storage(self, pid: Any) -> Stored:
        try:
            kind, cls, key, location, count, *rest = pid
            dtype = check_dtype(cls)
            if kind != "storage" or not isinstance(key, str) or not isinstance(location, str):
                raise TypeError(f"not a storage: {pid!r}")
            if type(count) is not int or not 0 <= count * dtype.itemsize <= self.length:
                raise ValueError(f"{count!r} elements are more than the file holds")
        except (TypeError, ValueError) as error:
            raise UnpicklingError(f"load: {self.source}: damaged storage: {error}") from error
        if key not in self.bytes:
            self.bytes[key] = np.empty(count * dtype.itemsize, np.uint8), dtype
        view = rest[0] if rest else None
        name = (key, view[0] if view else None)
        if name not in self.stored:
            data = self.bytes[key][0]
            if view:  # a storage that is part of another
                start, size = view[1] * dtype.itemsize, view[2] * dtype.itemsize
                data = data[start : start + size]
            flat = from_bytes(data, dtype, "little")
            device = locate(self.map_location, location, flat)
            self.stored[name] = _Filled(flat, dtype, device)
        return self.stored[name]

    def _fill(self, keys: Any) -> None:
        if not isinstance(keys, list):
            raise UnpicklingError(f"load: {self.source}: the list of storages is damaged")
        for key in keys:
            count = int.from_bytes(self._read(8), "little")
            data, dtype = self.bytes.get(key, (None, None))
            if data is None or dtype is None:
                raise RuntimeError(f"load: {self.source}: storage {key!r} belongs to no tensor")
            if count * dtype.itemsize != len(data):
                raise RuntimeError(f"load: {self.source}: storage {key!r} has the wrong size")
            raw = np.frombuffer(self._read(len(data)), np.uint8)
            data[:] = from_bytes(raw, dtype, self.byteorder).view(np.uint8)
        for stored in self.stored.values():
            stored.finish()  # type: ignore[attr-defined]

    def _read(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise RuntimeError(f"load: {self.source}: the file is truncated")
        return bytes(data)


class _Filled(Stored):
    """A storage whose bytes come after the tensors on it: they move to their device at the end."""

    __slots__ = ("tensors", "wanted")

    def __init__(self, flat: Any, dtype: Any, device: Any) -> None:
        super().__init__(flat, dtype, CPU)
        self.wanted = device
        self.tensors: list[Any] = []

    def tensor(self, *args: Any, **kwargs: Any) -> Any:
        made = super().tensor(*args, **kwargs)
        self.tensors.append(made)
        return made

    def finish(self) -> None:
        """Move to the device, now that the bytes are there."""
        if self.wanted is not self.device:
            for tensor in self.tensors:
                tensor.data = tensor.data.to(self.wanted)
