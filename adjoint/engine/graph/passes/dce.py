"""Dead code: nodes that no output depends on are left out.

Outputs are the only effects of a graph: draws of random numbers take seed and offset as inputs, and
what a program writes is among its outputs.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.passes.rewrite import succeed


def dce(graph: DataflowGraph) -> DataflowGraph:
    """The graph without the nodes that nothing uses."""
    used: set[Any] = set(graph.outputs)
    needed_nodes = []
    for node in reversed(graph.nodes):
        for out in node.outputs:
            if out in used:
                needed_nodes.append(node)
                used.update(node.inputs)
                break
    result = succeed(graph)
    result.nodes = needed_nodes[::-1]
    result.outputs = list(graph.outputs)
    return result
