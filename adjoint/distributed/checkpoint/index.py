"""The index of a sharded checkpoint, read and checked: another's file decides nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.engine.core.errors import FileError
from adjoint.engine.core.files.budget import Budget, read_json_object

INDEX, FORMAT = "index.json", 2
MOST_PIECES = 4096  # of one tensor


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of a tensor, and the file in the folder that has it under the tensor's name."""

    file: str
    start: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of the checkpoint; its pieces lie within it and do not overlap."""

    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class CheckpointIndex:
    """What a checkpoint holds: tensors, and plain values, by name."""

    tensors: dict[str, Entry]
    values: dict[str, Any]


def read_index(folder: Path) -> CheckpointIndex:
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
    return CheckpointIndex(
        {name: _entry(path, name, fields) for name, fields in tensors.items()}, values
    )


def _entry(path: Path, name: str, content: Any) -> Entry:
    def damaged(why: str) -> FileError:
        return FileError(f"checkpoint.load: {path}: damaged: tensor {name[:80]!r}: {why}")

    fields: Any = content if isinstance(content, dict) else {}
    shape, dtype, pieces = (fields.get(field) for field in ("shape", "dtype", "pieces"))
    if not isinstance(shape, list) or not all(_count(size) for size in shape):
        raise damaged(f"its shape is {str(shape)[:80]}")
    if not isinstance(dtype, str) or not isinstance(pieces, list):
        raise damaged("its dtype is no name, or its pieces are no list")
    if len(pieces) > MOST_PIECES:
        raise damaged(f"it has {len(pieces)} pieces, more than {MOST_PIECES}")
    parts = tuple(_piece(piece, tuple(shape), damaged) for piece in pieces)
    _refuse_overlaps(parts, damaged)
    return Entry(tuple(shape), dtype, parts)


def _piece(content: Any, whole: tuple[int, ...], damaged: Any) -> Piece:
    fields: Any = content if isinstance(content, dict) else {}
    file, start, shape = (fields.get(field) for field in ("file", "start", "shape"))
    if (
        not isinstance(file, str)
        or not file
        or Path(file).name != file
        or "\\" in file
        or "\0" in file
    ):
        raise damaged(f"{str(file)[:80]!r} is no name of a file in the folder")
    if not (_counts(start, len(whole)) and _counts(shape, len(whole))):
        raise damaged(f"a piece of {str(shape)[:80]} elements from {str(start)[:80]} on")
    if any(a + n > size for a, n, size in zip(start, shape, whole, strict=True)):
        raise damaged(f"a piece of {shape} from {start} on reaches beyond {list(whole)}")
    return Piece(file, tuple(start), tuple(shape))


def _refuse_overlaps(pieces: tuple[Piece, ...], damaged: Any) -> None:
    """Pieces that overlap could hide that others are missing."""
    if len(pieces) < 2:
        return
    first = np.array([p.start for p in pieces], dtype=object).reshape(len(pieces), -1)
    last = first + np.array([p.shape for p in pieces], dtype=object).reshape(len(pieces), -1)
    for at in range(1, len(pieces)):
        low, high = np.maximum(first[:at], first[at]), np.minimum(last[:at], last[at])
        if (low < high).all(1).any():
            raise damaged(f"the piece from {list(pieces[at].start)} on overlaps with another")


def _counts(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(map(_count, value))


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0
