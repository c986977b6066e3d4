"""Eager operations found on disk by the names of their kinds (Note [kept kinds])."""

from __future__ import annotations

import importlib
import json
from functools import partial
from typing import Any

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.program.running import (
    FilledTask,
    Native,
    disk_prefix,
    get_ready,
    loaded,
    shared_arena,
)
from adjoint.engine.core.files.budget import Budget, FileRefusal, read_json
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state.timeline import stage
from adjoint.engine.core.state.validation import validating

FORMAT = "kind 2"  # for the names of entries


def find(name: bytes, shared: dict[str, Any]) -> tuple[Native | None, dict[str, Any]] | None:
    """The program of a kind and what was told of it, if both are kept and whole.

    In the place of a program is None where it is known that there is none.
    """
    if validating():  # what is checked must be known by its nodes, which images do not keep
        return None
    get_ready()
    with stage("look on disk"):
        key = key_of(FORMAT, disk_prefix(), name)
        data = store.get(key)
        if data is None:
            return None
        try:
            told = read_json(data, Budget(len(data), "a kept kind"))
            if told["image"] is None:
                return None, {}
            image, about = str(told["image"]), told["about"]
            floats = frozenset([int(i) for i in told["floats"]])
            written = frozenset([int(i) for i in told["written"]])
            task = FilledTask(floats, int(told["outputs"]), written)
        except (KeyError, TypeError, ValueError, FileRefusal):
            store.default().drop(key)
            return None
        if not store.is_key(image) or not isinstance(about, dict):
            store.default().drop(key)
            return None
        arena = shared_arena(shared)
        make = partial(Native, task, arena=arena)
        native = loaded(image, arena, make)
    return None if native is None else (native, about)


def keep(name: bytes, executable: Any, about: dict[str, Any]) -> None:
    """Have a program that was recorded found by its kind from now on, or that there is none."""
    if executable is None:
        if not validating():
            store.put(key_of(FORMAT, disk_prefix(), name), json.dumps({"image": None}).encode())
        return
    image = _compiling().kept_under(executable)
    if image is None:
        return
    task = executable.task
    graph, numbers = task.graph, executable.image.numbers
    targets = {*map(id, task.targets)}
    told = {
        "image": image,
        "floats": [i for i in numbers if graph.inputs[i].spec.dtype.is_floating_point],
        "outputs": len(graph.outputs),
        "written": [i for i, example in enumerate(task.examples) if id(example) in targets],
        "about": about,
    }
    store.put(key_of(FORMAT, disk_prefix(), name), json.dumps(told).encode())


def _compiling() -> Any:
    """The part that names programs by what was recorded."""
    return importlib.import_module("adjoint.engine.backends.llvm.program.native")
