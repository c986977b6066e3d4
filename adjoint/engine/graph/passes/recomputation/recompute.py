"""Computing again: what it costs, what may be repeated, and graphs in which it is.

What `remat` and `segments` decide with and do; they say which values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.recomputation.lifetimes import Lifetimes
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.graph.remat_strategies import DEFAULT
from adjoint.engine.graph.sizes.extents import typical

NEAR = 3  # a reader at most so many heavy nodes on does not count as late
SMALLEST = 1 << 12  # bytes: smaller values are not worth a node


@dataclass(frozen=True, slots=True)
class Costs:
    """What a machine pays for computing again, in additions an element; the defaults are a CPU's.

    A *meeting* is a node at which large values meet that are kept apart: all of them are read
    again, where one would have been. What a product reads must lie in memory; where it is not to be
    `remade`, it is kept. What is `lying` in memory anyway, for a reader soon, need not be written.
    """

    byte: int = 4  # what keeping one is worth: little more than the memory traffic it takes
    lying: int = 4  # the same, of what is written anyway
    function: int = 16
    draw: int = 16
    meeting: int = 0
    remade: bool = True


CPU = Costs()


@dataclass(slots=True)
class Recomputed:
    """What the pass did: the new graph, and the names of the values that are computed again."""

    graph: DataflowGraph
    strategy: str = DEFAULT
    names: set[str] = field(default_factory=set)

    @property
    def records(self) -> Counter[str]:
        """How often each operation is repeated."""
        return Counter(
            node.record.name
            for node in self.graph
            if node.outputs[0].name in self.names and not node.record.is_view
        )


def work(node: Node, costs: Costs = CPU) -> int:
    """What computing a node again costs; what is cheap counts as one addition."""
    record = node.record
    per = costs.function if record.cost in ("slow", "function") else 1
    if record.draws:
        per = costs.draw
    return per * typical(prod(node.outputs[0].spec.shape))


def repeatable(node: Node, strategy: str) -> bool:
    """Whether a strategy computes a node again."""
    record = node.record
    if record.fails == "divisor" or len(node.outputs) != 1:
        return False
    if record.is_view or record.family == "elementwise" or record.pointwise:
        return True
    return strategy == "memory" and record.reduces


def is_free(node: Node) -> bool:
    """Whether a node costs nothing where its result is used: constants, casts, comparisons."""
    return node.record.is_view or node.record.cost == "free"


def rewritten(
    done: Recomputed,
    lives: Lifetimes,
    again: set[Value],
    late: Callable[[Value, int], bool],
    places: dict[int, list[Node]],
) -> Recomputed:
    """The graph in which readers that are `late` read copies, and the nodes in `places` moved."""
    graph = lives.graph
    result = Recomputed(graph, done.strategy, set(done.names))
    copier = _Copier(GraphBuilder(graph), again, result)
    builder = copier.builder
    moved = {v for nodes in places.values() for node in nodes for v in node.outputs}
    for k, node in enumerate(graph.nodes):
        if node.outputs[0] not in moved:
            inputs = builder.translate(node.inputs)
            for i, x in enumerate(node.inputs):
                if x.__class__ is Value and x in again and late(x, k):
                    inputs = (*inputs[:i], copier.copy(x), *inputs[i + 1 :])
            if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
                inputs = node.inputs
            builder.keep(node, inputs)
        for later in places.get(k, ()):
            builder.keep(later, builder.translate(later.inputs))
    result.graph = dce(builder.finish(graph))
    return result


class _Copier:
    """Makes copies of nodes where they are wanted."""

    def __init__(self, builder: GraphBuilder, again: set[Value], result: Recomputed) -> None:
        self.builder, self.again, self.result = builder, again, result
        self.copies: dict[Value, Value] = {}

    def copy(self, value: Value) -> Value:
        """The copy of a value, made now if there is none."""
        if value not in self.again:
            became: Value = self.builder.became.get(value, value)
            return became
        copy = self.copies.get(value)
        if copy is not None:
            return copy
        stack = [value]  # chains may be long
        while stack:
            v = stack[-1]
            node = v.node
            assert node is not None
            waiting = [
                x
                for x in node.inputs
                if x.__class__ is Value and x in self.again and x not in self.copies
            ]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if v not in self.copies:
                self.copies[v] = self.emit(v, node)
        return self.copies[value]

    def emit(self, value: Value, node: Node) -> Value:
        became = self.builder.became
        inputs: tuple[Any, ...] = tuple(
            self.copies.get(x, became.get(x, x)) if x.__class__ is Value else x for x in node.inputs
        )
        if node.record.is_view and inputs[0] is became.get(node.inputs[0], node.inputs[0]):
            original: Value = became.get(value, value)
            return original  # a view of what is kept
        self.builder.graph.where = node.where
        (copy,) = self.builder.graph.add_node(
            node.record, inputs, node.params, (value.spec,), node.subgraph
        )
        self.result.names.add(copy.name)
        return copy
