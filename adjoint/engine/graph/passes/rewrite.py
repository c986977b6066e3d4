"""What passes are written with: walking a graph and building its successor.

Nodes are never changed once made. A pass gives a new graph that shares the nodes it had nothing
to say about, and whose inputs are the old graph's own: sources and feeds stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.verify import GraphError, as_operand

Visit = Callable[["GraphBuilder", Node, tuple[Any, ...]], "tuple[Value, ...] | None"]


class GraphBuilder:
    """The graph being made, and what the old graph's values have become in it."""

    __slots__ = ("became", "graph")

    def __init__(self, source: DataflowGraph) -> None:
        self.graph = succeed(source)
        self.became: dict[Any, Any] = {}

    def translate(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """A node's inputs in the new graph; the same tuple where none has changed."""
        became = self.became
        for x in inputs:
            if x.__class__ is Value and x in became:
                return tuple([became.get(x, x) if x.__class__ is Value else x for x in inputs])
        return inputs

    def keep(self, node: Node, inputs: tuple[Any, ...]) -> None:
        """Take a node over, with the inputs it has now."""
        if inputs is not node.inputs:
            old = node
            node = Node(old.record, inputs, old.params, old.subgraph)
            node.where = old.where
            node.outputs = tuple([Value(v.name, v.spec, node) for v in old.outputs])
            self.became.update(zip(old.outputs, node.outputs, strict=True))
        self.graph.nodes.append(node)

    def replace(self, node: Node, values: Iterable[Any]) -> None:
        """Let other values stand for a node's outputs."""
        for old, new in zip(node.outputs, values, strict=True):
            if new.spec is not old.spec and new.spec != old.spec:
                raise GraphError(f"{node!r}: {old.spec} was replaced by {new!r}")
            self.became[old] = new

    def emit(self, record: Record, *inputs: Any, **params: Any) -> Value:
        """A new node of one output, its spec inferred."""
        spec = record.infer(*map(as_operand, inputs), **params)
        return self.graph.add_node(record, inputs, params, (spec,))[0]

    def finish(self, source: DataflowGraph) -> DataflowGraph:
        """The new graph, complete."""
        became = self.became
        self.graph.outputs = [became.get(v, v) for v in source.outputs]
        return self.graph


def succeed(source: DataflowGraph) -> DataflowGraph:
    """An empty graph with the inputs of another, whose new names are new in both."""
    graph = DataflowGraph()
    graph.inputs = list(source.inputs)
    graph._count = source._count
    return graph


def rebuild(
    graph: DataflowGraph, visit: Visit, builder: GraphBuilder | None = None
) -> DataflowGraph:
    """The graph in which each node is replaced by what `visit` gives; None keeps it."""
    builder = builder or GraphBuilder(graph)
    for node in graph.nodes:
        builder.graph.where = node.where
        inputs = builder.translate(node.inputs)
        values = visit(builder, node, inputs)
        if values is None:
            builder.keep(node, inputs)
        else:
            builder.replace(node, values)
    return builder.finish(graph)


def spec_of(x: Any) -> Spec | None:
    """The spec of a node's input that is a tensor."""
    return x.spec if x.__class__ is Value and not x.host else None
