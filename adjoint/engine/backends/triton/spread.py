"""Few values that are made of a template's results, made again for each element that they meet.

The variances of a group norm come from a template's last kernel, and the inverse of their roots
would be a launch of its own before the one that multiplies by them: longer than it takes to find
a root for every element, where those are few enough. Roots are found at some 4 T/s on an H200.

In eager mode the same is true of what a program is given: backward, a norm gets the variances.
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

MANY = 8  # times as many elements as there are values
MOST = 1 << 22  # elements: of more, roots take as long as a launch
STEPS = 4  # operations that lead to a value
OWN_STEPS = 8  # the same of what a program of eager mode is given
OPERATIONS = {"add", "cast", "clamp_min", "mul", "neg", "rsqrt", "sqrt", "sub", "reciprocal"}

Steps = dict[Value, int]  # how many operations lead to a value


def spread(graph: DataflowGraph, of_inputs: bool = False) -> DataflowGraph:
    """The graph with such values made where they are read; with those made `of_inputs`."""
    steps: Steps = {}
    most, largest = (OWN_STEPS, size_of_largest(graph)) if of_inputs else (STEPS, 0)
    broad: set[Value] = set()  # made of values of several shapes, as views cannot show them
    if of_inputs:
        steps.update((x, 0) for x in graph.inputs if not x.host and is_few(x, largest))
    for node in graph.nodes:
        if node.record is MOMENTS:
            steps.update((value, 0) for value in node.outputs)
        elif len(node.outputs) == 1 and is_step(node, steps, broad):
            (out,), values = node.outputs, values_of(node)
            if of_inputs and not node.record.is_view and not is_few(out, largest):
                continue
            count = sum(steps[x] for x in values) + (not node.record.is_view)
            if count <= most:
                steps[out] = count
                if any(x in broad or x.spec.shape != out.spec.shape for x in values):
                    broad.update(() if node.record.is_view else (out,))
    if not any(is_made(x, steps) for node in graph.nodes for x in node.inputs):
        return graph
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        builder.graph.where = node.where
        inputs = builder.translate(node.inputs)
        if is_pointwise(node) and node.outputs[0] not in steps:
            shape = node.outputs[0].spec.shape
            inputs = tuple(
                again(builder, x, [], shape) if is_met(x, steps, shape) else y
                for x, y in zip(node.inputs, inputs, strict=True)
            )
        builder.keep(node, inputs)
    return dce(builder.finish(graph))


def size_of_largest(graph: DataflowGraph) -> int:
    """The elements of the largest value whose shape is known."""
    values = (v for node in graph.nodes for v in node.outputs if all(map(is_known, v.spec.shape)))
    return max((prod(v.spec.shape) for v in values), default=0)


def is_few(x: Value, largest: int) -> bool:
    """Whether a value has few elements beside the largest."""
    return all(map(is_known, x.spec.shape)) and MANY * prod(x.spec.shape) <= largest


def values_of(node: Node) -> list[Value]:
    """The operands of a node that lie on the device."""
    return [x for x in node.inputs if isinstance(x, Value) and not x.host]


def is_step(node: Node, steps: Steps, broad: set[Value]) -> bool:
    """Whether a node shows values, or computes them from others and from numbers."""
    values = values_of(node)
    if not values or not all(x in steps for x in values):
        return False
    if node.record.is_view:
        return node.record.selects and values[0] not in broad
    return node.record.name in OPERATIONS


def is_made(x: Any, steps: Steps) -> bool:
    """Whether an operand is computed from what a template makes, or from what is given."""
    return isinstance(x, Value) and steps.get(x, 0) > 0


def is_met(x: Any, steps: Steps, shape: tuple[Any, ...]) -> bool:
    """Whether few such values meet many elements."""
    if not is_made(x, steps):
        return False
    own = few(x)
    if not all(map(is_known, (*shape, *own))):
        return False
    return MANY * max(1, prod(own)) <= prod(shape) <= MOST


def few(x: Value) -> tuple[Any, ...]:
    """The shape that a value was computed in, before views showed it."""
    while x.node is not None and x.node.record.is_view:
        x = x.node.inputs[0]
    return x.spec.shape


View = tuple[Any, dict[str, Any]]  # its record and parameters


def again(builder: GraphBuilder, x: Value, views: list[View], shape: tuple[int, ...]) -> Value:
    """A value, seen through views, for all elements: its parts are shown so, and then computed."""
    node = x.node
    if node is not None and node.record.is_view:
        return again(builder, node.inputs[0], [(node.record, node.params), *views], shape)
    if node is None or node.record is MOMENTS:
        (value,) = builder.translate((x,))
        for record, params in views:
            value = builder.emit(record, value, **params)
        return builder.emit(EXPAND, value, shape=shape)
    inputs = [
        again(builder, y, views, shape)
        if isinstance(y, Value) and not y.host
        else builder.translate((y,))[0]
        for y in node.inputs
    ]
    return builder.emit(node.record, *inputs, **node.params)
