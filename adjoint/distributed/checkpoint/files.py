"""A folder of plain safetensors files, one per process, and an index of what lies where.

Note [sharded checkpoint]
    `index.json` lists every tensor with its shape and dtype, and its pieces: a file, a name in it,
    and which elements of the flattened tensor it holds. So any number of processes, or another
    program, can read it. The folder gets its name when it is whole: all files are written beside
    it first.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adjoint.distributed.checkpoint.index import FORMAT, INDEX, Entry, Index, Piece, read_index
from adjoint.distributed.checkpoint.state_dict import Part
from adjoint.distributed.collectives import barrier
from adjoint.distributed.errors import DistBackendError
from adjoint.distributed.objects import gathered
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.state.processes import STATE
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io.safetensors import load_file, save_file

PLAIN = (str, int, float, bool, type(None))


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*path, f"{type(key).__name__}:{key}"))
    else:
        yield path, tree


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v, name) for v in value]
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {k: _plain(v, name) for k, v in value.items()}
    if not isinstance(value, PLAIN):
        raise TypeError(
            f"checkpoint.save: {name} is a {type(value).__name__}; a checkpoint holds tensors, "
            "numbers, strings, and lists and dicts of them"
        )
    return value


def _name(path: tuple[str, ...]) -> str:
    return "/".join(p.split(":", 1)[1].replace("/", "%2F") for p in path)


def save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: Any = None, process_group: Any = None, **_: Any,
) -> None:  # fmt: skip
    """Write a state that all processes have parts of; every process calls it.

    Whole tensors must be the same on every process, and are written once; parts come from
    `checkpoint.state_dict.get_state_dict`. A checkpoint of the same name is replaced when the new
    one is whole.

    Args:
        state_dict: nested dicts of tensors, parts and plain values.
        checkpoint_id: the folder.
    """
    if checkpoint_id is None or storage_writer is not None:
        raise ValueError("checkpoint.save: expected checkpoint_id, a folder")
    group = STATE.group if process_group is None else process_group
    rank, size = (0, 1) if group is None else (group.rank(), group.size())
    final = Path(checkpoint_id)
    partial = final.with_name(final.name + ".partial")
    if rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    if size > 1:
        barrier(group)
    file = f"part-{rank:05d}-of-{size:05d}.safetensors"
    tensors: dict[str, Tensor] = {}
    entries: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    digests: dict[str, str] = {}
    for path, value in _leaves(state_dict):
        name = _name(path)
        if isinstance(value, Part):
            count = value.shard.count
            if count:
                tensors[name] = value.tensor.detach()[:count]
            entries[name] = _entry(value.tensor, value.shard.shape, file, value.shard.start, count)
        elif isinstance(value, Tensor):
            whole = value.detach().contiguous()
            digests[name] = hashlib.blake2b(
                whole.cpu().reshape(-1).numpy().tobytes(), digest_size=16
            ).hexdigest()
            if rank == 0:
                tensors[name] = whole
                entries[name] = _entry(whole, whole.shape, file, 0, whole.shape.numel())
        else:
            plain[name] = _plain(value, name)
    if size > 1:
        _same_everywhere(gathered(group, digests, "checkpoint.save"))
    if tensors:
        save_file(tensors, partial / file)
    every = [entries] if size == 1 else gathered(group, entries, "checkpoint.save index")
    if rank == 0:
        _publish(partial, final, _merged(every), plain)
    if size > 1:
        barrier(group)


def _entry(tensor: Tensor, shape: Any, file: str, start: int, count: int) -> dict[str, Any]:
    pieces = [{"file": file, "start": start, "count": count}] if count else []
    return {"shape": list(shape), "dtype": _dtype(tensor), "pieces": pieces}


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).split(".")[-1]


def _same_everywhere(every: list[dict[str, str]]) -> None:
    for name, digest in every[0].items():
        for rank, other in enumerate(every):
            if other.get(name) != digest:
                raise DistBackendError(
                    f"checkpoint.save: {name} differs between rank 0 and rank {rank}. If it is a "
                    "part of a sharded tensor, take the state from "
                    "checkpoint.state_dict.get_state_dict(model, optimizer)."
                )


def _merged(every: list[dict[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for entries in every:
        for name, entry in entries.items():
            if name in whole:
                whole[name]["pieces"] += entry["pieces"]
            else:
                whole[name] = entry
    return whole


def _publish(partial: Path, final: Path, tensors: dict[str, Any], plain: dict[str, Any]) -> None:
    with open(partial / INDEX, "w") as file:
        json.dump({"format": FORMAT, "tensors": tensors, "values": plain}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    old = final.with_name(final.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    partial.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: Any = None, process_group: Any = None, **_: Any,
) -> None:  # fmt: skip
    """Read a checkpoint into a state of any number of processes, in place.

    Args:
        state_dict: nested dicts whose tensors and parts are filled, and whose values are replaced.
        checkpoint_id: the folder.
    """
    if checkpoint_id is None or storage_reader is not None:
        raise ValueError("checkpoint.load: expected checkpoint_id, a folder")
    folder = Path(checkpoint_id)
    if not (folder / INDEX).exists():
        old = folder.with_name(folder.name + ".old")  # a save that was cut short in its last step
        if not (old / INDEX).exists():
            raise FileNotFoundError(f"checkpoint.load: no checkpoint in {os.fspath(folder)!r}")
        folder = old
    source = _Source(folder, read_index(folder))
    _check(state_dict, (), source)
    with no_grad():  # all of it is there: only now does the state change
        _fill(state_dict, (), source)


@dataclass(frozen=True, slots=True)
class _Source:
    """A checkpoint that is read, and its files that are open."""

    folder: Path
    index: Index
    files: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def elements(self, name: str, piece: Piece) -> Tensor:
        """The elements of a piece, as they lie in its file."""
        if piece.file not in self.files:
            self.files[piece.file] = load_file(self.folder / piece.file, mmap=True)
        found, entry = self.files[piece.file].get(name), self.index.tensors[name]
        if found is None or (found.numel(), _dtype(found)) != (piece.count, entry.dtype):
            held = "nothing" if found is None else f"{found.numel()} elements of {_dtype(found)}"
            raise FileError(
                f"checkpoint.load: {self.folder / piece.file}: damaged: {name[:80]!r} should have "
                f"{piece.count} elements of {entry.dtype}, it has {held}"
            )
        return found.reshape(-1)


def _wanted(value: Any) -> tuple[Any, int, int]:
    """The whole shape of a tensor or part, and which of its elements are here."""
    if isinstance(value, Part):
        return value.shard.shape, value.shard.start, value.shard.count
    return value.shape, 0, value.shape.numel()


def _check(tree: Any, path: tuple[str, ...], source: _Source) -> None:
    """Raise where the checkpoint has not what the state has, before anything is changed."""
    for key, value in tree.items():
        here = (*path, f"{type(key).__name__}:{key}")
        name = _name(here)
        if isinstance(value, Mapping):
            _check(value, here, source)
        elif isinstance(value, (Part, Tensor)):
            _check_tensor(name, source, *_wanted(value))
        elif name not in source.index.values:
            raise KeyError(f"checkpoint.load: the checkpoint has no {name}")


def _check_tensor(name: str, source: _Source, shape: Any, start: int, count: int) -> None:
    entry = source.index.tensors.get(name)
    if entry is None:
        raise KeyError(f"checkpoint.load: the checkpoint has no tensor {name}")
    if entry.shape != tuple(shape):
        raise ValueError(f"checkpoint.load: {name} is {entry.shape} there and {tuple(shape)} here")
    got = 0
    for piece, first, last in _overlaps(entry, start, count):
        source.elements(name, piece)
        got += last - first
    if got != count:
        raise FileError(
            f"checkpoint.load: {name}: {count - got} of {count} elements are in none of the files"
        )


def _fill(tree: Any, path: tuple[str, ...], source: _Source) -> None:
    for key, value in tree.items():
        here = (*path, f"{type(key).__name__}:{key}")
        name = _name(here)
        if isinstance(value, Mapping):
            _fill(value, here, source)
        elif isinstance(value, (Part, Tensor)):
            _, start, count = _wanted(value)
            entry = source.index.tensors[name]
            whole = value.tensor[:count] if isinstance(value, Part) else value.detach()
            parts = [
                source.elements(name, piece)[first - piece.start : last - piece.start]
                for piece, first, last in _overlaps(entry, start, count)
            ]
            if parts:
                whole.copy_(cat(parts).reshape(whole.shape))
        else:
            tree[key] = _like(value, source.index.values[name])


def _overlaps(entry: Entry, start: int, count: int) -> Iterator[tuple[Piece, int, int]]:
    """The pieces that hold some of the elements asked for: which, from where to where."""
    for piece in entry.pieces:
        first, last = max(start, piece.start), min(start + count, piece.start + piece.count)
        if first < last:
            yield piece, first, last


def _like(held: Any, read: Any) -> Any:
    """A value that was read, with tuples where the state has tuples, which JSON does not know."""
    if isinstance(held, (list, tuple)) and isinstance(read, list):
        longer = [*held, *([None] * (len(read) - len(held)))]
        made = [_like(h, r) for h, r in zip(longer, read, strict=False)]
        return tuple(made) if isinstance(held, tuple) else made
    if isinstance(held, dict) and isinstance(read, dict):
        return {k: _like(held.get(k), v) for k, v in read.items()}
    return read
