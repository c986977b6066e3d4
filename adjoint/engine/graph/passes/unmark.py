"""Marks for derivatives taken away: when a graph is executed, they are what they mark."""

from __future__ import annotations

from typing import Any

from adjoint.engine.graph.ir import DataflowGraph, Node
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.ops.common.stop import CUSTOM, STOP


def unmark(graph: DataflowGraph) -> DataflowGraph:
    """The graph without nodes that only say something of its derivative."""

    def visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Any:
        return inputs if node.record is STOP or node.record is CUSTOM else None

    return rebuild(graph, visit)
