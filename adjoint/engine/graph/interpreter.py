"""The reference interpreter: a graph run node by node through the eager table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.ir import DataflowGraph, Value

# What runs the bodies of a loop or branch: `interpret`, or something that looks on.
Run = Callable[[DataflowGraph, Sequence[Any]], list[Any]]


def evaluate(graph: DataflowGraph, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of the graph in the present context: recorded, transformed, captured as it asks."""
    if len(inputs) != len(graph.inputs):
        raise ValueError(f"the graph takes {len(graph.inputs)} inputs, received {len(inputs)}")
    env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph:
        operands = [env[x] if isinstance(x, Value) else x for x in node.inputs]
        results = node.record(*operands, **node.params)
        many = results if isinstance(results, tuple) else (results,)
        env.update(zip(node.outputs, many, strict=True))
    return [env[v] for v in graph.outputs]


def interpret(graph: DataflowGraph, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of the graph for tensors (and numbers, for host inputs) in the order of inputs."""
    with CONTEXT.having(capture=None, grad_enabled=False, autocast=None, reference=True):
        return evaluate(graph, inputs)
