"""Products of halves that were written in float32, as products of halves.

Note [narrow products]
    Operations on halves round once, at the end: their products are of float32 operands that were
    halves. Tensor cores multiply halves and add up in float32, which is the same sum. So a product
    whose operands are all halves in float32 becomes one of the halves with a result in float32,
    or in halves, where nothing but a cast to them reads it. A factor that is a power of two does
    not round a bfloat16, and moves to the operand.
"""

from __future__ import annotations

from math import frexp
from typing import Any

from adjoint.engine.backends.triton.templates.attention import BACKWARD
from adjoint.engine.core.dtype import DType, bfloat16, float32
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.rewrite import GraphBuilder

VIEWS = {"reshape", "permute", "expand", "slice"}
SMALL, LARGE = 2.0**-16, 2.0**16  # factors that lose nothing of a bfloat16 worth having


def narrow(graph: DataflowGraph) -> DataflowGraph:
    """The graph with products of halves as such."""
    return dce(Narrowing(graph).run())


class Narrowing:
    """Builds the new graph."""

    def __init__(self, graph: DataflowGraph) -> None:
        self.source = graph
        self.builder = GraphBuilder(graph)
        self.users: dict[Value, int] = {}
        for node in graph.nodes:
            for x in node.inputs:
                if isinstance(x, Value):
                    self.users[x] = self.users.get(x, 0) + 1
        for value in graph.outputs:
            self.users[value] = self.users.get(value, 0) + 2
        self.narrowed: set[Value] = set()

    def run(self) -> DataflowGraph:
        builder = self.builder
        for node in self.source.nodes:
            builder.graph.where = node.where
            inputs = builder.translate(node.inputs)
            values = self.visit(node, inputs)
            if values is None:
                builder.keep(node, inputs)
            else:
                builder.replace(node, values)
        return builder.finish(self.source)

    def visit(self, node: Node, inputs: tuple[Any, ...]) -> tuple[Value, ...] | None:
        name = node.record.name
        if name == "matmul" and node.outputs[0].spec.dtype is float32:
            return self.product(node, inputs)
        if name == BACKWARD and half_of(inputs[4]) is inputs[0].spec.dtype:
            given = (*inputs[:4], self.half(inputs[4]), *inputs[5:])
            specs = tuple(v.spec for v in node.outputs)
            return self.builder.graph.add_node(node.record, given, node.params, specs)
        if name == "cast" and node.outputs[0].spec.dtype.is_half:
            made = self.result(node.inputs[0], inputs[0], node.outputs[0].spec.dtype)
            return None if made is None else (made,)
        return None

    def product(self, node: Node, inputs: tuple[Any, ...]) -> tuple[Value, ...] | None:
        """A product in float32 of what were halves."""
        dtypes = {half_of(x) for x in inputs}
        if len(dtypes) != 1 or None in dtypes:
            return None
        halves = tuple(self.half(x) for x in inputs)
        made = self.builder.graph.add_node(
            node.record, halves, node.params, (node.outputs[0].spec,)
        )
        self.narrowed.add(made[0])
        return tuple(made)

    def half(self, x: Value) -> Value:
        """The half that a float32 was (`half_of` says that it was one)."""
        node = x.node
        assert node is not None
        if node.record.name == "cast":
            return node.inputs[0]
        if node.record.name == "mul":
            y, factor = factored(node)
            return self.builder.emit(node.record, self.half(y), factor)
        return self.builder.emit(node.record, self.half(node.inputs[0]), **node.params)

    def result(self, old: Value, x: Value, dtype: DType) -> Value | None:
        """A product's result as a half, where nothing else reads it."""
        if self.users.get(old, 0) != 1 or x.node is None or old.node is None:
            return None
        node = x.node
        if x in self.narrowed:
            if node.inputs[0].spec.dtype is not dtype:
                return None
            spec = Spec(x.spec.shape, dtype, x.spec.device)
            return self.builder.graph.add_node(node.record, node.inputs, node.params, (spec,))[0]
        if node.record.name not in VIEWS:
            return None
        inner = self.result(old.node.inputs[0], node.inputs[0], dtype)
        return None if inner is None else self.builder.emit(node.record, inner, **node.params)


def half_of(x: Any) -> DType | None:
    """The dtype of the half that a float32 is no more than."""
    node = x.node if isinstance(x, Value) else None
    if node is None:
        return None
    if node.record.name == "cast":
        dtype: DType = node.inputs[0].spec.dtype
        return dtype if dtype.is_half and x.spec.dtype is float32 else None
    if node.record.name in VIEWS:
        return half_of(node.inputs[0])
    if node.record.name == "mul":
        y, factor = factored(node)
        exact = (
            factor is not None and frexp(abs(factor))[0] == 0.5 and SMALL <= abs(factor) <= LARGE
        )
        return bfloat16 if exact and half_of(y) is bfloat16 else None
    return None


def factored(node: Node) -> tuple[Any, float | None]:
    """A product's tensor, and the number it is multiplied by."""
    x, y = node.inputs
    if isinstance(x, (int, float)):
        x, y = y, x
    plain = isinstance(x, Value) and not x.host and isinstance(y, (int, float)) and y == y and y
    return (x, float(y)) if plain and abs(y) != float("inf") else (x, None)
