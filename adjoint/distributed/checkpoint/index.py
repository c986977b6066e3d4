"""The index of a sharded checkpoint, read and checked: another's file decides nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from adjoint.engine.core.budget import Budget, read_json_object
from adjoint.engine.core.errors import FileError

INDEX, FORMAT = "index.json", 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements of a flattened tensor, and the file in the folder that has them under its name."""

    file: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of the checkpoint; its pieces are in order and do not overlap."""

    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """What a checkpoint holds: tensors, and plain values, by name."""

    tensors: dict[str, Entry]
    values: dict[str, Any]


def read_index(folder: Path) -> Index:
    """The index of a checkpoint's folder."""
    path = folder / INDEX
    data = path.read_bytes()
    about = read_json_object(data, Budget(len(data), f"checkpoint.load: {path}"))
    if about.get("format") != FORMAT:
        raise FileError(
            f"checkpoint.load: {path} is of format {about.get('format')!r}, this version of "
            f"Adjoint reads {FORMAT}"
        )
    tensors, values = about.get("tensors"), about.get("values")
    if not isinstance(tensors, dict) or not isinstance(values, dict):
        raise FileError(f"checkpoint.load: {path}: damaged: tensors and values are no objects")
    return Index({name: _entry(path, name, held) for name, held in tensors.items()}, values)


def _entry(path: Path, name: str, held: Any) -> Entry:
    def damaged(why: str) -> FileError:
        return FileError(f"checkpoint.load: {path}: damaged: tensor {name[:80]!r}: {why}")

    fields: Any = held if isinstance(held, dict) else {}
    shape, dtype, pieces = (fields.get(field) for field in ("shape", "dtype", "pieces"))
    if not isinstance(shape, list) or not all(_count(size) for size in shape):
        raise damaged(f"its shape is {str(shape)[:80]}")
    if not isinstance(dtype, str) or not isinstance(pieces, list):
        raise damaged("its dtype is no name, or its pieces are no list")
    found = sorted((_piece(piece, damaged) for piece in pieces), key=lambda piece: piece.start)
    end = 0
    for piece in found:
        if piece.start < end:
            raise damaged(f"element {piece.start} lies in two pieces")
        end = piece.start + piece.count
    if end > prod(shape):
        raise damaged(f"its pieces reach to element {end} of {prod(shape)}")
    return Entry(tuple(shape), dtype, tuple(found))


def _piece(held: Any, damaged: Any) -> Piece:
    fields: Any = held if isinstance(held, dict) else {}
    file, start, count = (fields.get(field) for field in ("file", "start", "count"))
    if (
        not isinstance(file, str)
        or not file
        or Path(file).name != file
        or "\\" in file
        or "\0" in file
    ):
        raise damaged(f"{str(file)[:80]!r} is no name of a file in the folder")
    if not _count(start) or not _count(count):
        raise damaged(f"a piece of {str(count)[:80]} elements from {str(start)[:80]} on")
    return Piece(file, start, count)


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0
