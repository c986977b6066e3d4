"""Sums beside attention's gradients, made by the kernels that make the gradients.

The derivative of attention takes, for each query, the sum of the result times its cotangent. The
kernel of the queries' gradient has both in registers: it is given the result instead.

The bias of the layer that makes queries, keys and values has their gradients' sum over all tokens
as its own. They lie side by side then, and are as much as is read for their sum. Kernels have a
tile of each in registers: they add up its rows, as they are rounded, and few sums are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.backends.triton.templates.attention import (
    BACKWARD,
    RESULT,
    SUMMED,
    can_sum,
    result_of,
    sums_shape,
)
from adjoint.engine.core.dtype import float32
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.rewrite import GraphBuilder


def sum_inside(graph: DataflowGraph, is_ours: Callable[[Node], bool]) -> DataflowGraph:
    """The graph with such sums left to attention's kernels; `is_ours` says where those are ours."""
    ours = {n for n in graph.nodes if n.record.name == BACKWARD and is_ours(n)}
    if not ours:
        return graph
    every = ((node, gradients_of(node)) for node in graph.nodes)
    sums = {node: source for node, source in every if source is not None and source in ours}
    builder = GraphBuilder(graph)
    tiles: dict[Node, Value] = {}  # of attentions whose gradients are added up
    for node in graph.nodes:
        builder.graph.where = node.where
        inputs = builder.translate(node.inputs)
        if node in sums:
            total = builder.emit(REGISTRY["sum"], tiles[sums[node]], dims=(0, 1), keepdim=False)
            spec = node.outputs[0].spec
            if spec.dtype is not float32:
                total = builder.emit(REGISTRY["cast"], total, dtype=spec.dtype)
            builder.replace(node, (builder.emit(REGISTRY["reshape"], total, shape=spec.shape),))
            continue
        params, specs = dict(node.params), [v.spec for v in node.outputs]
        result = result_of(node) if node in ours and node.params["needed"][0] else None
        if result is not None:
            params[RESULT] = True
            inputs = (*inputs[:5], *builder.translate((result,)), *inputs[6:])
        if node in ours and node in sums.values():
            params[SUMMED] = True
            specs.append(Spec(sums_shape(specs[0].shape), float32, specs[0].device))
        if params == node.params:
            builder.keep(node, inputs)
            continue
        made = builder.graph.add_node(node.record, inputs, params, tuple(specs))
        builder.replace(node, tuple(made[: len(node.outputs)]))
        tiles[node] = made[-1]
    return dce(builder.finish(graph))


def gradients_of(node: Node) -> Node | None:
    """The attention whose three gradients, side by side, a node adds up over all tokens."""
    if node.record.name != "sum" or node.params["keepdim"]:
        return None
    x = node.inputs[0]
    if not isinstance(x, Value) or not (x.spec.dtype is float32 or x.spec.dtype.is_half):
        return None
    if tuple(node.params["dims"]) != tuple(range(len(x.spec.shape) - 1)):
        return None
    joined = before(x)
    if joined is None or joined.record.name != "cat" or len(joined.inputs) != 3:
        return None
    whole = joined.outputs[0].spec
    if joined.params["dim"] != len(whole.shape) - 1 or whole.shape[-1:] != x.spec.shape[-1:]:
        return None
    found = [gradient(part) for part in joined.inputs]
    sources = {id(source): source for source, _ in found}
    source = found[0][0]
    if len(sources) != 1 or source is None or [i for _, i in found] != [0, 1, 2]:
        return None
    return source


def before(x: Value) -> Node | None:
    """The node that a value's elements come from, through others that keep their columns."""
    node, dtypes = x.node, {x.spec.dtype}
    while node is not None and node.record.name in ("cast", "reshape"):
        given = node.inputs[0]
        if given.spec.shape[-1:] != node.outputs[0].spec.shape[-1:]:
            return None
        dtypes.add(given.spec.dtype)
        node = given.node
    rounded = node is not None and dtypes - {float32, node.outputs[0].spec.dtype}
    return None if rounded else node


def gradient(part: Any) -> tuple[Node | None, int]:
    """The attention of which a value is a gradient, tokens before heads, and which it is."""
    nothing = (None, -1)
    node = part.node if isinstance(part, Value) else None
    if node is not None and node.record.name == "add" and node.inputs[1:] == (0.0,):
        node = node.inputs[0].node
    if node is None or node.record.name != "reshape":
        return nothing
    turned = node.inputs[0].node
    if turned is None or turned.record.name != "permute":
        return nothing
    x = turned.inputs[0]
    if tuple(turned.params["dims"]) != (0, 2, 1, 3) or x.node is None:
        return nothing
    batch, heads, tokens, size = x.spec.shape
    if node.outputs[0].spec.shape != (batch, tokens, heads * size):
        return nothing
    if x.node.record.name != BACKWARD or not can_sum(x.node):
        return nothing
    return x.node, x.node.outputs.index(x)
