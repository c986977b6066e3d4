"""Composites replaced by what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild

Keep = Callable[[Node, tuple[Any, ...]], bool]  # whether a composite stays, with these inputs


def _none(node: Node, inputs: tuple[Any, ...]) -> bool:
    return False


def inline(graph: DataflowGraph, keep: Keep = _none) -> DataflowGraph:
    """The graph with each composite's subgraph in its place, except those to `keep`."""

    def visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Any:
        if node.subgraph is None or node.record.compose is None or keep(node, inputs):
            return None
        return splice(builder.graph, node.subgraph, inputs, keep)

    return rebuild(graph, visit)


def splice(
    target: DataflowGraph, subgraph: DataflowGraph, operands: tuple[Any, ...], keep: Keep = _none
) -> list[Any]:
    """Add the nodes of a subgraph to a graph; what its outputs are there.

    A composite's subgraph has an input per tensor; its other operands are literals inside.
    """
    given = [x for x in operands if x.__class__ is Value]
    became: dict[Any, Any] = dict(zip(subgraph.inputs, given, strict=True))
    for node in subgraph.nodes:
        inputs = tuple([became[x] if x.__class__ is Value else x for x in node.inputs])
        inner = node.subgraph
        outs: Any
        if inner is None or node.record.compose is None or keep(node, inputs):
            specs = tuple([v.spec for v in node.outputs])
            outs = target.add_node(node.record, inputs, node.params, specs, inner)
        else:
            outs = splice(target, inner, inputs, keep)
        became.update(zip(node.outputs, outs, strict=True))
    return [became[v] for v in subgraph.outputs]
