"""Values put side by side that loops read: choices instead of copies.

Note [choices]
    Rotary positions put two halves of a row side by side, one of them negated; the derivative of a
    slice puts zeros beside it. By the template of `cat` that is a copy of each part, and nothing
    before or after it is in the same kernel. Where parts are equally long and only loops read the
    whole, element i of part p is the choice of the p-th: an operation on each element, all of whose
    operands are read at element i. What is small work is done again for that: a part that loops
    make is made where it is read, from what lies in memory. What a product reads lies in memory
    whatever happens: its parts are written side by side by whoever makes them.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.lower.legalise import is_zero
from adjoint.engine.core.dtype import int64
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.spec import is_known
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.recomputation.recompute import repeatable
from adjoint.engine.graph.passes.rewrite import GraphBuilder

PARTS = 4  # that are chosen from at most
WORK = 6  # operations that are done again for a part
View = tuple[str, dict[str, Any]]


def choose_parts(graph: DataflowGraph) -> DataflowGraph:
    """The graph with choices (Note [choices])."""
    if not any(node.record.name == "cat" for node in graph.nodes):
        return graph
    return dce(Choosing(graph).run())


def is_plain_view(node: Node) -> bool:
    """Whether a node is a view of elements as they are."""
    return node.record.is_view and node.record.selects


def is_pointwise(node: Node) -> bool:
    """Whether a node computes each element from the same ones of its operands."""
    return node.record.family == "elementwise" or node.record.name == "cast"


def can_repeat(node: Node) -> bool:
    """Whether a node can be done again for some elements, wherever they are."""
    known = is_pointwise(node) and node.record.name != "bernoulli"  # which is drawn by place
    return known and len(node.outputs) == 1 and repeatable(node, "balanced")


class Choosing:
    """Builds the new graph."""

    def __init__(self, graph: DataflowGraph) -> None:
        self.source, self.builder = graph, GraphBuilder(graph)
        self.readers: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for x in node.inputs:
                if isinstance(x, Value):
                    self.readers.setdefault(x, []).append(node)
        self.handed = set(graph.outputs)

    def run(self) -> DataflowGraph:
        builder = self.builder
        for node in self.source.nodes:
            builder.graph.where = node.where
            if self.is_choice(node):
                builder.replace(node, (self.choice(node),))
            else:
                builder.keep(node, builder.translate(node.inputs))
        return builder.finish(self.source)

    def is_choice(self, node: Node) -> bool:
        """Whether a node joins a few parts of one length, for loops."""
        if node.record.name != "cat" or not 2 <= len(node.inputs) <= PARTS:
            return False
        shapes = {x.spec.shape if isinstance(x, Value) and not x.host else () for x in node.inputs}
        dtypes = {x.spec.dtype for x in node.inputs if isinstance(x, Value)}
        sizes = next(iter(shapes))
        known = len(shapes) == len(dtypes) == 1 and all(map(is_known, sizes))
        return known and 0 not in sizes and self.is_for_loops(node.outputs[0])

    def is_for_loops(self, x: Value) -> bool:
        """Whether only loops read a value, or views of it."""
        readers = self.readers.get(x, [])
        return x not in self.handed and bool(readers) and all(
            (is_pointwise(node) and not self.is_for_a_product(node))
            or (is_plain_view(node) and self.is_for_loops(node.outputs[0]))
            for node in readers
        )  # fmt: skip

    def is_for_a_product(self, node: Node) -> bool:
        """Whether a node widens halves that a product reads as such (Note [narrow products])."""
        if node.record.name != "cast" or not node.inputs[0].spec.dtype.is_half:
            return False
        return self.is_multiplied(node.outputs[0])

    def is_multiplied(self, x: Value) -> bool:
        """Whether a product reads a value, or a view of it."""
        return any(
            node.record.name == "matmul"
            or (is_plain_view(node) and self.is_multiplied(node.outputs[0]))
            for node in self.readers.get(x, [])
        )

    def choice(self, node: Node) -> Value:
        """The choice of a part by the number of each."""
        emit, dim, count = self.builder.emit, node.params["dim"], len(node.inputs)
        shape = node.inputs[0].spec.shape
        one, all_of = ((*shape[:dim], n, *shape[dim:]) for n in (1, count))
        number = emit(
            REGISTRY["arange"], start=0, step=1, length=count, dtype=int64,
            device=node.outputs[0].spec.device,
        )  # fmt: skip
        number = self.shown(number, "reshape", shape=(count, *(1,) * (len(shape) - dim)))
        number = self.shown(number, "expand", shape=all_of)
        views: list[View] = [("reshape", {"shape": one}), ("expand", {"shape": all_of})]
        parts = [self.part(x, views) for x in node.inputs]
        choice = parts[-1]
        for p in reversed(range(count - 1)):
            choice = emit(REGISTRY["where"], emit(REGISTRY["eq"], number, p), parts[p], choice)
        return self.shown(choice, "reshape", shape=node.outputs[0].spec.shape)

    def shown(self, x: Value, name: str, **params: Any) -> Value:
        """A view."""
        return self.builder.emit(REGISTRY[name], x, **params)

    def part(self, x: Value, views: list[View]) -> Any:
        """A part seen through views, made there if loops make it."""
        return 0.0 if is_zero(x) and x.spec.dtype.is_floating_point else self.seen(x, views, [WORK])

    def seen(self, x: Value, views: list[View], left: list[int]) -> Value:
        """A value of the old graph through views, with as much work as is left."""
        node = x.node
        if node is not None and is_plain_view(node) and node.inputs[0].__class__ is Value:
            return self.seen(node.inputs[0], [(node.record.name, node.params), *views], left)
        if node is not None and can_repeat(node) and left[0] > 0:
            left[0] -= 1
            shape = x.spec.shape
            inputs = tuple(
                self.seen(y, [*stretched(y, shape), *views], left)
                if isinstance(y, Value) and not y.host
                else self.builder.translate((y,))[0]
                for y in node.inputs
            )
            return self.builder.emit(node.record, *inputs, **node.params)
        became: Value = self.builder.translate((x,))[0]
        for name, params in views:
            became = self.shown(became, name, **params)
        return became


def stretched(x: Value, shape: tuple[int, ...]) -> list[View]:
    """The view that brings an operand to the shape of its result."""
    return [] if x.spec.shape == shape else [("expand", {"shape": shape})]
