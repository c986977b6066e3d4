"""What readers of files have in common: how a valid file is made, and how it is taken apart."""

from __future__ import annotations

import gzip
import io
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# A part of a file that a mutation changes, and how the file is put together around it again.
Part = tuple[bytes, Callable[[bytes], bytes]]


@dataclass(frozen=True, slots=True)
class Reader:
    """How one kind of file is made and read."""

    name: str  # of the file
    sample: Callable[[], bytes]
    read: Callable[[Path], Any]
    parts: Callable[[bytes], list[Part]] = lambda data: []
    named: bool = True  # whether errors name the file


@dataclass(frozen=True, slots=True)
class Case:
    """A file, and the reader it is for."""

    reader: str
    make: Callable[[], bytes]
    loads: bool = False  # whether it is odd but sound


def by_file(write: Callable[[Path], Any], name: str = "a") -> Callable[[], bytes]:
    """What a function writes to a path."""

    @cache
    def sample() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            write(path)
            return path.read_bytes()

    return sample


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as target:
        for name, data in entries.items():
            target.writestr(name, data)
    return out.getvalue()


def zip_parts(data: bytes) -> list[Part]:
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        entries = {name: source.read(name) for name in source.namelist()}

    def around(name: str) -> Callable[[bytes], bytes]:
        return lambda changed: zipped({**entries, name: changed})

    wanted = [n for n in entries if n.endswith((".pkl", ".json", "byteorder"))]
    return [(entries[name], around(name)) for name in wanted]


def headed(data: bytes) -> list[Part]:
    """A JSON text behind its length, as safetensors and kept programs have it."""
    length = int.from_bytes(data[:8], "little")
    rest = data[8 + length :]
    return [(data[8 : 8 + length], lambda h: len(h).to_bytes(8, "little") + h + rest)]


def whole(data: bytes) -> list[Part]:
    return [(data, lambda changed: changed)]


def gzip_parts(data: bytes) -> list[Part]:
    return [(gzip.decompress(data), lambda changed: gzip.compress(changed, 1))]
