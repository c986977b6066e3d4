"""PyTorch's zip layout: `data.pkl`, and a record per storage, aligned and uncompressed."""

from __future__ import annotations

import struct
import sys
import zipfile
from collections import OrderedDict
from io import BytesIO
from pickle import UnpicklingError
from typing import IO, Any

import numpy as np

from adjoint.engine.core.errors import CaptureError, FileError
from adjoint.engine.core.files.budget import Budget, FileRefusal
from adjoint.engine.core.files.zipped import STORED, Archive, BadZip
from adjoint.engine.core.layout import strided
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io.builders import brief, names
from adjoint.io.names import STORAGES, parameter_class
from adjoint.io.objects import global_name
from adjoint.io.pickler import Global, Persistent, Pickler
from adjoint.io.skipping import skipping
from adjoint.io.storages import Stored, check_dtype, from_bytes, host_bytes, locate, memory_of
from adjoint.io.unpickler import Unpickler

ALIGNMENT = 64
# The byte order of files that do not say theirs, as `set_default_load_endianness` was told.
UNSAID: list[str | None] = [None]
ROOT = "archive"


def unsaid_order() -> str:
    """ "little" or "big", of files that do not say it: few machines wrote any other than little."""
    return UNSAID[0] or "little"


class StorageCollector:
    """Collects the storages of the tensors in a value while it is pickled."""

    def __init__(self) -> None:
        self.storages: list[Any] = []  # flat arrays, in the order of their keys
        self._keys: dict[int, tuple[str, Any]] = {}
        self._alive: list[Any] = []

    def reduce(self, tensor: Tensor) -> tuple[str, tuple[Any, ...]]:
        """How a tensor is written: the name that rebuilds it, and the arguments."""
        if tensor.layout is not strided:
            size, *others = tensor.rest()  # type: ignore[attr-defined]
            parts = tensor.detach().tensors()  # type: ignore[attr-defined]
            data = (*parts, Size(size), *others)
            return "torch._utils _rebuild_sparse_tensor", (tensor.layout, data)
        if HOOKS.wrappers is not None and HOOKS.wrappers.among((tensor,)):
            return self._wrapper(tensor)
        if type(tensor._array) is Window or tensor._storage.buffer is None:
            raise CaptureError("save: a traced tensor cannot be saved: it has no elements")
        is_parameter = type(tensor) is not Tensor or "_is_param" in tensor.__dict__
        if is_parameter and not isinstance(tensor, parameter_class()):
            part = hasattr(tensor, "full_tensor")  # this process's, of a DTensor
            remedy = "full_tensor()" if part else "as_subclass(adjoint.Tensor)"
            raise TypeError(
                f"save: cannot save a tensor of class {type(tensor).__name__}. Save "
                f"tensor.{remedy}{', or use distributed.checkpoint' if part else ''}."
            )
        if is_parameter:
            args: Any = (tensor.detach(), bool(tensor.requires_grad), OrderedDict())
            return "torch._utils _rebuild_parameter", args
        plain, name = self._plain(tensor), "torch._utils _rebuild_tensor_v2"
        if tensor.dtype not in STORAGES:  # PyTorch has no storage class for it, and names the dtype
            plain, name = (*plain, tensor.dtype), "torch._utils _rebuild_tensor_v3"
        if not tensor.__dict__:
            return name, plain
        state = dict(tensor.__dict__)
        rebuild = Global(name)
        return (
            "torch._tensor _rebuild_from_type_v2",
            (rebuild, Global("torch Tensor"), plain, state),
        )

    def _wrapper(self, tensor: Tensor) -> tuple[str, tuple[Any, ...]]:
        """A tensor that stands for others: its class, what it looks like, its attributes."""
        kind = Global(global_name(type(tensor)))
        look = (
            kind, tensor.dtype, Size(tensor.shape), tuple(tensor.stride()), 0, strided,
            tensor.device, bool(tensor.requires_grad),
        )  # fmt: skip
        rebuild = Global("torch._utils _rebuild_wrapper_subclass")
        return (
            "torch._tensor _rebuild_from_type_v2",
            (rebuild, kind, look, dict(tensor.__dict__)),
        )

    def _plain(self, tensor: Tensor) -> tuple[Any, ...]:
        flat, offset = memory_of(tensor.detach())
        key, known = self._keys.get(id(tensor._storage), ("", None))
        if not key:
            key = str(len(self.storages))
            self._keys[id(tensor._storage)] = key, tensor.dtype
            self.storages.append(flat)
            self._alive.append(tensor._storage)
        elif known is not tensor.dtype:
            raise RuntimeError(
                "save: cannot save multiple tensors that view the same data as different types "
                f"({known} and {tensor.dtype}). Save a clone of one of them."
            )
        typed = STORAGES.get(tensor.dtype)
        kind = Global("torch.storage UntypedStorage" if typed is None else f"torch {typed}")
        count = len(flat) if typed is not None else flat.nbytes
        pid = ("storage", kind, key, str(tensor.device), count)
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        grad = bool(tensor.requires_grad)
        return (Persistent(pid), offset, shape, strides, grad, OrderedDict())


def write(value: Any, file: IO[bytes], pickles: bool = False) -> None:
    """Write a value to a binary file; with `pickles`, objects that are no plain values too."""
    writer, pickled = StorageCollector(), BytesIO()
    Pickler(pickled.write, writer.reduce, pickles).dump(value)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _record(archive, "data.pkl", np.frombuffer(pickled.getvalue(), np.uint8))
        _record(archive, ".format_version", b"1")
        _record(archive, ".storage_alignment", str(ALIGNMENT).encode())
        _record(archive, "byteorder", sys.byteorder.encode())
        for key, flat in enumerate(writer.storages):
            data = bytes(flat.nbytes) if skipping() else host_bytes(flat)
            _record(archive, f"data/{key}", data)
        _record(archive, "version", b"3\n")


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
        weights_only: whether objects that are no plain values are refused.
    """

    def __init__(
        self, file: Any, source: str, map_location: Any, mapped: Any, weights_only: bool = True
    ) -> None:
        self.weights_only = weights_only
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
        arguments = (names(), self._storage, self.source, self.weights_only, self.budget)
        return Unpickler(pickled, *arguments).load()

    def _storage(self, pid: Any) -> Stored:
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
            data = self._room(f"data/{key}") if skipping() else self._read(f"data/{key}")
            if len(data) != count * dtype.itemsize:
                raise FileError(
                    f"load: {self.source}: storage {key[:80]} has {len(data)} bytes, expected "
                    f"{brief(count)} elements of {dtype}: the file is damaged"
                )
            flat = from_bytes(data, dtype, self.byteorder)
            device = locate(self.map_location, location, flat, self.source)
            storage = self.stored[key] = Stored(flat, dtype, device)
        return storage

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
