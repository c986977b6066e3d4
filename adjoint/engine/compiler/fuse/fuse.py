"""Fusion: which nodes become one kernel.

Note [fusion]
    Nodes are taken in order; each joins the kernel of a producer if it is in step with it (Note
    [atoms]) and no other kernel stands between them. A reduction joins the kernel of what it
    reduces, and elementwise nodes that follow in the reduced or in the full space join too: a norm
    or a softmax is then one kernel of several loops per row. A kernel reduces over one set of
    atoms only.

Note [column sums]
    The derivative of a norm is reduced along rows, that of its weight down columns, of the same
    values. Where a target can do that (`Target.columns`), sums over outer atoms join a kernel that
    reduces over inner ones; nothing in the kernel reads them. They come by parts
    (`lower.legalise`), each of which one program sums up.

Note [state updates]
    What serves only to update state (an optimizer's moments and parameters) does not join a
    reduction: the update of a bias, whose gradient is a sum, would become another kernel than that
    of a weight, and one launch could not do all of a model's parameters.

Note [reach]
    A backward pass reads what the forward pass computed. A node of it that joined the kernel of its
    producer would be computed early and its result be kept, often beside the operand that was to be
    kept instead of it (`passes.recomputation`). With a `reach`, nodes join only kernels that were
    started at most so many templates and calls before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass, field
from math import prod
from typing import Any

from adjoint.engine.compiler.fuse.spaces import (
    Map,
    broadcast,
    flatten,
    fresh,
    settle,
    through,
    unify,
)
from adjoint.engine.compiler.lower.indexed import trailing
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.sizes.extents import typical

POINT, REDUCE, TEMPLATE, CALL, VIEW, FREE = "point", "reduce", "template", "call", "view", "free"
LARGEST = 120  # nodes in one kernel
BY_ONE, MANY = 1 << 14, 128  # elements that one program sums up; programs that are enough
SCATTERED = 1 << 12  # elements from which on sums of columns are worth a kernel of their own
OTHER_ORDER = (
    "reduces over other dimensions, or reads elements in another order, than the "
    "kernel that makes its operand"
)


@dataclass(eq=False, slots=True)
class Unit:
    """What is launched as one: a kernel of fused nodes, a template, or an eager call."""

    kind: str
    index: int
    nodes: list[Node] = field(default_factory=list)
    maps: dict[Value, Map] = field(default_factory=dict)
    atoms: list[Any] = field(default_factory=list)  # of the full space
    reduced: list[Any] | None = None  # the atoms it reduces over
    sources: dict[Node, Map] = field(default_factory=dict)  # a reduction's operand
    columns: list[Any] | None = None  # the outer atoms it also sums over (Note [column sums])
    sums: set[Node] = field(default_factory=set)  # the nodes that do
    reason: str = ""  # why its first node joined no other
    needs: int = 0  # bit mask: units it depends on, directly or not
    epoch: int = 0  # how many templates and calls come before it
    epilogue: Unit | None = None  # of a template: the kernel in its last write (Note [epilogues])
    hidden: Value | None = None  # the template's result, where only its epilogue reads it
    level: int | None = None  # that of its values, if they have one (`Target.level`)

    def full(self) -> set[Any]:
        return set(settle(self.atoms))

    def outer(self) -> set[Any]:
        return self.full() - set(settle(self.reduced or ()))


class Fusion:
    """The units of a graph."""

    def __init__(
        self,
        graph: DataflowGraph,
        kinds: dict[Node, str],
        updates: frozenset[Node] = frozenset(),
        reach: int | None = None,
        columns: int = 0,
        absorbs: bool = False,
        level: Callable[[Value], int | None] = lambda value: None,
        pairs: Set[Node] = frozenset(),
        beside: bool = False,
    ) -> None:
        self.kinds = kinds
        self.level = level
        self.columns = columns  # Note [column sums]
        self.absorbs = absorbs  # kernels that reduce take in elementwise ones they meet
        self.updates = updates  # Note [state updates]
        self.beside = beside  # sums join kernels that read the same (Note [side by side])
        self.pairs = pairs  # what products sum up, over other ranges than what comes before them
        self.reach = reach  # Note [reach]
        self.epoch = 0
        self.units: list[Unit] = []
        self.unit_of: dict[Value, Unit] = {}
        self.roots: dict[Value, tuple[Value, list[Node]]] = {}
        self.fills = {n.outputs[0] for n, kind in kinds.items() if kind == FREE}
        for node in graph:
            kind = kinds[node]
            if kind in (POINT, REDUCE):
                self.add_loop(node, kind)
            elif kind != VIEW and kind != FREE:
                self.start(kind, node)

    # -- units ----------------------------------------------------------------------------------

    def rooted(self, value: Value) -> tuple[Value, list[Node]]:
        """The value that a chain of views looks at, and the chain from it outwards."""
        root = self.roots.get(value)
        if root is None:
            base, views = value, []
            while base.node is not None and self.kinds[base.node] == VIEW:
                views.append(base.node)
                base = base.node.inputs[0]
            root = self.roots[value] = (base, views[::-1])
        return root

    def producers(self, node: Node) -> Iterator[Unit]:
        """Units whose values the node reads."""
        for x in node.inputs:
            if isinstance(x, Value):
                unit = self.unit_of.get(self.rooted(x)[0])
                if unit is not None:
                    yield unit

    def start(self, kind: str, node: Node) -> Unit:
        unit = Unit(kind, len(self.units), epoch=self.epoch)
        self.units.append(unit)
        self.admit(unit, node)
        self.epoch += 1
        return unit

    def admit(self, unit: Unit, node: Node) -> None:
        """Put a node into a unit and bring everyone's dependences up to date."""
        unit.nodes.append(node)
        for value in node.outputs:
            self.unit_of[value] = unit
            unit.level = unit.level if unit.level is not None else self.level(value)
        needs = unit.needs
        for other in self.producers(node):
            if other is not unit:
                needs |= other.needs | 1 << other.index
        if needs != unit.needs:
            unit.needs = needs
            if len(unit.nodes) == 1:
                return  # nobody waits for a new unit
            bit = 1 << unit.index
            for other in self.units:
                if other.needs & bit:
                    other.needs |= needs

    def add_loop(self, node: Node, kind: str) -> None:
        """A node that is a loop: into a producer's kernel, or into one of its own."""
        tried: set[int] = set()
        reason = ""
        for unit in sorted(self.producers(node), key=self.preferred):
            if unit.index in tried:
                continue
            if unit.kind != "loop":
                reason = reason or f"reads the result of {unit.nodes[0].record.name}"
                continue
            tried.add(unit.index)
            obstacle = self.obstacle(unit, node)
            where = None if obstacle else self.fit(unit, node, kind)
            if where is not None:
                unit.maps[node.outputs[0]] = where
                self.admit(unit, node)
                self.absorb(unit, node, kind)
                return
            reason = obstacle or OTHER_ORDER
        if not (self.beside and kind == REDUCE and self.join_reader(node)):
            self.start_loop(node, kind, reason)

    def join_reader(self, node: Node) -> bool:
        """Have a reduction of what lies in memory join a kernel that reads it in step."""
        x = node.inputs[0]
        for unit in reversed(self.units):
            if unit.kind != "loop" or self.obstacle(unit, node):
                continue
            reader = next((n for n in unit.nodes if x in n.inputs and self.is_in_step(n, x)), None)
            source = None if reader is None else unit.maps[reader.outputs[0]]
            if source is None or any(a.free for a in flatten(source)):
                continue
            gone = settle(a for d in node.params["dims"] for a in source[d])
            if unit.reduced is not None and set(settle(unit.reduced)) != set(gone):
                continue
            where = self.reduce(unit, source, node)
            if where is not None:
                unit.maps[node.outputs[0]] = where
                self.admit(unit, node)
                return True
        return False

    def is_in_step(self, node: Node, x: Value) -> bool:
        """Whether a node makes each element of its result of the element of `x` in its place."""
        pointwise = self.kinds[node] == POINT and not node.record.indexed
        known = node.record.family == "elementwise" or node.record.name == "cast"
        return pointwise and known and node.outputs[0].spec.shape == x.spec.shape

    def preferred(self, unit: Unit) -> tuple[bool, int]:
        """The order in which units are tried: late ones first, or those that take in others."""
        return self.absorbs and unit.reduced is None, -unit.index

    def obstacle(self, unit: Unit, node: Node) -> str:
        """Why a node cannot join a kernel, whatever elements it reads; "" if it can."""
        if len(unit.nodes) >= LARGEST:
            return "the kernel before it is as large as kernels get"
        if self.far(unit):
            return "comes long after the kernel that makes its operand"
        if not self.reachable(unit, node):
            return "another step has to run between it and the kernel before it"
        if apart(unit.level, self.level(node.outputs[0])):
            return "comes after a sum over all that the kernel before it makes"
        if node in self.pairs and unit.reduced is not None:
            return "begins a product"
        if node in self.updates and unit.reduced is not None:
            return "an update of state, launched with others of its form"
        if not self.columns and sums_scattered_columns(unit, node):
            return "a sum of columns, which goes row by row by itself"
        if self.reads_any(unit.sums, node):
            return "reads a sum of columns, which is there when the kernel before it is done"
        return ""

    def reads_any(self, makers: Collection[Node], node: Node) -> bool:
        """Whether a node reads what some others make."""
        if not makers:
            return False
        bases = {self.rooted(x)[0] for x in node.inputs if isinstance(x, Value)}
        return any(value in bases for maker in makers for value in maker.outputs)

    def start_loop(self, node: Node, kind: str, reason: str) -> None:
        """A kernel of a node's own."""
        unit = Unit("loop", len(self.units), reason=reason, epoch=self.epoch)
        self.units.append(unit)
        space = fresh((node.outputs if kind == POINT else node.inputs)[0].spec.shape)
        unit.atoms = flatten(space)
        where = space if kind == POINT else self.reduce(unit, space, node)
        assert where is not None  # nothing is reduced yet that it could clash with
        unit.maps[node.outputs[0]] = where
        self.admit(unit, node)

    def far(self, unit: Unit) -> bool:
        """Whether a unit lies too far back to be joined (Note [reach])."""
        return self.reach is not None and self.epoch - unit.epoch > self.reach

    def reachable(self, unit: Unit, node: Node) -> bool:
        """Whether the node can join: nothing it reads from elsewhere waits for the unit."""
        bit = 1 << unit.index
        return not any(u is not unit and u.needs & bit for u in self.producers(node))

    # -- maps -----------------------------------------------------------------------------------

    def operand_maps(self, unit: Unit, node: Node, shape: Any) -> list[Map] | None:
        """Maps, in `shape`, of the operands that the unit itself makes."""
        result: list[Map] = []
        for x in node.inputs:
            if not isinstance(x, Value):
                continue
            base, views = self.rooted(x)
            where = unit.maps.get(base)
            if where is None:
                continue
            if x is node.inputs[0] and node.record.indexed == "read":
                return None  # read at other elements than this one
            shown = through(where, views)
            if shown is None:
                return None
            more = trailing(node, x)
            result.append(broadcast(shown + ((),) * more, x.spec.shape + (1,) * more, shape))
        return result

    def fit(self, unit: Unit, node: Node, kind: str) -> Map | None:
        """Where in the unit's space the node would lie, or None."""
        if kind == REDUCE:
            maps = self.operand_maps(unit, node, node.inputs[0].spec.shape)
            if not maps or any(a.free for a in flatten(maps[0])):
                return None
            return self.reduce(unit, maps[0], node)
        shape = node.outputs[0].spec.shape
        maps = self.operand_maps(unit, node, shape)
        if not maps:
            return None
        where = maps[0]
        for other in maps[1:]:
            if not unify(flatten(where), flatten(other)):
                return None
        atoms = flatten(where)
        free = [a for a in atoms if a.free]
        if free:
            present = set(atoms)
            missing = [a for a in settle(unit.atoms) if a not in present]
            if not unify(missing, free):
                return None
            atoms = flatten(where)
        have = set(atoms)
        if len(have) != len(atoms):
            return None  # a value meets itself along two dimensions
        if have == unit.full() or (unit.reduced is not None and have == unit.outer()):
            return where
        return None

    def reduce(self, unit: Unit, source: Map, node: Node) -> Map | None:
        """The map of a reduction's result, if the unit can reduce over these dimensions."""
        dims = node.params["dims"]
        gone = settle(a for d in dims for a in source[d])
        if set(flatten(source)) != unit.full():
            return None
        if unit.reduced is None:
            unit.reduced = gone
        elif set(settle(unit.reduced)) != set(gone) and not self.turn(unit, source, gone):
            if not self.sums_columns(unit, node, set(gone)):
                return None
            unit.columns = gone
            unit.sums.add(node)
        unit.sources[node] = source
        dims_left = [() if d in dims else dim for d, dim in enumerate(source)]
        if not node.params["keepdim"]:
            dims_left = [dim for d, dim in enumerate(dims_left) if d not in dims]
        return tuple(dims_left)

    def turn(self, unit: Unit, source: Map, gone: list[Any]) -> bool:
        """Have a kernel that sums columns reduce rows instead, and sum the columns besides.

        A norm's derivative by its weight may come before that by its input.
        """
        last = set(settle(source[-1] if source else ()))
        columns = settle(unit.reduced or ())
        if unit.columns is not None or not last <= set(gone) or last & set(columns):
            return False
        sums = list(unit.sources)
        if any(self.reads_any(sums, member) for member in unit.nodes):
            return False
        unit.reduced = gone
        if not all(self.sums_columns(unit, total, set(columns)) for total in sums):
            unit.reduced = columns
            return False
        unit.columns = columns
        unit.sums.update(sums)
        return True

    def sums_columns(self, unit: Unit, node: Node, gone: set[Any]) -> bool:
        """Whether a kernel that reduces rows can also do a sum (Note [column sums])."""
        assert unit.reduced is not None
        inner = settle(unit.reduced)
        atoms = [*unit.full()]
        if not self.columns or node.record.name != "sum" or not gone or gone & set(inner):
            return False
        if node.inputs[0].spec.dtype.name != "float32" or any(
            type(a.size) is not int for a in atoms
        ):
            return False
        if unit.columns is not None and set(settle(unit.columns)) != gone:
            return False
        rows, row = prod(a.size for a in gone), prod(a.size for a in inner)
        parts = prod(a.size for a in atoms) // rows // row
        return row <= self.columns and (rows * row <= BY_ONE or parts >= MANY)

    # -- joining kernels ------------------------------------------------------------------------

    def absorb(self, unit: Unit, node: Node, kind: str) -> None:
        """Join kernels of the node's other operands that are in step with it."""
        if kind == REDUCE or node.record.indexed == "read":
            return
        if unit.reduced is not None and not self.absorbs:
            return
        for other in list(dict.fromkeys(self.producers(node))):
            if other is unit or other.kind != "loop" or other.reduced is not None:
                continue
            if self.far(other) or apart(unit.level, other.level):
                continue
            if len(other.nodes) + len(unit.nodes) > LARGEST:
                continue
            if other.needs >> unit.index & 1 or self.between(other, unit, node):
                continue
            if self.in_step(unit, other, node):
                self.join(unit, other)

    def in_step(self, unit: Unit, other: Unit, node: Node) -> bool:
        """Give all that `unit` reads of `other` the places it has there, if that can be."""
        for member in unit.nodes:
            if member is not node and any(p is other for p in self.producers(member)):
                return False  # it read something at that time, and not in step
        shape = node.outputs[0].spec.shape
        wanted = flatten(unit.maps[node.outputs[0]])
        foreign = frozenset(other.full())
        maps: list[Map] = []
        for x in node.inputs:
            base, views = self.rooted(x) if isinstance(x, Value) else (None, [])
            if base not in other.maps:
                continue
            shown = through(other.maps[base], views)
            if shown is None or set(flatten(shown)) != other.full():
                return False
            theirs = broadcast(shown, x.spec.shape, shape)
            if any(a.free for a in flatten(theirs)):
                return False
            maps.append(theirs)
        # All in one order: then what makes one of them the unit's own makes all.
        if any(flatten(m) != flatten(maps[0]) for m in maps[1:]):
            return False
        return unify(wanted, flatten(maps[0]), foreign)

    def between(self, first: Unit, last: Unit, node: Node) -> bool:
        """Whether a third unit lies on a way from `first` to `last`."""
        bit = 1 << first.index
        for member in last.nodes:
            for unit in self.producers(member):
                if unit is not last and unit is not first and unit.needs & bit:
                    return True
        return False

    def join(self, unit: Unit, other: Unit) -> None:
        """Move everything of `other` into `unit`."""
        unit.nodes = other.nodes + unit.nodes
        unit.maps.update(other.maps)
        for node in other.nodes:
            for value in node.outputs:
                self.unit_of[value] = unit
        gone, bit = 1 << other.index, 1 << unit.index
        unit.needs = (unit.needs | other.needs) & ~gone & ~bit
        unit.level = unit.level if unit.level is not None else other.level
        other.nodes, other.maps, other.kind = [], {}, "gone"
        for third in self.units:
            if third.needs & gone:
                third.needs = (third.needs & ~gone) | bit | unit.needs
            elif third.needs & bit:
                third.needs |= unit.needs


def sums_scattered_columns(unit: Unit, node: Node) -> bool:
    """Whether a kernel that scatters would also sum down columns.

    Each column would then be gone down alone, its elements far apart, where a sum by itself takes
    rows as they lie (a target that has `Target.columns` does so in one kernel).
    """
    if node.record.name != "sum" or all(n.record.name != "scatter" for n in unit.nodes):
        return False
    shape = node.inputs[0].spec.shape
    dims = {d % len(shape) for d in node.params["dims"]}
    return len(shape) - 1 not in dims and prod(map(typical, shape)) >= SCATTERED


def apart(one: int | None, other: int | None) -> bool:
    """Whether two levels are known, and different."""
    return one is not None and other is not None and one != other
