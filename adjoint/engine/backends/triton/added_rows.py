"""Rows that are added to zeros, and the whole then to something: added to that at once.

The gradient of an embedding is rows added to zeros. Where a head shares its weights, that is added
to the head's: so the rows are added to those, and no second matrix of that size is made.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.lower.legalise import is_zero
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.rewrite import GraphBuilder


def add_rows(graph: DataflowGraph) -> DataflowGraph:
    """The graph with such sums as one."""
    users: dict[Value, int] = dict.fromkeys(graph.outputs, 2)
    for node in graph.nodes:
        for x in node.inputs:
            if isinstance(x, Value):
                users[x] = users.get(x, 0) + 1
    sums = {node: sides for node in graph.nodes if (sides := of_rows(node, users)) is not None}
    if not sums:
        return graph
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        builder.graph.where = node.where
        if node not in sums:
            builder.keep(node, builder.translate(node.inputs))
            continue
        base, rows = sums[node]
        inputs = builder.translate((base, *rows.inputs[1:]))
        spec = node.outputs[0].spec
        results = builder.graph.add_node(rows.record, inputs, rows.params, (spec,))
        builder.replace(node, tuple(results))
    return dce(builder.finish(graph))


def of_rows(node: Node, users: dict[Value, int]) -> tuple[Value, Node] | None:
    """What rows are added to, and the node that adds them to zeros."""
    if node.record.name != "add" or len(node.inputs) != 2:
        return None
    for x, y in (node.inputs, node.inputs[::-1]):
        if is_rows(y, users) and isinstance(x, Value) and x.spec == y.spec:
            return x, y.node
    return None


def is_rows(x: Any, users: dict[Value, int]) -> bool:
    """Whether a value is rows added to zeros, for one reader."""
    node = x.node if isinstance(x, Value) else None
    if node is None or node.record.name != "index_put" or not node.params["accumulate"]:
        return False
    return users[x] == 1 and x.spec.dtype.name == "float32" and is_zero(node.inputs[0])
