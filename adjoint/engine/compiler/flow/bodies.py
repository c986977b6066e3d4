"""Bodies of loops and branches: planned once, their entries listed at one address after another.

Note [made once]
    What a template's launch makes of inputs that are the same in all turns, the panels of a layer's
    weights say, is the same in all turns as well. So it is a step of its own before the loop, whose
    memory lasts as long as the loop does. Templates are told which inputs last (`Setting.lasts`):
    they may then order for all turns what would not be worth it for one.

    Only what templates make for templates is taken out. A kernel could be given the memory of an
    operand that it is the last to read (Note [in place]), of which the next turn knows nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
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
    Status,
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


def lasting_inputs(setting: Setting, node: Node) -> frozenset[int]:
    """The inputs of a scan's body that are the same in all turns; none where nobody asks."""
    if node.record.name != "scan" or not is_long(setting, node):
        return frozenset()
    first = node.params["carries"] + node.params["xs"]
    return frozenset(range(first, len(node.params["body"].inputs)))


def is_long(setting: Setting, node: Node) -> bool:
    """Whether a scan has turns enough to be more than its turns one after the other."""
    advances = setting.target.advances() and not setting.options.validate
    return advances and node.params["length"] >= SHORTEST


def body_plan(setting: Setting, body: DataflowGraph, lasting: frozenset[int] = frozenset()) -> Any:
    """The plan of a body whose inputs lie in row-major order; made once for a setting."""
    key = (setting.target.name, setting.target.variant, setting.options, lasting)
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
        plan = body.derived[key] = setting.planner(
            task, replace(setting, lasting=lasting, turns=True)
        )
        plan.steps[:] = setting.target.apart(plan.steps)
    return plan


# -- what can be done ---------------------------------------------------------------------------


def refusal(setting: Setting, node: Node) -> str:
    """Why a loop or branch is not native; nothing where it is."""
    lasting = lasting_inputs(setting, node)
    for body in subgraphs(node).values():
        values = [v for v in (*body.inputs, *body.outputs) if not v.host]
        foreign = {v.spec.dtype.name for v in values} - setting.target.dtypes
        if foreign:
            return f"kernels do not compute in {', '.join(sorted(foreign))}"
        if any(v.spec.device.type != setting.target.device for v in values):
            return "a part of it is on another device"
        if any(0 in v.spec.shape for v in values):
            return "it has tensors of no elements"
        steps = body_plan(setting, body, lasting).steps
        calls = [step for step in steps if isinstance(step, EagerCall)]
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
    plan = body_plan(setting, node.params["body"], lasting_inputs(setting, node))
    return int(node.params["length"]) * sum(len(entries_of(step)) for step in plan.steps)


def goes_back(setting: Setting, node: Node) -> bool:
    """Whether a scan is one whose words advance (Note [advancing words])."""
    return is_long(setting, node) and entry_count(setting, node) > LISTED


def can_fail(setting: Setting, node: Node) -> bool:
    """Whether a loop or branch can find an error, or be interrupted as one without end."""
    lasting = lasting_inputs(setting, node)
    steps: list[Step] = [
        s for body in subgraphs(node).values() for s in body_plan(setting, body, lasting).steps
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


def made_once(plan: Any, lasting: frozenset[int]) -> list[Launch]:
    """A body's launches that make the same in all turns (Note [made once])."""
    known = {plan.inputs[i] for i in lasting}
    written = Counter(touch.buffer for step in plan.steps for touch in step.writes)
    shared = set(plan.results.values()) | {
        touch.buffer
        for step in plan.steps
        if not isinstance(step, Launch) or step.kernels
        for touch in (*step.reads, *step.writes)
    }
    once = []
    for step in plan.steps:
        if not isinstance(step, Launch) or step.kernels:
            continue
        made = {touch.buffer for touch in step.writes}
        own = all(b.kind == ARENA and written[b] == 1 for b in made) and made.isdisjoint(shared)
        fixed = not any(isinstance(word, (HostNumber, Status, Fault)) for word in step.words)
        if own and fixed and known.issuperset(touch.buffer for touch in step.reads):
            once.append(step)
            known |= made
    return once


class PlannedBody:
    """A planned body, to be listed with its inputs and results at given places."""

    def __init__(
        self, setting: Setting, graph: DataflowGraph, lasting: frozenset[int] = frozenset()
    ) -> None:
        self.plan = body_plan(setting, graph, lasting)
        self.once = made_once(self.plan, lasting)
        self.steps: list[Step] = [step for step in self.plan.steps if step not in self.once]
        self.entries = [entry for step in self.steps for entry in entries_of(step)]
        for entry in (*self.once, *self.entries):
            if isinstance(entry, Launch) and entry.form is not None:
                entry.function = name_of(entry)  # a digest: once for all turns
        self.hosts = {v: i for i, v in enumerate(self.plan.graph.inputs) if v.host}

    def at(self, inputs: Sequence[Any], results: Sequence[Place]) -> list[Entry]:
        """The entries for inputs at these places (the host's: numbers, literals) and results."""
        given = self.substitution(inputs)
        given.moved.update({buffer: results[k] for k, buffer in self.plan.results.items()})
        return [self.entry(entry, inputs, given) for entry in self.entries]

    def substitution(self, inputs: Sequence[Any]) -> Substitution:
        """Where inputs lie, and the host's."""
        moved = {b: x for b, x in zip(self.plan.inputs, inputs, strict=True) if b is not None}
        return Substitution(moved, {v: inputs[i] for v, i in self.hosts.items()})

    def before(self, inputs: Sequence[Any]) -> list[Launch]:
        """What is done before all turns, with inputs at these places (Note [made once])."""
        given = self.substitution(inputs)
        launches = []
        for once in self.once:
            launch = self.entry(once, inputs, given)
            assert isinstance(launch, Launch)
            places = [(touch, given.moved.get(touch.buffer)) for touch in once.reads]
            launch.reads = tuple(t if p is None else whole(p.buffer) for t, p in places)
            launches.append(launch)
        return launches

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
