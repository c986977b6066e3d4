"""Few values that are made of a template's results, made again for each element that they meet.

The variances of a group norm come from a template's last kernel, and the inverse of their roots
would be a launch of its own before the one that multiplies by them: longer than it takes to find
a root for every element, where those are few enough. Roots are found at some 4 T/s on an H200.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.triton.choices import is_pointwise
from adjoint.engine.core.spec import is_known
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.ops.nn.normalization import MOMENTS
from adjoint.engine.ops.shape.views import EXPAND

MANY = 16  # times as many elements as there are values
MOST = 1 << 22  # elements: of more, roots take as long as a launch
STEPS = 4  # operations that lead to a value
OPERATIONS = {"add", "clamp_min", "mul", "rsqrt", "sqrt", "reciprocal"}  # of a value and numbers


def spread(graph: DataflowGraph) -> DataflowGraph:
    """The graph with such values made where they are read."""
    chains: dict[Any, list[Node]] = {}  # from what a template makes to the value
    for node in graph.nodes:
        if node.record is MOMENTS:
            chains.update((value, []) for value in node.outputs)
        elif len(node.outputs) == 1 and is_of(first := next(iter(node.inputs), None), chains):
            chain = chains[first]
            if is_step(node) and sum(not each.record.is_view for each in chain) < STEPS:
                chains[node.outputs[0]] = [*chain, node]
    if not any(made_of_some(x, chains) for node in graph.nodes for x in node.inputs):
        return graph
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        builder.graph.where = node.where
        inputs = builder.translate(node.inputs)
        if is_pointwise(node) and node.outputs[0] not in chains:
            shape = node.outputs[0].spec.shape
            inputs = tuple(
                again(builder, chains[x], shape) if is_met(x, chains, shape) else y
                for x, y in zip(node.inputs, inputs, strict=True)
            )
        builder.keep(node, inputs)
    return dce(builder.finish(graph))


def is_step(node: Node) -> bool:
    """Whether a node shows values, or computes each from one and from numbers."""
    if node.record.is_view:
        return node.record.selects
    return node.record.name in OPERATIONS and not any(isinstance(x, Value) for x in node.inputs[1:])


def is_of(x: Any, chains: dict[Any, list[Node]]) -> bool:
    """Whether an operand is what a template makes, or leads on from there."""
    return isinstance(x, Value) and x in chains


def made_of_some(x: Any, chains: dict[Any, list[Node]]) -> bool:
    """Whether an operand is computed from what a template makes."""
    return is_of(x, chains) and any(not node.record.is_view for node in chains[x])


def is_met(x: Any, chains: dict[Any, list[Node]], shape: tuple[Any, ...]) -> bool:
    """Whether few such values meet many elements."""
    if not made_of_some(x, chains):
        return False
    own = min((node.outputs[0].spec.shape for node in chains[x]), key=prod)
    if not all(map(is_known, (*shape, *own))):
        return False
    return MANY * max(1, prod(own)) <= prod(shape) <= MOST


def again(builder: GraphBuilder, chain: list[Node], shape: tuple[Any, ...]) -> Value:
    """A value for all elements: it is shown as it will be, and then computed."""
    (value,) = builder.translate((chain[0].inputs[0],))
    for node in chain:
        if node.record.is_view:
            value = builder.emit(node.record, value, **node.params)
    value = builder.emit(EXPAND, value, shape=shape)
    for node in chain:
        if not node.record.is_view:
            value = builder.emit(node.record, value, *node.inputs[1:], **node.params)
    return value
