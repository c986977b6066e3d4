"""A folder of plain safetensors files, one per process, and an index of what lies where.

Note [sharded checkpoint]
    `index.json` lists every tensor with its shape and dtype, and its pieces: a file, and which
    block of the tensor lies there under the tensor's name (`start` and `shape`). So any number of
    processes, or another program, can read it. The folder gets its name when it is whole: all
    files are written beside it first.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adjoint.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    check_planner,
)
from adjoint.distributed.checkpoint.index import (
    FORMAT,
    INDEX,
    CheckpointIndex,
    Entry,
    Piece,
    read_index,
)
from adjoint.distributed.communication.collectives import barrier
from adjoint.distributed.communication.objects import gathered
from adjoint.distributed.errors import DistBackendError
from adjoint.distributed.tensor.dtensor import DTensor, part_of
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import FileError, ShapeValueError
from adjoint.engine.core.state.processes import STATE
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


class FileSystemWriter:
    """A folder to save to, as PyTorch's programs name it."""

    def __init__(self, path: str | os.PathLike[str], **_: Any) -> None:
        self.path = Path(path)


class FileSystemReader:
    """A folder to load from, as PyTorch's programs name it."""

    def __init__(self, path: str | os.PathLike[str], **_: Any) -> None:
        self.path = Path(path)


def _folder(name: str, given: Any, storage: Any) -> Path:
    if storage is not None:
        if not isinstance(storage, (FileSystemWriter, FileSystemReader)):
            raise TypeError(
                f"checkpoint.{name}: expected a FileSystemWriter or FileSystemReader, received "
                f"{type(storage).__name__}"
            )
        return storage.path
    if given is None:
        raise ValueError(f"checkpoint.{name}: expected checkpoint_id, a folder")
    return Path(given)


def _is_stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def async_save(state_dict: dict[str, Any], **options: Any) -> Future[None]:
    """`save`, done when it returns; the answer is a future, as in PyTorch."""
    save(state_dict, **options)
    done: Future[None] = Future()
    done.set_result(None)
    return done


def save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: Any = None, planner: Any = None, process_group: Any = None, **_: Any,
) -> None:  # fmt: skip
    """Write a state that all processes have parts of; every process calls it.

    Whole tensors must be the same on every process, and are written once; of DTensors, every
    process writes its part. Objects with a `state_dict` are asked for it. A checkpoint of the same
    name is replaced when the new one is whole.

    Args:
        state_dict: nested dicts of tensors, DTensors, such objects and plain values.
        checkpoint_id: the folder.
        storage_writer: a `FileSystemWriter`, instead of the folder's name.
        planner: a `DefaultSavePlanner`; others are refused.
    """
    check_planner("save", planner, DefaultSavePlanner)
    folder = _folder("save", checkpoint_id, storage_writer)
    state_dict = {k: v.state_dict() if _is_stateful(v) else v for k, v in state_dict.items()}
    group = STATE.group if process_group is None else process_group
    rank, size = (0, 1) if group is None else (group.rank(), group.size())
    final = folder
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
        if isinstance(value, DTensor):
            local = part_of(value.detach())
            writes = _writes(value) and local.numel() > 0
            if writes:
                tensors[name] = local.contiguous()
            entries[name] = _entry(value, file, value._layout.starts(), local, writes)
        elif isinstance(value, Tensor):
            whole = value.detach().contiguous()
            digests[name] = hashlib.blake2b(
                whole.cpu().reshape(-1).numpy().tobytes(), digest_size=16
            ).hexdigest()
            if rank == 0:
                tensors[name] = whole
                entries[name] = _entry(whole, file, (0,) * whole.ndim, whole, True)
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


def _entry(
    whole: Tensor, file: str, start: tuple[int, ...], local: Tensor, writes: bool
) -> dict[str, Any]:
    piece = {"file": file, "start": list(start), "shape": list(local.shape)}
    return {"shape": list(whole.shape), "dtype": _dtype(whole), "pieces": [piece] if writes else []}


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).split(".")[-1]


def _writes(value: DTensor) -> bool:
    """Whether this process is the one, of those that have the same part, that writes it."""
    if any(p.is_partial() for p in value._layout.placements):
        raise ValueError("checkpoint.save: a DTensor is placed Partial; redistribute it first")
    mesh = value.device_mesh
    return all(
        mesh.get_local_rank(at) == 0
        for at, placement in enumerate(value._layout.placements)
        if placement.is_replicate()
    )


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


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: Any, process_group: Any = None, **how: Any
) -> None:
    """`load`, under the name it had first."""
    load(state_dict, storage_reader=storage_reader, process_group=process_group, **how)


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: Any, process_group: Any = None, **how: Any
) -> None:
    """`save`, under the name it had first."""
    save(state_dict, storage_writer=storage_writer, process_group=process_group, **how)


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: Any = None, planner: Any = None, process_group: Any = None, **_: Any,
) -> None:  # fmt: skip
    """Read a checkpoint into a state of any number of processes, in place.

    Args:
        state_dict: nested dicts whose tensors are filled, and whose values are replaced. Objects
            with a `state_dict` are given theirs by `load_state_dict`.
        checkpoint_id: the folder.
        storage_reader: a `FileSystemReader`, instead of the folder's name.
        planner: a `DefaultLoadPlanner`, which may leave what is not there; others are refused.
    """
    check_planner("load", planner, DefaultLoadPlanner)
    folder = _folder("load", checkpoint_id, storage_reader)
    if not (folder / INDEX).exists():
        old = folder.with_name(folder.name + ".old")  # a save that was cut short in its last step
        if not (old / INDEX).exists():
            raise FileNotFoundError(f"checkpoint.load: no checkpoint in {os.fspath(folder)!r}")
        folder = old
    partial = planner is not None and planner.allow_partial_load
    source = _Source(folder, read_index(folder), partial)
    states = {k: v.state_dict() if _is_stateful(v) else v for k, v in state_dict.items()}
    _check(states, (), source)
    with no_grad():  # all of it is there: only now does the state change
        _fill(states, (), source)
    for key, value in list(state_dict.items()):
        if _is_stateful(value):
            value.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


Block = tuple[tuple[int, ...], tuple[int, ...]]  # where it begins in the whole, and its shape


@dataclass(frozen=True, slots=True)
class _Source:
    """A checkpoint that is read, and its files that are open."""

    folder: Path
    index: CheckpointIndex
    partial: bool = False  # whether what it does not have stays as it is
    files: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def lacks(self, name: str) -> bool:
        """Whether something is not there, and need not be."""
        there = name in self.index.tensors or name in self.index.values
        return self.partial and not there

    def elements(self, name: str, piece: Piece) -> Tensor:
        """The elements of a piece, as they lie in its file."""
        if piece.file not in self.files:
            try:
                self.files[piece.file] = load_file(self.folder / piece.file, mmap=True)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise FileError(
                    f"checkpoint.load: {self.folder}: a file that it names cannot be read: "
                    f"{str(error)[:200]}"
                ) from error
        elements, entry = self.files[piece.file].get(name), self.index.tensors[name]
        count = math.prod(piece.shape)
        if elements is None or (elements.numel(), _dtype(elements)) != (count, entry.dtype):
            present = (
                "nothing"
                if elements is None
                else f"{elements.numel()} elements of {_dtype(elements)}"
            )
            raise FileError(
                f"checkpoint.load: {self.folder / piece.file}: damaged: {name[:80]!r} should have "
                f"{count} elements of {entry.dtype}, it has {present}"
            )
        return elements.reshape(piece.shape)


def _wanted(value: Tensor) -> Block:
    """Which block of a tensor is here."""
    if isinstance(value, DTensor):
        return value._layout.starts(), tuple(part_of(value).shape)
    return (0,) * value.ndim, tuple(value.shape)


def _check(tree: Any, path: tuple[str, ...], source: _Source) -> None:
    """Raise where the checkpoint has not what the state has, before anything is changed."""
    for key, value in tree.items():
        here = (*path, f"{type(key).__name__}:{key}")
        name = _name(here)
        if isinstance(value, Mapping):
            _check(value, here, source)
        elif source.lacks(name):
            continue
        elif isinstance(value, Tensor):
            _check_tensor(name, source, value)
        elif name not in source.index.values:
            raise KeyError(f"checkpoint.load: the checkpoint has no {name}")


def _check_tensor(name: str, source: _Source, value: Tensor) -> None:
    entry = source.index.tensors.get(name)
    if entry is None:
        raise KeyError(f"checkpoint.load: the checkpoint has no tensor {name}")
    if entry.shape != tuple(value.shape):
        raise ShapeValueError(
            f"checkpoint.load: {name} is {entry.shape} there and {tuple(value.shape)} here"
        )
    block, seen = _wanted(value), 0
    for piece, (_, shape) in _overlaps(entry, block):
        source.elements(name, piece)
        seen += math.prod(shape)
    count = math.prod(block[1])
    if seen != count:
        raise FileError(
            f"checkpoint.load: {name}: {count - seen} of {count} elements are in none of the files"
        )


def _fill(tree: Any, path: tuple[str, ...], source: _Source) -> None:
    for key, value in tree.items():
        here = (*path, f"{type(key).__name__}:{key}")
        name = _name(here)
        if isinstance(value, Mapping):
            _fill(value, here, source)
        elif source.lacks(name):
            continue
        elif isinstance(value, Tensor):
            local = part_of(value) if isinstance(value, DTensor) else value.detach()
            start, _ = _wanted(value)
            for piece, block in _overlaps(source.index.tensors[name], _wanted(value)):
                part = _within(source.elements(name, piece), block, piece.start)
                _within(local, block, start).copy_(part)
        else:
            tree[key] = _like(value, source.index.values[name])


def _overlaps(entry: Entry, wanted: Block) -> Iterator[tuple[Piece, Block]]:
    """The pieces that hold some of the block asked for, and what they hold of it."""
    for piece in entry.pieces:
        first = tuple(map(max, wanted[0], piece.start))
        last = tuple(
            min(a + n, b + m) for a, n, b, m in zip(*wanted, piece.start, piece.shape, strict=True)
        )
        if all(a < b for a, b in zip(first, last, strict=True)):
            yield piece, (first, tuple(b - a for a, b in zip(first, last, strict=True)))


def _within(tensor: Tensor, block: Block, start: tuple[int, ...]) -> Tensor:
    """A block of the whole, in a tensor that is a block which begins at `start`."""
    for dim, (first, length, base) in enumerate(zip(*block, start, strict=True)):
        tensor = tensor.narrow(dim, first - base, length)
    return tensor


def _like(state: Any, read: Any) -> Any:
    """A value that was read, with tuples where the state has tuples, which JSON does not know."""
    if isinstance(state, (list, tuple)) and isinstance(read, list):
        longer = [*state, *([None] * (len(read) - len(state)))]
        items = [_like(h, r) for h, r in zip(longer, read, strict=False)]
        return tuple(items) if isinstance(state, tuple) else items
    if isinstance(state, dict) and isinstance(read, dict):
        return {k: _like(state.get(k), v) for k, v in read.items()}
    return read
