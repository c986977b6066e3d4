"""Conversions of what all turns of a loop share, made once before it.

Under autocast a recurrent layer's weight is converted where it is multiplied: inside the loop.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.ops.shape.convert import CAST


def loop_casts(graph: DataflowGraph) -> DataflowGraph:
    """The graph whose scans are given conversions of constants instead of making them."""
    return rebuild(graph, _visit)


def _visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Any:
    if node.record.name != "scan":
        return None
    body, casts = _without_casts(node.params["body"], node.params["carries"] + node.params["xs"])
    if not casts:
        return None
    more = [builder.emit(CAST, inputs[i], dtype=dtype) for i, dtype in casts]
    still = (*node.params["advance"], *[0] * len(casts))
    params = {**node.params, "body": body, "advance": still}
    specs = tuple(v.spec for v in node.outputs)
    return builder.graph.add_node(node.record, (*inputs, *more), params, specs, node.subgraph)


def _without_casts(
    body: DataflowGraph, first: int
) -> tuple[DataflowGraph, list[tuple[int, DType]]]:
    """A body with inputs more for conversions of its constants, and which those are."""
    builder = GraphBuilder(body)
    constants = {v: i for i, v in enumerate(body.inputs) if i >= first and not v.host}
    added: dict[tuple[int, DType], Value] = {}
    for node in body.nodes:
        builder.graph.where = node.where
        inputs = builder.translate(node.inputs)
        at = constants.get(node.inputs[0]) if node.record is CAST else None
        if at is None:
            builder.keep(node, inputs)
            continue
        spec = node.outputs[0].spec
        key = at, spec.dtype
        if key not in added:
            added[key] = builder.graph.add_input(spec)
        builder.replace(node, (added[key],))
    return builder.finish(body), list(added)
