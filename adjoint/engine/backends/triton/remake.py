"""Values that are read again behind a sum over all of them, made anew there instead of kept.

Note [launch levels]
    The statistics of a batch norm are sums over most of a large tensor, which many programs of a
    launch take in parts: what is made of the sums comes in a later launch, that of another *level*,
    and reads what it needs from memory. A value of a lower level is kept for it, or made once more
    from what lies in memory anyway (*anchors*: what templates make and read, inputs and results):
    whichever moves fewer bytes. So a norm's input in halves is read three times, where it would
    otherwise be written and read in float32, and its differences from the mean too.

    Kernels are made of nodes of one level (`Target.level`), and sums come after all else of their
    level, so that one kernel takes all sums of the same values.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.core.dtype import float32
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.recomputation.recompute import Costs, repeatable, work
from adjoint.engine.graph.passes.rewrite import GraphBuilder

LARGE = 1 << 16  # elements: smaller values are read as often as one likes
LONG = 1 << 20  # elements that are summed up in parts
CONE = 24  # nodes that a sum may wait for
KEPT = 2.5  # times a value's bytes: to write and read it, and for the memory it takes meanwhile


Levels = dict[str, int]  # of large values, by name


def remade(graph: DataflowGraph, costs: Costs) -> tuple[DataflowGraph, Levels]:
    """The graph with values made again where that moves fewer bytes, and what is at which level."""
    if not any(map(parts_levels, graph.nodes)):
        return graph, {}
    work = Remaking(graph, costs)
    return dce(work.run()), work.placed


def parts_levels(node: Node) -> bool:
    """Whether a node is a sum of a large value over other dimensions than its last, or all others.

    Sums down columns are part of kernels that reduce rows (Note [column sums], compiler.fuse). A
    sum of which there are many is made by as many programs, and not in parts.
    """
    if not node.record.reduces or not isinstance(node.inputs[0], Value):
        return False
    shape, dims = node.inputs[0].spec.shape, tuple(sorted(node.params["dims"]))
    last = len(shape) - 1
    if prod(node.outputs[0].spec.shape) >= LARGE:
        return False
    return prod(shape) >= LONG and bool(dims) and dims not in ((last,), tuple(range(last)))


def is_large(x: Any) -> bool:
    """Whether an operand takes memory worth a thought."""
    return isinstance(x, Value) and not x.host and prod(x.spec.shape) >= LARGE


def nbytes(x: Value) -> int:
    """What a value takes in memory."""
    return prod(x.spec.shape) * x.spec.dtype.itemsize


class Remaking:
    """Builds the new graph."""

    def __init__(self, graph: DataflowGraph, costs: Costs) -> None:
        self.source, self.costs = graph, costs
        self.builder = GraphBuilder(graph)
        self.levels: dict[Value, int] = {}
        self.copies: dict[tuple[Value, int], Value] = {}
        self.widened: dict[tuple[Value, int, int], Value] = {}
        self.stretch = 0  # how many nodes that are no loops came before
        self.known: dict[tuple[Value, int], float] = {}
        self.placed: Levels = {}
        self.visited: set[Node] = set()
        self.waiting: dict[Value, Node] = {}  # sums, and what small values are made of them
        self.sums: dict[int, list[Node]] = {}  # by their level
        self.anchors = set(map(root, graph.outputs))
        for node in graph.nodes:
            below = [self.levels.get(x, 0) for x in node.inputs if isinstance(x, Value)]
            level = max(below, default=0) + parts_levels(node)
            self.levels.update(dict.fromkeys(node.outputs, level))
            if parts_levels(node):
                self.sums.setdefault(level, []).append(node)
            if not is_loop(node):
                self.anchors.update(root(x) for x in node.inputs if isinstance(x, Value))

    def run(self) -> DataflowGraph:
        for node in self.source.nodes:
            if node in self.visited:
                continue
            waits = any(x in self.waiting for x in node.inputs if isinstance(x, Value))
            small = is_loop(node) and not any(map(is_large, node.outputs))
            if small and (waits or parts_levels(node)):
                self.waiting.update(dict.fromkeys(node.outputs, node))
                continue
            if waits:
                self.flush()
            self.visit(node)
        self.flush()
        return self.builder.finish(self.source)

    def flush(self) -> None:
        """Take over what waits, and before it all other sums that can be made by now."""
        waiting = dict.fromkeys(self.waiting.values())
        levels = {self.levels[node.outputs[0]] for node in waiting if parts_levels(node)}
        sums = [node for level in levels for node in self.sums.get(level, ())]
        for node in sums:
            if node not in self.visited and node not in waiting:
                needed = self.needed(node)
                for waiting_sum in needed[:-1]:
                    self.visit(waiting_sum)
                waiting.update(dict.fromkeys(needed[-1:]))
        for node in waiting:
            self.visit(node)
        self.waiting = {}

    def needed(self, node: Node) -> list[Node]:
        """What a sum waits for, in order, and itself; nothing if that is more than loops."""
        nodes: dict[Node, None] = {}
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [
                x.node
                for x in top.inputs
                if isinstance(x, Value) and x.node is not None
                and x.node not in self.visited and x.node not in nodes
            ]  # fmt: skip
            if len(stack) + len(nodes) > CONE or not is_loop(top) or top in self.waiting.values():
                return []
            if missing:
                stack.append(missing[0])
            else:
                nodes[stack.pop()] = None
        return list(nodes)

    def visit(self, node: Node) -> None:
        """Take a node over, its operands made for its level."""
        self.visited.add(node)
        builder = self.builder
        builder.graph.where = node.where
        inputs = builder.translate(node.inputs)
        level = self.levels[node.outputs[0]]
        if is_loop(node) and not node.record.is_view:
            # A sum is made in the launch of what it sums up.
            at = level - parts_levels(node)
            inputs = tuple(
                self.copied(x, at) if is_large(x) else y
                for x, y in zip(node.inputs, inputs, strict=True)
            )
            self.placed.update((v.name, level) for v in node.outputs if is_large(v))
        elif not is_loop(node):
            self.stretch += 1
        builder.keep(node, inputs)

    def copied(self, x: Value, level: int) -> Value:
        """A value for a reader at a level: itself, or made once more."""
        if widens(x):
            # Readers that no other launch parts do it together, and so are one kernel; others do it
            # again, lest one kernel keeps for another what it widened.
            where = x, level, self.stretch
            if where not in self.widened:
                self.widened[where] = self.emit(x, level)
            return self.widened[where]
        if not self.is_remade(x, level):
            became: Value = self.builder.became.get(x, x)
            return became
        key = x, level
        if key not in self.copies:
            self.copies[key] = self.emit(x, level)
        return self.copies[key]

    def emit(self, x: Value, level: int) -> Value:
        """The node of a value once more, at a level."""
        node = x.node
        assert node is not None
        inputs = tuple(
            self.copied(y, level) if is_large(y) else self.builder.translate((y,))[0]
            for y in node.inputs
        )
        remade_value = self.builder.graph.add_node(
            node.record, inputs, node.params, (x.spec,), node.subgraph
        )[0]
        self.placed[remade_value.name] = level
        return remade_value

    def is_remade(self, x: Value, level: int) -> bool:
        """Whether a value of a lower level is made again; one that is not lies in memory then."""
        if self.levels.get(x, 0) >= level or not self.can_make(x):
            return False
        if root(x) in self.anchors:
            return self.is_of_one(x, level)
        if self.making(x, level) <= KEPT * nbytes(x):
            return True
        self.anchors.add(root(x))
        return False

    def can_make(self, x: Value) -> bool:
        """Whether a value is one of loops alone, and may be made again."""
        return x.node is not None and repeatable(x.node, "balanced")

    def is_of_one(self, x: Value, level: int) -> bool:
        """Whether a value that lies in memory is made of one other, no larger, by little work.

        What is normalised and rectified is read by a convolution; backward, a norm needs its
        operand anyway, and which elements were rectified follows from it.
        """
        pending, sources, work_left = [x], set(), CONE // 2
        while pending:
            node = pending.pop().node
            assert node is not None
            for y in filter(is_large, node.inputs):
                if root(y) in self.anchors or self.levels.get(y, 0) >= level:
                    sources.add(root(y))
                elif not self.can_make(y):
                    return False
                else:
                    pending.append(y)
            work_left -= 1
        large = next(iter(sources), None)
        return len(sources) == 1 and work_left >= 0 and large is not None and (
            nbytes(large) <= nbytes(x) and self.levels.get(large, 0) < level
        )  # fmt: skip

    def making(self, x: Value, level: int) -> float:
        """Bytes that are read when a value is made at a level, computing counted as bytes."""
        node = x.node
        assert node is not None
        cost = 0.0 if node.record.is_view else work(node, self.costs) / self.costs.byte
        return cost + sum(self.asking(y, level) for y in set(filter(is_large, node.inputs)))

    def asking(self, x: Value, level: int) -> float:
        """Bytes that it takes to have a value at a level."""
        if self.levels.get(x, 0) >= level:
            return 0.0
        if root(x) in self.anchors or not self.can_make(x):
            return float(nbytes(x))
        key = x, level
        if key not in self.known:
            self.known[key] = min(KEPT * nbytes(x), self.making(x, level))
        return self.known[key]


def widens(x: Value) -> bool:
    """Whether a value is halves in float32, no more."""
    node = x.node
    if node is None or node.record.name != "cast" or x.spec.dtype is not float32:
        return False
    return bool(node.inputs[0].spec.dtype.is_half)


def root(x: Value) -> Value:
    """The value that a chain of views looks at."""
    while x.node is not None and x.node.record.is_view:
        x = x.node.inputs[0]
    return x


def is_loop(node: Node) -> bool:
    """Whether a node is made by generated loops, or a mere view."""
    record = node.record
    return record.is_view or record.family == "elementwise" or record.pointwise or record.reduces
