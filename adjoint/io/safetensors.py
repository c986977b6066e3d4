"""The safetensors format: a JSON header, then the bytes of the tensors."""

from __future__ import annotations

import json
import os
import sys
from math import prod
from typing import IO, Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DTypeTypeError, FileError
from adjoint.engine.core.files.atomic import atomic_write
from adjoint.engine.core.files.budget import Budget, read_json
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.io.locations import locate
from adjoint.io.storages import from_bytes, host_bytes

CODES: dict[DType, str] = {
    dt.bool_: "BOOL", dt.uint8: "U8", dt.int8: "I8", dt.int16: "I16", dt.int32: "I32",
    dt.int64: "I64", dt.float16: "F16", dt.bfloat16: "BF16", dt.float32: "F32",
    dt.float64: "F64", dt.complex64: "C64",
}  # fmt: skip
_DTYPES = {code: d for d, code in CODES.items()}
MAX_HEADER = 100_000_000
MAX_RANK = 64  # NumPy's bound


def write(tensors: Any, file: IO[bytes], metadata: dict[str, str] | None = None) -> None:
    """Write a dict of tensors to a binary file."""
    header: dict[str, Any] = {}
    if metadata:
        if not all(isinstance(x, str) for pair in metadata.items() for x in pair):
            raise TypeError("save: safetensors metadata must map strings to strings")
        header["__metadata__"] = dict(metadata)
    arrays, position = [], 0
    # Wide types first, so that every tensor lies at a multiple of its element size.
    for name in sorted(tensors, key=lambda n: (-_checked(n, tensors[n]).dtype.itemsize, n)):
        tensor = tensors[name].detach().cpu()
        array = np.ascontiguousarray(tensor.numpy()).reshape(-1)
        header[name] = {
            "dtype": CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
        arrays.append(array)
    packed = json.dumps(header, separators=(",", ":")).encode()
    packed += b" " * (-len(packed) % 8)
    file.write(len(packed).to_bytes(8, "little") + packed)
    for array in arrays:
        file.write(memoryview(host_bytes(array)))


def _checked(name: Any, tensor: Any) -> Tensor:
    if not isinstance(name, str):
        raise TypeError(f"save: safetensors names are strings, received {name!r}")
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"save: a .safetensors file holds tensors only; {name!r} is a "
            f"{type(tensor).__name__}. Use another suffix for nested values."
        )
    if tensor.dtype not in CODES:
        raise DTypeTypeError(f"save: safetensors has no {tensor.dtype} ({name!r})")
    return tensor


def read_header(data: Any, source: str) -> tuple[dict[str, Any], dict[str, str], int]:
    """The entries, the metadata, and where the data begins; everything checked."""
    if len(data) < 8:
        raise FileError(f"load: {source}: too short for a safetensors file")
    length = int.from_bytes(bytes(data[:8]), "little")
    if length > MAX_HEADER or 8 + length > len(data):
        raise FileError(
            f"load: {source}: header of {length} bytes in a file of {len(data)}: damaged, or not "
            "a safetensors file"
        )
    budget = Budget(len(data), f"load: {source}")
    try:
        header = read_json(bytes(data[8 : 8 + length]), budget)
        if not isinstance(header, dict):
            raise ValueError(f"a {type(header).__name__} where the tensors should be described")
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(x, str) for x in metadata.values()):
            raise ValueError("metadata that is no object of strings")
        budget.spend(1024 * len(header), "its tensors")
        places = sorted(_place(name, entry) for name, entry in header.items())
        end = 0
        for begin, stop in places:
            if begin != end:
                raise ValueError(f"data from {begin} to {stop} after {end}: a gap or an overlap")
            end = stop
    except ValueError as error:
        raise FileError(
            f"load: {source}: damaged safetensors header: {str(error)[:400]}"
        ) from error
    if 8 + length + end != len(data):
        raise FileError(
            f"load: {source}: the header promises {8 + length + end} bytes, the file has "
            f"{len(data)} (truncated?)"
        )
    return header, metadata, 8 + length


def _place(name: str, entry: Any) -> tuple[int, int]:
    """Where a tensor's bytes are, provided that the entry is one and agrees with itself."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor {name[:80]!r} needs a dtype, a shape and data_offsets")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _whole(shape) or len(shape) > MAX_RANK or not _whole(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name[:80]!r}: shape and data_offsets must be whole numbers")
    begin, stop = offsets
    if not isinstance(entry["dtype"], str):
        raise ValueError(f"tensor {name[:80]!r}: the dtype must be a name")
    if begin > stop or prod(n or 1 for n in shape) >= 1 << 62:
        raise ValueError(f"tensor {name[:80]!r}: data from {begin} to {stop}, shape {shape}")
    if entry["dtype"] in _DTYPES:
        size = prod(shape) * _DTYPES[entry["dtype"]].itemsize
        if stop - begin != size:
            raise ValueError(
                f"tensor {name[:80]!r}: {stop - begin} bytes for {shape} of {entry['dtype']}"
            )
    return begin, stop


def _whole(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 1 << 62 for n in numbers)


def read(data: Any, source: str, map_location: Any = None) -> dict[str, Tensor]:
    """The tensors in the bytes of a file, on their memory."""
    header, _, start = read_header(data, source)
    out = {}
    for name, entry in header.items():
        dtype = _DTYPES.get(entry["dtype"])
        if dtype is None:
            raise FileError(
                f"load: {source}: tensor {name[:80]!r} has dtype {entry['dtype'][:40]}, which "
                "Adjoint has not"
            )
        begin, stop = entry["data_offsets"]
        part = data[start + begin : start + stop]
        if (start + begin) % dtype.itemsize:
            part = part.copy()  # not where such elements may lie
        flat = from_bytes(part, dtype, "little") if len(part) else np.empty(0, NUMPY_OF[dtype])
        device = locate(map_location, "cpu", flat, source)
        tensor = wrap(flat.reshape(entry["shape"]))
        out[name] = tensor if device.type == "cpu" else tensor.to(device)
    return out


def save_file(
    tensors: dict[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Write a dict of tensors to a .safetensors file, atomically.

    Example:
        >>> import adjoint as ad, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "a.safetensors")
        ...     save_file({"w": ad.ones(2)}, path, {"by": "me"})
        ...     load_file(path), load_metadata(path)
        ({'w': tensor([1., 1.])}, {'by': 'me'})
    """
    if sys.byteorder != "little":
        raise RuntimeError("save: safetensors files are little-endian, this machine is not")
    with atomic_write(filename) as file:
        write(tensors, file, metadata)


def load_file(
    filename: str | os.PathLike[str], device: Any = "cpu", mmap: bool = False
) -> dict[str, Tensor]:
    """The tensors of a .safetensors file."""
    return read(_contents(filename, mmap), os.fspath(filename), device)


def load_metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """The metadata of a .safetensors file."""
    return read_header(_contents(filename, True), os.fspath(filename))[1]


def _contents(filename: str | os.PathLike[str], mapped: bool) -> Any:
    if os.path.getsize(filename) == 0:
        raise FileError(f"load: {os.fspath(filename)}: the file is empty")
    if mapped:
        return np.memmap(filename, np.uint8, "c").view(np.ndarray)
    return np.fromfile(filename, np.uint8)
