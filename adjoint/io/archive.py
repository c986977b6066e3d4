"""PyTorch's zip layout: `data.pkl`, and a record per storage, aligned and uncompressed."""

from __future__ import annotations

import struct
import sys
import zipfile
from io import BytesIO
from pickle import UnpicklingError
from typing import IO, Any

import numpy as np

from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget, FileRefusal
from adjoint.engine.core.files.zipped import STORED, Archive, BadZip
from adjoint.engine.tensor.memory import TypedStorage
from adjoint.io.builders import brief, names
from adjoint.io.collecting import pickled_value
from adjoint.io.locations import to_meta
from adjoint.io.skipping import skipping
from adjoint.io.storages import Stored, check_dtype, from_bytes, host_bytes, placed
from adjoint.io.unpickler import Unpickler

ALIGNMENT = 64
# The byte order of files that do not say theirs, as `set_default_load_endianness` was told.
UNSAID: list[str | None] = [None]
ROOT = "archive"


def unsaid_order() -> str:
    """ "little" or "big", of files that do not say it: few machines wrote any other than little."""
    return UNSAID[0] or "little"


def write(
    value: Any, file: IO[bytes], pickles: bool = False, pickle_module: Any = None, protocol: int = 2
) -> None:
    """Write a value to a binary file; with `pickles`, objects that are no plain values too."""
    pickled, storages = pickled_value(value, pickles, pickle_module, protocol)
    with zipfile.ZipFile(_placed(file), "w", zipfile.ZIP_STORED) as archive:
        _record(archive, "data.pkl", np.frombuffer(pickled, np.uint8))
        _record(archive, ".format_version", b"1")
        _record(archive, ".storage_alignment", str(ALIGNMENT).encode())
        _record(archive, "byteorder", sys.byteorder.encode())
        for key, (flat, _) in enumerate(storages):
            data = bytes(flat.nbytes) if skipping() else host_bytes(flat)
            _record(archive, f"data/{key}", data)
        _record(archive, "version", b"3\n")


class _Stream:
    """A file of one's own that is only written to, and need not say how much it took."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.flush = getattr(file, "flush", lambda: None)

    def write(self, data: Any) -> int:
        """Write all of it, unless the file says otherwise."""
        taken = self.file.write(data)
        return len(data) if taken is None else taken


def _placed(file: Any) -> Any:
    """The file; as a stream if it is one's own and has no `tell` and `seek` that work.

    `zipfile` makes do without places where it meets an `OSError`, as of a pipe, and nowhere else.
    """
    try:
        place = file.tell()
        file.seek(place)
    except (AttributeError, NotImplementedError):
        return _Stream(file)
    except OSError:
        pass
    return file


def _record(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Add a record whose data begins at a multiple of the alignment."""
    info = zipfile.ZipInfo(f"{ROOT}/{name}")
    data = memoryview(data)
    info.file_size = len(data)
    big = len(data) * 1.05 > zipfile.ZIP64_LIMIT
    start = archive.start_dir + 30 + len(info.filename) + 4 + (20 if big else 0)
    padding = -start % ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    with archive.open(info, "w", force_zip64=big) as record:
        record.write(data)


class Reader:
    """Reads a value from an archive.

    Args:
        file: a seekable binary file.
        source: its name, for messages.
        map_location: where storages go, see `load`.
        mapped: the file as a memory map, or None to read.
        run: how a pickle that runs is read (Note [pickles that run]); None runs nothing.
    """

    def __init__(
        self, file: Any, source: str, map_location: Any, mapped: Any, run: Any = None
    ) -> None:
        self.run = run
        self.file = file
        self.source = source
        self.map_location = map_location
        self.mapped = mapped
        self.budget = Budget(file.seek(0, 2), f"load: {source}")
        self.archive = Archive(file, self.budget)
        self.entries = self.archive.entries
        pickles = [n for n in self.entries if n.endswith("/data.pkl") and n.count("/") == 1]
        if not pickles:
            raise FileError(f"load: {source}: a zip file, but not one that save wrote")
        if len(pickles) > 1:
            raise FileRefusal(f"load: {source}: refused: the archive has {len(pickles)} values")
        self.root = pickles[0][: -len("data.pkl")]
        if self.root + "constants.pkl" in self.entries:
            raise FileError(
                f"load: {source} is a TorchScript archive, which contains code. Save the model's "
                "state_dict with torch.save instead."
            )
        order = bytes(self._read("byteorder")) if self.root + "byteorder" in self.entries else b""
        self.byteorder = order.decode("ascii", "replace").strip() or unsaid_order()
        if self.byteorder not in ("little", "big"):
            raise FileError(f"load: {source}: damaged: byte order {self.byteorder[:20]!r}")
        self.stored: dict[str, Stored] = {}

    def load(self) -> Any:
        """The value."""
        pickled = BytesIO(self._read("data.pkl"))
        if self.run is not None:
            value = self.run(pickled, self._storage).load()
        else:
            value = Unpickler(pickled, names(), self._storage, self.source, self.budget).load()
        for storage in self.stored.values():
            storage.settle()
        return value

    def _storage(self, pid: Any) -> TypedStorage:
        try:
            kind, cls, key, location, count = pid
            dtype = check_dtype(cls)
            if kind != "storage" or not isinstance(key, str) or not isinstance(location, str):
                raise TypeError(f"not a storage: {brief(kind)}, {brief(key)}, {brief(location)}")
            if type(count) is not int or count < 0:
                raise TypeError(f"{brief(count)} elements")
        except (TypeError, ValueError) as error:
            raise UnpicklingError(f"load: {self.source}: damaged storage: {error}") from error
        storage = self.stored.get(key)
        if storage is None:
            empty = skipping() or to_meta(self.map_location)
            data = self._room(f"data/{key}") if empty else self._read(f"data/{key}")
            if len(data) != count * dtype.itemsize:
                raise FileError(
                    f"load: {self.source}: storage {key[:80]} has {len(data)} bytes, expected "
                    f"{brief(count)} elements of {dtype}: the file is damaged"
                )
            flat = from_bytes(data, dtype, self.byteorder)
            storage = placed(flat, dtype, location, self.map_location, self.source)
            self.stored[key] = storage
        return storage.typed()

    def _room(self, name: str) -> Any:
        """Zeros for the bytes of a record."""
        entry = self.entries.get(self.root + name)
        if entry is None:
            raise FileError(f"load: {self.source}: record {name[:80]!r} is missing: damaged file")
        self.archive.spend(entry)
        return np.zeros(entry.size, np.uint8)

    def _read(self, name: str) -> Any:
        """The bytes of a record, as a writable array."""
        entry = self.entries.get(self.root + name)
        if entry is None:
            raise FileError(f"load: {self.source}: record {name[:80]!r} is missing: damaged file")
        try:
            if self.mapped is not None and name.startswith("data/") and entry.method == STORED:
                start = self.archive.start(entry)
                return self.mapped[start : start + entry.size]
            self.archive.spend(entry)
            data = np.empty(entry.size, np.uint8)
            self.archive.read_into(entry, data)
        except BadZip as error:
            raise FileError(
                f"load: {self.source}: record {name[:80]!r} is damaged (truncated, or its checksum "
                f"is wrong): {error}"
            ) from error
        return data
