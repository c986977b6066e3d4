"""Placing: which values get memory, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.compiler.flow import bodies
from adjoint.engine.compiler.fuse.fuse import Fusion, Unit
from adjoint.engine.compiler.loops.ir import can_fail
from adjoint.engine.compiler.loops.nest import strides_over
from adjoint.engine.compiler.memory.places import (
    ARENA,
    INPUT,
    OWN,
    RESULT,
    Place,
    PlannedBuffer,
    expand_to,
    reshaped,
    row_major,
    show,
)
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.core.spec import is_known
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph, Node, Value, subgraphs

INDICES = "*indices"  # the operands of records that take an index for each of some dimensions
Check = tuple[Value, int, bool]  # indices, the size they are below, whether they may be negative


@dataclass(frozen=True, slots=True)
class Taken:
    """A value that was taken before what it lies in is overwritten."""

    spec: Any
    place: Place


class Placing:
    """Decides for every value that is kept in memory where it lies."""

    def __init__(
        self,
        task: Task,
        graph: DataflowGraph,
        inputs: list[PlannedBuffer | None],
        given: dict[Value, Place],
        fusion: Fusion,
        units: list[Unit],
        setting: Setting,
    ) -> None:
        self.setting = setting
        self.task, self.graph, self.fusion, self.units = task, graph, fusion, units
        self.inputs, self.given = inputs, given
        self.places: dict[Value, Place] = dict(given)
        self.position = {unit.index: k for k, unit in enumerate(units)}
        self.readers: dict[Value, set[int]] = {}  # base value -> positions of units
        self.skipped: set[int] = set()  # units whose work others do
        self.targets: list[PlannedBuffer] = []
        self.results: dict[int, PlannedBuffer] = {}
        self.last: list[tuple[Any, Place]] = []  # copies at the end: of values, or `Taken`
        self.realise()
        self.place_outputs()
        self.make_in_place()
        self.begin_in_place()
        self.multiply_in_place()

    def realise(self) -> None:
        """Give memory to values that someone outside their unit reads."""
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
            if unit.kind in ("template", "call"):  # hidden ones too, lest it has no epilogue
                for v in unit.nodes[0].outputs:
                    self.realise_value(v)

    def template_of(self, unit: Unit) -> Template | None:
        """The template that a unit is, if it is one."""
        return self.setting.template(unit.nodes[0].record.name) if unit.kind == "template" else None

    def make_in_place(self) -> None:
        """Have operands of concatenations written where they belong by the units that make them.

        From the last unit back, since a concatenation may lie in another.
        """
        for unit in reversed(self.units):
            node = unit.nodes[0]
            template = self.template_of(unit)
            if template is None or template.parts is None:
                continue
            place = self.places[node.outputs[0]]
            if place.buffer.kind not in OWN:  # state: somebody may yet read its old value
                continue
            windows = template.parts(node, place)
            for x, window in zip(node.inputs, windows, strict=True):
                base, views = self.fusion.rooted(x)
                maker = self.fusion.unit_of.get(base)
                if maker is None or len(self.readers.get(base, ())) != 1:
                    continue
                if node.inputs.count(x) > 1 or not all(map(keeps_rows, views)):
                    continue
                window_place = before_views(window, views)
                if window_place is not None and self.can_make_at(maker, window_place):
                    self.places[base] = window_place

    def can_make_at(self, maker: Unit, place: Place) -> bool:
        """Whether a unit writes its result to a part of another value."""
        template = self.template_of(maker)
        if template is None or maker.epilogue is not None:
            return maker.kind == "loop"
        return template.writes_part is not None and template.writes_part(place)

    def begin_in_place(self) -> None:
        """Have what a template's result begins as made where that lies, if nobody else reads it."""
        for unit in self.units:
            template = self.template_of(unit)
            if template is None or template.begins is None:
                continue
            base, views = self.fusion.rooted(unit.nodes[0].inputs[template.begins])
            place, own = self.places[unit.nodes[0].outputs[0]], self.places.get(base)
            maker = self.fusion.unit_of.get(base)
            if maker is None or maker.epilogue is not None or views or own is None:
                continue
            if place.buffer.kind not in OWN or own.buffer.kind != ARENA or own == place:
                continue
            made_by = self.template_of(maker)
            can = made_by is None or (made_by.writes_to is not None and made_by.writes_to(place))
            alone = len(self.readers[base]) == 1 and maker.kind in ("loop", "template")
            if can and alone and (own.shape, own.strides) == (place.shape, place.strides):
                self.places[base] = place

    def multiply_in_place(self) -> None:
        """Have products and loops write where a mere rearrangement would be copied to."""
        moved: set[Value] = set()  # each lies in its first copy, which another one reads
        for unit in self.units:
            node = unit.nodes[0]
            if unit.kind != "loop" or len(unit.nodes) != 1 or node.record.name != "clone":
                continue
            base, views = self.fusion.rooted(node.inputs[0])
            maker = self.fusion.unit_of.get(base)
            own, target = self.places.get(base), self.places.get(node.outputs[0])
            if maker is None or own is None or target is None or own.buffer.kind != ARENA:
                continue
            if base in moved or target.buffer.kind not in OWN:
                continue
            place = before_views(target, views)
            # Who would read it later reads the copy.
            if (
                place is not None
                and self.can_write_to(maker, base, views, place)
                and self.can_all_read(base, place, unit)
            ):
                self.places[base] = place
                moved.add(base)
                self.skipped.add(unit.index)

    def can_write_to(self, maker: Unit, base: Value, views: Sequence[Node], place: Place) -> bool:
        """Whether a unit writes its result where a copy of a view of it would be."""
        if maker.epilogue is not None:
            return False
        if maker.kind == "loop":  # the copy came too late to be part of it
            return len(self.readers[base]) == 1 and all(map(keeps_rows, views))
        return self.template_writes_to(maker, place)

    def template_writes_to(self, maker: Unit, place: Place) -> bool:
        """Whether a unit is a template that writes its result there, with nothing done to it."""
        template = self.template_of(maker)
        if template is None or template.writes_to is None or maker.epilogue is not None:
            return False
        return bool(template.writes_to(place))

    def can_all_read(self, base: Value, place: Place, but: Unit) -> bool:
        """Whether all units but one are loops that can read a value where it would lie instead."""
        if len(self.readers[base]) == 1:
            return True
        for at in self.readers[base]:
            unit = self.units[at] if at < len(self.units) else None
            if unit is not but and (unit is None or not self.can_read(unit, base, place)):
                return False  # handed out, or it cannot
        return True

    def can_read(self, unit: Unit, base: Value, place: Place) -> bool:
        """Whether a unit is a loop that can read a value where it would lie instead."""
        if unit.kind != "loop":
            return False  # decided for a template by how it lay
        for node in unit.nodes:
            for x in node.inputs:
                if isinstance(x, Value) and not x.host and not self.is_shown(x, base, place):
                    return False
        return True

    def is_shown(self, value: Value, base: Value, place: Place) -> bool:
        """Whether a value, if it is a view of a base, is a place too where that would lie."""
        root, views = self.fusion.rooted(value)
        shown: Place | None = place
        for view in views if root is base else ():
            shown = None if shown is None else show(shown, view)
        return shown is not None

    def realise_value(self, value: Value) -> None:
        if value not in self.places:
            size = prod(value.spec.shape)
            buffer = PlannedBuffer(ARENA, value.spec.dtype, size, name=value.name)
            place = row_major(buffer, value.spec.shape)
            unit = self.fusion.unit_of[value]
            ordered = self.setting.is_laid_out(unit.kind, unit.nodes[0])
            self.places[value] = self.setting.laid_out(place, value) if ordered else place

    def place_of(self, value: Value) -> Place:
        """Where a realised value, or a view of one, lies."""
        place = self.places.get(value)
        if place is None:
            node = value.node
            assert node is not None
            place = show(self.place_of(node.inputs[0]), node)
            assert place is not None, f"{value} has no place"
            self.places[value] = place
        return place

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
                buffer = PlannedBuffer(
                    "target", outputs[k].spec.dtype, prod(target.shape), len(self.targets)
                )
                place = array_place(buffer, target)
            self.targets.append(buffer)
            self.last.append((outputs[k], place))
        for k in sorted(task.returned):
            value = outputs[k]
            buffer = PlannedBuffer(RESULT, value.spec.dtype, prod(value.spec.shape), k)
            self.results[k] = buffer
            place = row_major(buffer, value.spec.shape)
            base, views = self.fusion.rooted(value)
            own = self.places.get(base)
            if own is not None and not views and own.buffer.kind == ARENA and own.contiguous:
                self.places[value] = place  # made in place
            elif not self.make_permuted(base, views, place):
                self.last.insert(0, (value, place))
        self.write_in_place()

    def make_permuted(self, base: Value, views: list[Node], result: Place) -> bool:
        """Have a value written where a result is that shows it in another order or shape."""
        own, unit = self.places.get(base), self.fusion.unit_of.get(base)
        if not self.setting.target.permutes or own is None or own.buffer.kind != ARENA:
            return False
        if unit is None:
            return False
        place = before_views(result, views)
        if place is None:
            return False
        laid_out = self.setting.is_laid_out(unit.kind, unit.nodes[0])
        if not (laid_out or self.template_writes_to(unit, place)):
            return False
        if not self.can_be_read(base, place):
            return False
        self.places[base] = place
        return True

    def can_be_read(self, base: Value, place: Place) -> bool:
        """Whether all that reads a value, and whoever gets it, can do so where it would lie."""
        units = [self.units[at] for at in self.readers[base] if at < len(self.units)]
        return all(self.can_read(unit, base, place) for unit in units) and all(
            self.is_shown(value, base, place) for value in self.graph.outputs
        )

    def write_in_place(self) -> None:
        """State whose old value nobody needs any more is overwritten by the unit that makes it."""
        overwritten = []
        calls = self.failing()
        for value, place in self.last:
            if place.buffer.kind == RESULT or not self.may_overwrite(value, place, calls):
                overwritten.append((value, place))
            else:
                self.places[value] = place
        # What is copied at the end must not be overwritten by an earlier copy: take it first.
        written = {place.buffer for _, place in overwritten}
        self.last = []
        for value, place in overwritten:
            base, _ = self.fusion.rooted(value)
            source = self.places.get(base)
            if place.buffer.kind != RESULT and source is not None and source.buffer in written:
                own = PlannedBuffer(ARENA, value.spec.dtype, prod(value.spec.shape), name="held")
                own_place = row_major(own, value.spec.shape)
                self.last.insert(0, (value, own_place))
                self.last.append((Taken(value.spec, own_place), place))
            else:
                self.last.append((value, place))

    def failing(self) -> list[int]:
        """Positions of units that can raise.

        What puts rows into state where they lie cannot if an earlier unit checked its indices.
        """
        positions: list[int] = []
        checked: set[Check] = set()
        for k, unit in enumerate(self.units):
            template = self.template_of(unit)
            checks = [check for node in unit.nodes for check in self.checks(node)]
            begins = template is not None and template.begins is not None
            proven = begins and all(
                check is not None and is_implied(check, checked) for check in checks
            )
            if may_fail(self.setting, unit) and not (proven and checks):
                positions.append(k)
            checked |= {check for check in checks if check is not None}
        return positions

    def checks(self, node: Node) -> Iterator[Check | None]:
        """The bounds that an indexing keeps its indices within; None where that is not known."""
        operands, params = node.record.operands, node.params
        if not node.record.indexed or INDICES not in operands:
            return
        shape, indices = node.inputs[0].spec.shape, node.inputs[operands.index(INDICES) :]
        if len(indices) != len(params["dims"]) or not all(isinstance(x, Value) for x in indices):
            yield None
            return
        for dim, index in zip(params["dims"], indices, strict=True):
            base, views = self.fusion.rooted(index)
            whole = all(view.record.name == "reshape" for view in views)
            known = whole and is_known(shape[dim])
            yield (base, shape[dim], bool(params.get("wrap", True))) if known else None

    def may_overwrite(self, value: Value, place: Place, calls: list[int]) -> bool:
        base, views = self.fusion.rooted(value)
        unit = self.fusion.unit_of.get(base)
        own = self.places.get(base)
        if views or unit is None or own is None or own.buffer.kind != ARENA:
            return False
        if unit.kind == "call" or not own.contiguous:
            return False
        if not place.contiguous and not (self.setting.target.permutes and unit.kind == "loop"):
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
            if reader == at and not (
                self.in_step(unit, source, base, place) or self.begins_as(unit, source, place)
            ):
                return False
        return True

    def begins_as(self, unit: Unit, source: Value, place: Place) -> bool:
        """Whether a unit's result is its operand in the same memory, some of it overwritten."""
        template = self.template_of(unit)
        if template is None or template.begins is None:
            return False
        first, *others = (
            unit.nodes[0].inputs[template.begins],
            *(x for i, x in enumerate(unit.nodes[0].inputs) if i != template.begins),
        )
        if first is not source or self.places[source] != place:
            return False
        return all(
            not isinstance(x, Value) or self.fusion.rooted(x)[0] is not source for x in others
        )

    def in_step(self, unit: Unit, source: Value, value: Value, place: Place) -> bool:
        """Whether a unit reads an input only at the element it is about to write."""
        if unit.kind != "loop" or unit.reduced is not None:
            return False
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


def before_views(place: Place, views: Sequence[Node]) -> Place | None:
    """Where a value lies that views, permutations and reshapes, show at a place; None: nowhere."""
    found: Place | None = place
    for view in reversed(views):
        if found is None:
            return None
        if view.record.name == "permute":
            found = unpermuted(found, view.params["dims"])
        elif view.record.name == "reshape":
            found = reshaped(found, view.inputs[0].spec.shape)
        else:
            return None
    return found


def keeps_rows(view: Node) -> bool:
    """Whether a view is a reshape, or a permutation that leaves the last dimension where it is.

    What makes a value then still writes neighbours side by side.
    """
    if view.record.name == "permute":
        dims: Sequence[int] = view.params["dims"]
        return bool(dims) and dims[-1] == len(dims) - 1
    return view.record.name == "reshape"


def is_implied(check: Check, checked: set[Check]) -> bool:
    """Whether indices that were checked are within these bounds too."""
    index, size, wraps = check
    return any(
        other is index and n <= size and (wraps or not wrapped) for other, n, wrapped in checked
    )


def may_fail(setting: Setting, unit: Unit) -> bool:
    """Whether running a unit can raise: calls, and what checks indices."""
    if unit.kind == "template" and subgraphs(unit.nodes[0]):
        return bodies.can_fail(setting, unit.nodes[0])
    return unit.kind == "call" or any(
        n.record.indexed or can_fail(n.record.name, "int") for n in unit.nodes
    )


def input_places(
    graph: DataflowGraph, examples: Any
) -> tuple[list[PlannedBuffer | None], dict[Value, Place]]:
    """Buffers and places of the graph's inputs."""
    buffers: list[PlannedBuffer | None] = []
    places: dict[Value, Place] = {}
    for i, (value, array) in enumerate(zip(graph.inputs, examples, strict=True)):
        if value.host:
            buffers.append(None)
            continue
        buffer = PlannedBuffer(INPUT, value.spec.dtype, prod(value.spec.shape), i)
        buffers.append(buffer)
        places[value] = array_place(buffer, array)
    return buffers, places


def unpermuted(place: Place, dims: Sequence[int]) -> Place:
    """Where that lies of which a place shows the dimensions in the order `dims`."""
    back = [dims.index(d) for d in range(len(dims))]
    return Place(
        place.buffer,
        tuple(place.shape[d] for d in back),
        tuple(place.strides[d] for d in back),
        place.offset,
    )


def array_place(buffer: PlannedBuffer, array: Any) -> Place:
    """Where the elements of an array lie."""
    item = array.dtype.itemsize
    return Place(buffer, tuple(array.shape), tuple(s // item for s in array.strides))
