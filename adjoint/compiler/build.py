"""Build: from a task to the steps that do it.

The stages, in order: passes over the graph, legalise, fuse, order, place, kernels.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from adjoint.backends.llvm.columns import STRIP, sums_columns
from adjoint.backends.llvm.kernels import lanes_of, words_of
from adjoint.backends.llvm.operations import KIND
from adjoint.backends.loops import ANY, SHORT, WHOLE, Kernel, can_fail
from adjoint.compiler import (  # noqa: F401  (they register templates)
    convolutions,
    folds,
    joins,
    pools,
    products,
    running,
    scans,
    scatters,
)
from adjoint.compiler.copying import copy_step, kernel_step
from adjoint.compiler.fuse import Fusion, Unit
from adjoint.compiler.legalise import Legal
from adjoint.compiler.nest import Nest
from adjoint.compiler.places import (
    ARENA,
    INPUT,
    OWN,
    RESULT,
    Buffer,
    Place,
    reshaped,
    row_major,
    show,
)
from adjoint.compiler.steps import (
    Address,
    Call,
    Launch,
    Number,
    Status,
    Step,
    Touches,
    by_buffer,
    double_bits,
    overlap,
    whole,
)
from adjoint.compiler.templates import TEMPLATES
from adjoint.graph.execution import Task
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.pipeline import run_passes
from adjoint.graph.passes.remat import DEFAULT, NEAR, Recomputed, rematerialise
from adjoint.ops.convert import CLONE

ADJACENT = 4  # steps that a kernel may be put off whatever it reads
HELD = 1 << 17  # bytes that may be kept longer so that kernels are launched together


@dataclass(slots=True)
class Plan:
    """What an executable is made from."""

    graph: Graph
    steps: list[Step]
    inputs: list[Buffer | None]  # by graph input; None for the host's numbers
    targets: list[Buffer]  # by write
    results: dict[int, Buffer]  # by output
    places: dict[Value, Place]
    remat: Recomputed


class Builder:
    """Makes a plan."""

    def __init__(self, task: Task, remat: str = DEFAULT) -> None:
        self.task = task
        self.remat = rematerialise(run_passes(task.graph), remat)
        self.graph = self.remat.graph
        self.inputs, given = input_places(self.graph, task.examples)
        legal = Legal(self.graph, given)
        self.graph = legal.graph
        self.fusion = Fusion(self.graph, legal.kinds, updates(self.graph, task), NEAR)
        self.given = given
        self.places: dict[Value, Place] = dict(given)
        self.units = ordered(self.fusion, self.graph)
        self.position = {unit.index: k for k, unit in enumerate(self.units)}
        self.steps: list[Step] = []
        self.skipped: set[int] = set()  # units whose work others do
        self.targets: list[Buffer] = []
        self.results: dict[int, Buffer] = {}
        self.last: list[tuple[Value, Place]] = []  # copies at the end

    def plan(self) -> Plan:
        self.realise()
        self.place_outputs()
        self.make_in_place()
        self.multiply_in_place()
        for unit in self.units:
            self.steps += self.unit_steps(unit)
        for value, place in self.last:
            if 0 not in place.shape:
                self.steps.append(self.copy_step(value, place))
        self.steps = batch(self.steps)
        return Plan(
            self.graph,
            self.steps,
            self.inputs,
            self.targets,
            self.results,
            self.places,
            self.remat,
        )

    # -- places ---------------------------------------------------------------------------------

    def realise(self) -> None:
        """Give memory to values that someone outside their unit reads."""
        self.readers: dict[Value, set[int]] = {}  # base value -> positions of units
        for unit in self.units:
            for node in unit.nodes:
                for x in node.inputs:
                    if isinstance(x, Value) and not x.host:
                        base, _ = self.fusion.rooted(x)
                        maker = self.fusion.unit_of.get(base)
                        if maker is not unit:
                            self.readers.setdefault(base, set()).add(self.position[unit.index])
        end = len(self.units)
        for v in self.graph.outputs:
            self.readers.setdefault(self.fusion.rooted(v)[0], set()).add(end)
        for base in list(self.readers):
            if base in self.fusion.unit_of:
                self.realise_value(base)
        for unit in self.units:
            if unit.kind in ("template", "call"):
                for v in unit.nodes[0].outputs:
                    self.realise_value(v)

    def make_in_place(self) -> None:
        """Have operands of concatenations written where they belong by the units that make them."""
        for unit in self.units:
            node = unit.nodes[0]
            template = TEMPLATES.get(node.record.name) if unit.kind == "template" else None
            if template is None or template.parts is None:
                continue
            place = self.places[node.outputs[0]]
            if place.buffer.kind not in OWN:  # state: somebody may yet read its old value
                continue
            windows = template.parts(node, place)
            for x, window in zip(node.inputs, windows, strict=True):
                base, views = self.fusion.rooted(x)
                maker = self.fusion.unit_of.get(base)
                if maker is None or maker.kind != "loop" or len(self.readers.get(base, ())) != 1:
                    continue
                if node.inputs.count(x) > 1 or any(v.record.name != "reshape" for v in views):
                    continue
                found = reshaped(window, base.spec.shape)
                if found is not None:
                    self.places[base] = found

    def multiply_in_place(self) -> None:
        """Have products write where a mere rearrangement of them would be copied to."""
        for unit in self.units:
            node = unit.nodes[0]
            if unit.kind != "loop" or len(unit.nodes) != 1 or node.record.name != "clone":
                continue
            base, views = self.fusion.rooted(node.inputs[0])
            maker = self.fusion.unit_of.get(base)
            own, target = self.places.get(base), self.places.get(node.outputs[0])
            if maker is None or own is None or target is None or own.buffer.kind != ARENA:
                continue
            if target.buffer.kind not in OWN:
                continue
            if maker.nodes[0].record.name != "matmul" or len(self.readers[base]) != 1:
                continue
            place: Place | None = target
            for view in reversed(views):
                if view.record.name == "permute":
                    dims = view.params["dims"]
                    assert place is not None
                    back = [dims.index(d) for d in range(len(dims))]
                    place = Place(
                        place.buffer,
                        tuple(place.shape[d] for d in back),
                        tuple(place.strides[d] for d in back),
                        place.offset,
                    )
                elif view.record.name == "reshape" and place is not None:
                    place = reshaped(place, view.inputs[0].spec.shape)
                else:
                    place = None
                if place is None:
                    break
            # A product's rows must be rows in memory; who would read it later reads the copy.
            if place is not None and products.unit(place) == "n":
                self.places[base] = place
                self.skipped.add(unit.index)

    def realise_value(self, value: Value) -> None:
        if value not in self.places:
            size = prod(value.spec.shape)
            buffer = Buffer(ARENA, value.spec.dtype, size, name=value.name)
            self.places[value] = row_major(buffer, value.spec.shape)

    def place_of(self, value: Value) -> Place:
        """Where a realised value, or a view of one, lies."""
        found = self.places.get(value)
        if found is None:
            node = value.node
            assert node is not None
            found = show(self.place_of(node.inputs[0]), node)
            assert found is not None, f"{value} has no place"
            self.places[value] = found
        return found

    def place_outputs(self) -> None:
        """Let results and updated state be written where they belong, or copied there."""
        task, outputs = self.task, self.graph.outputs
        for (_, k), target in zip(task.writes, task.targets, strict=True):
            same = next((i for i, x in enumerate(task.examples) if x is target), None)
            if same is not None and self.inputs[same] is not None:
                buffer = self.inputs[same]
                assert buffer is not None
                place = self.given[self.graph.inputs[same]]
            else:
                buffer = Buffer(
                    "target", outputs[k].spec.dtype, prod(target.shape), len(self.targets)
                )
                place = array_place(buffer, target)
            self.targets.append(buffer)
            self.last.append((outputs[k], place))
        for k in sorted(task.returned):
            value = outputs[k]
            buffer = Buffer(RESULT, value.spec.dtype, prod(value.spec.shape), k)
            self.results[k] = buffer
            place = row_major(buffer, value.spec.shape)
            base, views = self.fusion.rooted(value)
            own = self.places.get(base)
            if own is not None and not views and own.buffer.kind == ARENA:
                self.places[value] = place  # made in place
            else:
                self.last.insert(0, (value, place))
        self.write_in_place()

    def write_in_place(self) -> None:
        """State whose old value nobody needs any more is overwritten by the unit that makes it."""
        kept = []
        calls = [k for k, u in enumerate(self.units) if may_fail(u)]
        for value, place in self.last:
            if place.buffer.kind == RESULT or not self.may_overwrite(value, place, calls):
                kept.append((value, place))
            else:
                self.places[value] = place
        # What is copied at the end must not be overwritten by an earlier copy: take it first.
        written = {place.buffer for _, place in kept}
        self.last = []
        for value, place in kept:
            base, _ = self.fusion.rooted(value)
            source = self.places.get(base)
            if place.buffer.kind != RESULT and source is not None and source.buffer in written:
                own = Buffer(ARENA, value.spec.dtype, prod(value.spec.shape), name="held")
                held = row_major(own, value.spec.shape)
                self.last.insert(0, (value, held))
                self.last.append((_Taken(value.spec, held), place))  # type: ignore[arg-type]
            else:
                self.last.append((value, place))

    def may_overwrite(self, value: Value, place: Place, calls: list[int]) -> bool:
        base, views = self.fusion.rooted(value)
        unit = self.fusion.unit_of.get(base)
        own = self.places.get(base)
        if views or unit is None or own is None or own.buffer.kind != ARENA:
            return False
        if unit.kind == "call" or not place.contiguous:
            return False
        at = self.position[unit.index]
        if any(c >= at for c in calls):
            return False
        if place.buffer.kind != INPUT:
            return True
        source = self.graph.inputs[place.buffer.number]
        for reader in self.readers.get(source, ()):
            if reader > at:
                return False
            if reader == at and not self.in_step(unit, source, base, place):
                return False
        return True

    def in_step(self, unit: Unit, source: Value, value: Value, place: Place) -> bool:
        """Whether a unit reads an input only at the element it is about to write."""
        if unit.kind != "loop" or unit.reduced is not None:
            return False
        from adjoint.compiler.nest import strides_over
        from adjoint.compiler.places import expand_to

        wanted = strides_over(place.strides, unit.maps[value])
        for node in unit.nodes:
            for x in node.inputs:
                if isinstance(x, Value) and self.fusion.rooted(x)[0] is source:
                    seen = expand_to(self.place_of(x), node.outputs[0].spec.shape)
                    if seen.offset != place.offset:
                        return False
                    if strides_over(seen.strides, unit.maps[node.outputs[0]]) != wanted:
                        return False
        return True

    # -- steps ----------------------------------------------------------------------------------

    def unit_steps(self, unit: Unit) -> list[Step]:
        node = unit.nodes[0]
        if unit.index in self.skipped:
            return []
        if unit.kind == "loop":
            nest = Nest(unit, self.fusion, self.place_of)
            for each in unit.nodes:
                nest.visit(each)
            for each in unit.nodes:
                value = each.outputs[0]
                if value in self.places:
                    nest.store(value, self.places[value])
            if not nest.stores:
                return []
            step = kernel_step(nest.finish())
            step.reason = unit.reason
            return [step]
        if unit.kind == "template":
            operands = [self.operand(x) for x in node.inputs]
            results = [self.places[v] for v in node.outputs]
            return TEMPLATES[node.record.name].steps(node, operands, results)
        reads = tuple(
            whole(self.place_of(x).buffer)
            for x in node.inputs
            if isinstance(x, Value) and not x.host
        )
        writes = tuple(whole(self.places[v].buffer) for v in node.outputs)
        return [Call(node, reads, writes, label=node.record.name, reason=why_called(node))]

    def operand(self, x: Any) -> Any:
        """A template's operand: a place, a number, or None for what needs no memory."""
        if not isinstance(x, Value) or x.host:
            return x
        return None if x in self.fusion.fills else self.place_of(x)

    def copy_step(self, value: Any, place: Place) -> Step:
        """A copy of a value to another place."""
        source = value.place if isinstance(value, _Taken) else self.place_of(value)
        if value.spec.dtype.name not in KIND:  # no kernel loads it
            held = Value("held", value.spec)
            node = Node(CLONE, (held,), {})
            node.outputs = (Value("copy", value.spec, node),)
            self.places[held], self.places[node.outputs[0]] = source, place
            reads, writes = (whole(source.buffer),), (whole(place.buffer),)
            return Call(node, reads, writes, label="copy", reason=why_called(node))
        return copy_step(source, place)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A value that was taken before what it lies in is overwritten."""

    spec: Any
    place: Place


def why_called(node: Node) -> str:
    """Why no native code does a node."""
    dtypes = {
        v.spec.dtype.name
        for v in (*node.outputs, *(x for x in node.inputs if isinstance(x, Value)))
    }
    foreign = sorted(dtypes - set(KIND))
    if foreign:
        return f"kernels do not compute in {', '.join(foreign)}"
    if any(0 in v.spec.shape for v in node.outputs):
        return "nothing to compute"
    return "no native code for it"


def may_fail(unit: Unit) -> bool:
    """Whether running a unit can raise: calls, and what checks indices."""
    if unit.kind == "template" and unit.nodes[0].record.name == "scan":
        return scans.can_fail(unit.nodes[0])
    return unit.kind == "call" or any(
        n.record.name in ("gather", "index", "index_put") or can_fail(n.record.name, "int")
        for n in unit.nodes
    )


def updates(graph: Graph, task: Task) -> frozenset[Node]:
    """Nodes whose results go nowhere but into state (Note [updates])."""
    shown = {graph.outputs[k] for k in task.returned}
    only: set[Node] = set()
    outside: set[Value] = set(shown)  # values that something else uses
    for node in reversed(graph.nodes):
        if not any(v in outside for v in node.outputs):
            only.add(node)  # dead code is gone, so it leads to a write
        else:
            outside.update(x for x in node.inputs if isinstance(x, Value))
    return frozenset(only)


def input_places(graph: Graph, examples: Any) -> tuple[list[Buffer | None], dict[Value, Place]]:
    """Buffers and places of the graph's inputs."""
    buffers: list[Buffer | None] = []
    places: dict[Value, Place] = {}
    for i, (value, array) in enumerate(zip(graph.inputs, examples, strict=True)):
        if value.host:
            buffers.append(None)
            continue
        buffer = Buffer(INPUT, value.spec.dtype, prod(value.spec.shape), i)
        buffers.append(buffer)
        places[value] = array_place(buffer, array)
    return buffers, places


def array_place(buffer: Buffer, array: Any) -> Place:
    """Where the elements of an array lie."""
    item = array.dtype.itemsize
    return Place(buffer, tuple(array.shape), tuple(s // item for s in array.strides))


def ordered(fusion: Fusion, graph: Graph) -> list[Unit]:
    """Units in an order that respects their dependences and stays near the recorded one."""
    rank = {node: k for k, node in enumerate(graph.nodes)}
    units = [u for u in fusion.units if u.nodes]
    waits: dict[int, set[int]] = {}
    followers: dict[int, list[Unit]] = {}
    for unit in units:
        before = {p.index for node in unit.nodes for p in fusion.producers(node)} - {unit.index}
        waits[unit.index] = before
        for b in before:
            followers.setdefault(b, []).append(unit)
    ready = [(rank[u.nodes[-1]], u.index, u) for u in units if not waits[u.index]]
    heapq.heapify(ready)
    result: list[Unit] = []
    while ready:
        _, _, unit = heapq.heappop(ready)
        result.append(unit)
        for follower in followers.get(unit.index, ()):
            waits[follower.index].discard(unit.index)
            if not waits[follower.index]:
                heapq.heappush(ready, (rank[follower.nodes[-1]], follower.index, follower))
    assert len(result) == len(units), "units wait for each other"
    return result


# -- kernels into launches ----------------------------------------------------------------------


def batch(steps: list[Step]) -> list[Step]:
    """Launch kernels of one form together where nothing between them forbids it.

    A kernel is put off to a later one of its form that can wait for it: no step from here to there
    may read what it writes, or write what it reads or writes. Nor must much memory be kept for
    that: a launch saved is worth a microsecond, which large operands do not notice.
    """
    result: list[Step] = []
    ends: dict[Buffer, int] = {}  # the last step to touch each buffer, counted from the end
    held: dict[Any, _Held] = {}  # by form: a launch, and what the steps since touch
    for step in reversed(steps):
        form = step.form if isinstance(step, Launch) else None
        reads, writes = by_buffer(step.reads), by_buffer(step.writes)
        later = held.get(form) if form is not None else None
        joined = later is not None and not (
            overlap(step.writes, later.reads)
            or overlap(step.writes, later.writes)
            or overlap(step.reads, later.writes)
            or (len(result) - later.at > ADJACENT and holds(reads, ends, later.at) > HELD)
        )
        if joined:
            assert later is not None
            assert isinstance(step, Launch)
            later.launch.kernels.insert(0, step.kernels[0])
            later.launch.reads += step.reads
            later.launch.writes += step.writes
            later.launch.cost += step.cost
        else:
            result.append(step)
            if form is not None:
                assert isinstance(step, Launch)
                held[form] = _Held(step, len(result), {}, {})
        # A kernel that was put off is no longer in the way of launches before its new place.
        at = later.at if joined and later is not None else len(result)
        for buffer in (*reads, *writes):
            ends[buffer] = min(ends.get(buffer, at), at)
        for each in held.values():
            if each.at <= at:
                each.add(reads, writes)
    result.reverse()
    for step in result:
        if isinstance(step, Launch) and step.form is not None:
            fill_words(step)
    return result


def holds(reads: Touches, ends: dict[Buffer, int], at: int) -> int:
    """Bytes that would be kept longer if what reads them were put off."""
    return sum(b.nbytes for b in reads if b.kind == ARENA and ends.get(b, at + 1) > at)


@dataclass(slots=True)
class _Held:
    """A launch that earlier kernels may join, and what they would have to wait for."""

    launch: Launch
    at: int  # its place, counted from the end
    reads: Touches
    writes: Touches

    def add(self, reads: Touches, writes: Touches) -> None:
        for mine, theirs in ((self.reads, reads), (self.writes, writes)):
            for buffer, touches in theirs.items():
                mine.setdefault(buffer, []).extend(touches)


def fill_words(step: Launch) -> None:
    """The words of a launch of generated kernels (Note [kernel words])."""
    form = step.form
    layout = words_of(form)
    lanes, checks = lanes_of(form), form.checks()
    step.form = replace(form, spans=spans(step.kernels, lanes))
    words: list[Any] = [len(step.kernels), 0]
    first = 0
    for kernel in step.kernels:
        pieces, chunk, chunks = divide(kernel, lanes, sums_columns(step.form))
        extents = iter(kernel.extents)
        words += [first, pieces, chunk, chunks, *kernel.outer, *kernel.inner]
        for kind, k, d in layout:
            if kind == "address":
                ref = kernel.refs[k]
                if ref.buffer is None:
                    words.append(ref.offset)
                else:
                    words.append(Address(ref.buffer, ref.offset * ref.dtype.itemsize))
            elif kind == "stride":
                words.append(kernel.refs[k].strides[d])
            elif kind == "pick":
                words.append(kernel.refs[k].picks[d][0])
            elif kind == "limit":
                words.append(kernel.refs[k].picks[d][1])
            elif kind == "extent":
                words.append(next(extents))
            elif kind == "status":
                words.append(Status())
            elif kind == "fault":
                words.append(kernel.faults[checks.index((k, d))])
            else:
                host = kernel.hosts[k]
                words.append(Number(host) if isinstance(host, Value) else double_bits(host))
        first += pieces
    words[1] = first
    step.words = words
    step.pieces = first


def spans(kernels: list[Kernel], lanes: int) -> str:
    """What sizes of the vector dimension there are."""
    sizes = [k.inner[-1] if k.form.rows else k.outer[-1] if k.outer else 0 for k in kernels]
    if all(n < lanes for n in sizes):
        return SHORT
    return ANY if any(n % lanes for n in sizes) else WHOLE


def divide(kernel: Kernel, lanes: int, strips: bool) -> tuple[int, int, int]:
    """(pieces, chunk, chunks): how the outer space is dealt out, by shape alone."""
    if kernel.form.rows or not kernel.outer:
        return prod(kernel.outer), 0, 1
    lead, size = prod(kernel.outer[:-1]), kernel.outer[-1]
    inside = max(1, prod(kernel.inner))
    wanted = max(1, 4096 // inside)  # elements of the vector dimension in a piece
    chunk = max(lanes, -(-min(size, wanted) // lanes) * lanes)
    if lead >= 64:
        chunk = max(chunk, -(-size // lanes) * lanes)
    if strips:  # Note [columns]
        chunk = STRIP if size >= 2 * STRIP else STRIP // 4
    chunks = -(-size // chunk)
    return lead * chunks, chunk, chunks
