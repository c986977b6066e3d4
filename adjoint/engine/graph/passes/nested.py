"""Passes inside branches and loop bodies."""

from __future__ import annotations

from collections.abc import Callable

from adjoint.engine.graph.ir import DataflowGraph, Node, Value, subgraphs
from adjoint.engine.graph.passes.rewrite import GraphBuilder


def in_subgraphs(
    graph: DataflowGraph, run: Callable[[DataflowGraph], DataflowGraph]
) -> DataflowGraph:
    """The graph with `run` applied to every graph among its nodes' parameters.

    A composite's own subgraph is left: `inline` puts it in place, where the passes see it.
    """
    if not any(subgraphs(node) for node in graph.nodes):
        return graph
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        inputs = builder.translate(node.inputs)
        inner = subgraphs(node)
        if not inner:
            builder.keep(node, inputs)
            continue
        params = node.params | {name: run(body) for name, body in inner.items()}
        new = Node(node.record, inputs, params, node.subgraph)
        new.where = node.where
        new.outputs = tuple([Value(v.name, v.spec, new) for v in node.outputs])
        builder.graph.nodes.append(new)
        builder.replace(node, new.outputs)
    return builder.finish(graph)
