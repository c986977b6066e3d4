"""Sums over more dimensions made of sums over fewer.

Where a value is summed over some dimensions, its sum over those and others too is the sum of that:
the derivative of a group norm by its weight sums what the derivative by its input has summed.
"""

from __future__ import annotations

from collections import defaultdict

from adjoint.engine.core.operations.reductions import reduced_shape
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.ops.reduce.reduction import SUM
from adjoint.engine.ops.shape.views import RESHAPE

Dims = tuple[int, ...]


def share_sums(graph: DataflowGraph) -> DataflowGraph:
    """The graph in which no sum begins anew what another has summed in part."""
    sums: dict[Value, dict[Dims, bool]] = defaultdict(dict)  # of a value: dimensions, keepdim
    for node in graph.nodes:
        if is_shared(node):
            sums[node.inputs[0]].setdefault(node.params["dims"], node.params["keepdim"])
    if all(len(over) < 2 for over in sums.values()):
        return graph
    builder = GraphBuilder(graph)
    made: dict[tuple[Value, Dims, bool], Value] = {}

    def summed(value: Value, dims: Dims, keepdim: bool) -> Value:
        """The sum of a value of the old graph, made of another one if there is one."""
        key = (value, dims, keepdim)
        if key not in made:
            part = largest_part(dims, sums[value])
            if part is None:
                now = builder.became.get(value, value)
                made[key] = builder.emit(SUM, now, dims=dims, keepdim=keepdim)
            else:
                kept = sums[value][part]
                left = [d for d in dims if d not in part]
                rest = left if kept else [d - sum(p < d for p in part) for d in left]
                out = builder.emit(SUM, summed(value, part, kept), dims=tuple(rest), keepdim=False)
                shape = reduced_shape(value.spec.shape, dims, keepdim)
                made[key] = builder.emit(RESHAPE, out, shape=shape) if kept or keepdim else out
        return made[key]

    for node in graph.nodes:
        builder.graph.where = node.where
        if is_shared(node) and len(sums[node.inputs[0]]) > 1:
            builder.replace(node, (summed(node.inputs[0], **node.params),))
        else:
            builder.keep(node, builder.translate(node.inputs))
    return builder.finish(graph)


def is_shared(node: Node) -> bool:
    """Whether a node sums numbers that are as exact as their sums (halves round in between)."""
    if node.record is not SUM or not isinstance(node.inputs[0], Value):
        return False
    dtype = node.inputs[0].spec.dtype
    return dtype is node.outputs[0].spec.dtype and not dtype.is_half and len(node.params) == 2


def largest_part(dims: Dims, others: dict[Dims, bool]) -> Dims | None:
    """The most of these dimensions that another sum is over, if one is over some of them only."""
    inside = [o for o in others if o and len(o) < len(dims) and set(o) <= set(dims)]
    return max(inside, key=len, default=None)
