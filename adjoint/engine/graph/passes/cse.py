"""Common subexpressions: of equal nodes on equal inputs, the first serves for all.

Random draws are functions of seed and offset like any other, so two of them are shared only where
both are given the very same numbers.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.graph.ir import DataflowGraph, Node, Value, frozen
from adjoint.engine.graph.passes.rewrite import GraphBuilder


def key_of(node: Node, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What makes two nodes the same computation; a composite is what its record says."""
    apart = 0 if node.subgraph is None or node.record.compose is not None else id(node.subgraph)
    operands = [x if x.__class__ is Value else frozen(x) for x in inputs]
    options = [(k, frozen(v)) for k, v in node.params.items()] if node.params else ()
    return (node.record.name, apart, *operands, None, *options)


def cse(graph: DataflowGraph) -> DataflowGraph:
    """The graph in which equal computations are done once."""
    builder = GraphBuilder(graph)
    became = builder.became
    seen: dict[Any, tuple[Value, ...]] = {}
    for node in graph.nodes:
        inputs = builder.translate(node.inputs)
        key = key_of(node, inputs)
        try:
            equal = seen.get(key)
        except TypeError:  # a parameter that cannot be hashed cannot be compared
            builder.keep(node, inputs)
            continue
        if equal is not None:
            builder.replace(node, equal)
            continue
        builder.keep(node, inputs)
        seen[key] = tuple([became.get(v, v) for v in node.outputs])
    return builder.finish(graph)
