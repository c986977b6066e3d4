"""Bodies of loops and branches: planned once, their entries listed at one address after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.loops.joint_launches import batch
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.package.naming import name_of
from adjoint.engine.compiler.package.work import Substitution
from adjoint.engine.compiler.schedule.steps import (
    Address,
    EagerCall,
    Entry,
    HostNumber,
    Launch,
    Step,
    Test,
    Touch,
    double_bits,
    entries_of,
    launches_of,
    whole,
)
from adjoint.engine.compiler.target import LayoutOf, Setting
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph, Node, Value, subgraphs
from adjoint.engine.graph.sizes.sizing import Example

LISTED = 64  # entries up to which a scan is listed, turn by turn
SHORTEST = 6  # turns of one that is not: four show how words advance, the first and last differ


def body_plan(setting: Setting, body: DataflowGraph) -> Any:
    """The plan of a body whose inputs lie in row-major order; made once for a setting."""
    key = (setting.target.name, setting.target.variant, setting.options)
    plan = body.derived.get(key)
    if plan is None:
        examples = []
        for v in body.inputs:
            dtype = NUMPY_OF[v.spec.dtype]
            strides = tuple(s * dtype.itemsize for s in contiguous_strides(v.spec.shape))
            examples.append(0 if v.host else Example(tuple(v.spec.shape), strides, dtype))
        task = Task(
            graph=body,
            sources=(),
            writes=(),
            returned=frozenset(range(len(body.outputs))),
            examples=tuple(examples),
            targets=(),
        )
        plan = body.derived[key] = setting.planner(task, setting)
    return plan


# -- what can be done ---------------------------------------------------------------------------


def refusal(setting: Setting, node: Node) -> str:
    """Why a loop or branch is not native; nothing where it is."""
    for body in subgraphs(node).values():
        values = [v for v in (*body.inputs, *body.outputs) if not v.host]
        foreign = {v.spec.dtype.name for v in values} - setting.target.dtypes
        if foreign:
            return f"kernels do not compute in {', '.join(sorted(foreign))}"
        if any(v.spec.device.type != setting.target.device for v in values):
            return "a part of it is on another device"
        if any(0 in v.spec.shape for v in values):
            return "it has tensors of no elements"
        calls = [step for step in body_plan(setting, body).steps if isinstance(step, EagerCall)]
        if calls:
            return "; ".join(dict.fromkeys(f"{c.label} inside it: {c.reason}" for c in calls))
    return ""


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Everything is read in row-major order."""
    return {
        i
        for i, x in enumerate(inputs)
        if isinstance(x, Value) and not x.host and not layout(x).contiguous
    }


def entry_count(setting: Setting, node: Node) -> int:
    """How many entries all turns of a scan have."""
    return int(node.params["length"]) * sum(
        len(entries_of(step)) for step in body_plan(setting, node.params["body"]).steps
    )


def goes_back(setting: Setting, node: Node) -> bool:
    """Whether a scan is one whose words advance (Note [advancing words])."""
    advances = setting.target.advances() and not setting.options.validate
    return advances and node.params["length"] >= SHORTEST and entry_count(setting, node) > LISTED


def can_fail(setting: Setting, node: Node) -> bool:
    """Whether a loop or branch can find an error, or be interrupted as one without end."""
    steps: list[Step] = [
        s for body in subgraphs(node).values() for s in body_plan(setting, body).steps
    ]
    name = node.record.name
    if name == "while_loop" or (name == "scan" and goes_back(setting, node)):
        return True
    return any(
        launch.skip < 0 or any(isinstance(word, Fault) for word in launch.words)
        for step in steps
        for launch in launches_of(step)
    )


# -- entries ------------------------------------------------------------------------------------


class PlannedBody:
    """A planned body, to be listed with its inputs and results at given places."""

    def __init__(self, setting: Setting, graph: DataflowGraph) -> None:
        self.plan = body_plan(setting, graph)
        self.steps: list[Step] = self.plan.steps
        self.entries = [entry for step in self.steps for entry in entries_of(step)]
        for launch in self.entries:
            if isinstance(launch, Launch):
                launch.function = name_of(launch)  # once for all turns
        self.hosts = {v: i for i, v in enumerate(self.plan.graph.inputs) if v.host}

    def at(self, inputs: Sequence[Any], results: Sequence[Place]) -> list[Entry]:
        """The entries for inputs at these places (the host's: numbers, literals) and results."""
        moved = {b: x for b, x in zip(self.plan.inputs, inputs, strict=True) if b is not None}
        moved.update({buffer: results[k] for k, buffer in self.plan.results.items()})
        given = Substitution(moved, {v: inputs[i] for v, i in self.hosts.items()})
        return [self.entry(entry, inputs, given) for entry in self.entries]

    def entry(self, entry: Entry, inputs: Sequence[Any], given: Substitution) -> Entry:
        moved = given.moved
        if isinstance(entry, Test):
            return Test(self.word(entry.byte, inputs, moved), entry.skip)
        words = [w if w.__class__ is int else self.word(w, inputs, moved) for w in entry.words]
        return Launch(
            function=entry.function,
            words=words,
            reads=entry.reads,
            writes=entry.writes,
            pieces=entry.pieces,
            cost=entry.cost,
            label=entry.label,
            form=entry.form,
            text=entry.text,
            kernels=entry.kernels,
            skip=entry.skip,
            times=entry.times,
            works=entry.works,
            substitutions=(*entry.substitutions, given),
        )

    def word(self, word: Any, inputs: Sequence[Any], moved: dict[PlannedBuffer, Place]) -> Any:
        if isinstance(word, Address):
            place = moved.get(word.buffer)
            return word if place is None else address(place, word.shift)
        if isinstance(word, HostNumber):
            given = inputs[self.hosts[word.value]]
            if isinstance(given, HostNumber):
                return HostNumber(given.value, given.plus + word.plus)
            floating = word.value.spec.dtype.is_floating_point
            return double_bits(float(given)) if floating else int(given) + word.plus
        return word


def address(place: Place, shift: int = 0) -> Address:
    """Where a place begins, or so many bytes after that."""
    return Address(place.buffer, place.offset * place.buffer.dtype.itemsize + shift)


def host(x: Any, plus: int = 0) -> Any:
    """A body's operand: a place, a literal, or a number of the host's and what is added to it."""
    if isinstance(x, Value):
        return HostNumber(x, plus)
    return x if isinstance(x, Place) or not plus else x + plus


def then(entries: list[Entry], skip: int) -> list[Entry]:
    """Entries after which the walk goes on so many further, wherever among them it leaves."""
    for k, entry in enumerate(entries):
        if k + 1 + entry.skip == len(entries):
            entry.skip += skip
    return entries


def copies(setting: Setting, sources: Iterable[Place], targets: Iterable[Place]) -> list[Entry]:
    """Launches that copy one set of places to another."""
    target = setting.target
    steps: list[Step] = [copy_step(target, a, b) for a, b in zip(sources, targets, strict=True)]
    launches = batch(steps, target)
    return [entry for step in launches for entry in entries_of(step)]


def like(place: Place, name: str) -> Place:
    """Memory for what a place holds."""
    return row_major(
        PlannedBuffer(ARENA, place.buffer.dtype, prod(place.shape), name=name), place.shape
    )


def touched(places: Iterable[Any]) -> tuple[Touch, ...]:
    """The buffers of places, in their order, in which they are also placed."""
    return tuple(map(whole, dict.fromkeys([p.buffer for p in places if isinstance(p, Place)])))
