"""Layout: values have no strides of their own in a program, so nothing is copied for strides' sake.

Copies go, because a value cannot be written to. A product that is only looked at transposed is
computed transposed: (A B)' = B' A' costs nothing, since products read their operands either way.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.ops.products.matmul import MATMUL
from adjoint.engine.ops.shape.views import PERMUTE


def swaps_last(dims: tuple[int, ...]) -> bool:
    """Whether a permutation exchanges the last two dimensions and nothing else."""
    n = len(dims)
    return n >= 2 and dims == (*range(n - 2), n - 1, n - 2)


def layout(graph: DataflowGraph) -> DataflowGraph:
    """The graph without copies, with products oriented as they are used."""
    graph = rebuild(graph, _without_copies)
    uses: Counter[Value] = Counter(graph.outputs)
    for node in graph.nodes:
        uses.update(x for x in node.inputs if x.__class__ is Value)

    def orient(
        builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]
    ) -> tuple[Value, ...] | None:
        if node.record is not PERMUTE or not swaps_last(node.params["dims"]):
            return None
        product = inputs[0].node
        if product is None or product.record is not MATMUL or uses[node.inputs[0]] != 1:
            return None
        a, b = product.inputs
        return (builder.emit(MATMUL, *(_transposed(builder, x) for x in (b, a))),)

    return rebuild(graph, orient)


def _without_copies(
    builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]
) -> tuple[Value, ...] | None:
    return (inputs[0],) if node.record.name == "clone" else None


def _transposed(builder: GraphBuilder, x: Value) -> Value:
    permute = x.node
    if permute is not None and permute.record is PERMUTE and swaps_last(permute.params["dims"]):
        back: Value = permute.inputs[0]
        return back
    rank = x.spec.ndim
    return builder.emit(PERMUTE, x, dims=(*range(rank - 2), rank - 1, rank - 2))
