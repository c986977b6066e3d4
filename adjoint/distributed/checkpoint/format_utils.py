"""Between folders that all processes write and single files of `save`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from adjoint.distributed.checkpoint.files import load, save
from adjoint.distributed.checkpoint.index import read_index
from adjoint.engine.core.dtype import named
from adjoint.engine.ops.create.creation import zeros
from adjoint.serialization import load as load_one
from adjoint.serialization import save as save_one


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: Any) -> None:
    """Write the state in a folder as one file that `load` reads; one process calls it.

    Keys that were numbers are strings in it.
    """
    index = read_index(Path(dcp_checkpoint_dir))
    state: dict[str, Any] = {}
    for name, entry in index.tensors.items():
        _put(state, name, zeros(entry.shape, dtype=named(entry.dtype)))
    for name, value in index.values.items():
        _put(state, name, value)
    load(state, checkpoint_id=dcp_checkpoint_dir)
    save_one(state, torch_save_path)


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: str | os.PathLike[str]) -> None:
    """Write the state in one file of `save` as a folder; one process calls it."""
    save(load_one(torch_save_path), checkpoint_id=dcp_checkpoint_dir)


def _put(state: dict[str, Any], name: str, value: Any) -> None:
    *parents, last = [part.replace("%2F", "/") for part in name.split("/")]
    for part in parents:
        state = state.setdefault(part, {})
    state[last] = value
