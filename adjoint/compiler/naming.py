"""Names by content: of kernels' functions, and of whole tasks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from adjoint.backends.loops import Form
from adjoint.compiler.steps import Launch
from adjoint.core.device import Device
from adjoint.core.dtype import DType, get_default_dtype
from adjoint.core.record import Record
from adjoint.core.spec import Spec
from adjoint.graph.environment import is_own
from adjoint.graph.execution import Task
from adjoint.graph.ir import Graph, Value


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def form_name(form: Form) -> str:
    """The name of a form's function: a digest of all that decides its text."""
    return f"k{digest(repr(form))}"


def name_of(step: Launch) -> str:
    """The name of the function a launch calls."""
    return form_name(step.form) if step.form is not None else step.function


class Unnameable(Exception):
    """A task that holds something whose content has no name."""


PLANNING = ("core", "ops", "tensor", "autodiff", "graph", "backends", "compiler")


@cache
def package_key() -> str:
    """Which version of the package this is: sizes and times of the files that decide a plan."""
    root = Path(__file__).parent.parent
    entries = []
    pending = [str(root / name) for name in PLANNING]
    while pending:
        with os.scandir(pending.pop()) as found:
            for entry in found:
                if entry.is_dir():
                    pending.append(entry.path)
                elif entry.name.endswith(".py"):
                    stat = entry.stat()
                    entries.append(f"{entry.name}{stat.st_size}{stat.st_mtime_ns}")
    return digest(";".join(sorted(entries)))


def task_key(task: Task, options: Any) -> str:
    """A digest of all that decides a task's plan."""
    parts = [repr(options), get_default_dtype().name]
    parts += graph_parts(task.graph)
    arrays = {id(x): i for i, x in enumerate(task.examples)}
    for x in task.examples:
        parts.append(str(x.strides) if hasattr(x, "strides") else "host")
    for (_, k), target in zip(task.writes, task.targets, strict=True):
        parts.append(f"{k}>{arrays.get(id(target))}{target.shape}{target.strides}")
    parts.append(str(sorted(task.returned)))
    return digest("\n".join(parts))


def graph_parts(graph: Graph) -> Iterator[str]:
    """A graph line by line; values are numbers in order of appearance."""
    numbers: dict[Value, int] = {}
    for value in graph.inputs:
        numbers[value] = len(numbers)
        yield f"{value.host}{named_spec(value.spec)}"
    for node in graph.nodes:
        inputs = [f"%{numbers[x]}" if isinstance(x, Value) else stable(x) for x in node.inputs]
        params = [f"{k}={stable(v)}" for k, v in node.params.items()]
        yield f"{node.record.name}({','.join(inputs)};{','.join(params)})"
        for value in node.outputs:
            numbers[value] = len(numbers)
            yield named_spec(value.spec)
        # A composition of the package's own follows from its name (and `package_key`).
        if node.subgraph is not None and not _composed_here(node.record):
            yield from graph_parts(node.subgraph)
    yield ",".join(str(numbers[v]) for v in graph.outputs)


def _composed_here(record: Record) -> bool:
    return record.compose is not None and is_own(record.compose)


@cache
def named_spec(spec: Spec) -> str:
    """A spec as text; programs have few different ones."""
    return repr(spec)


def stable(x: Any) -> str:
    """A literal or parameter as text that means the same in every process."""
    kind = x.__class__
    if kind is int or kind is float or kind is bool or kind is str or x is None or kind is complex:
        return repr(x)
    if isinstance(x, tuple):
        return f"({','.join(map(stable, x))})"
    if isinstance(x, list):
        return f"[{','.join(map(stable, x))}]"
    if isinstance(x, dict):
        return f"{{{','.join(f'{stable(k)}:{stable(v)}' for k, v in x.items())}}}"
    if isinstance(x, (DType, Device)):
        return str(x)
    if isinstance(x, Record):
        return x.name
    if isinstance(x, Graph):
        return "|".join(graph_parts(x))
    raise Unnameable(kind.__name__)
