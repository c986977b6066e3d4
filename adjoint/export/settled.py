"""Operations without operands, whose results a program may hold: computed before C is written.

Sequences and indices of a fixed size have no kernels of their own; as state they need none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from adjoint.engine.core.spec import has_symbols
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.record.sources import State
from adjoint.engine.tensor.tensor import Tensor

SETTLED = frozenset({"linspace", "logspace", "triangle_indices"})


def _is_settled(node: Node) -> bool:
    symbols = has_symbols(node.inputs) or has_symbols(node.params)
    operands = any(isinstance(x, Value) for x in node.inputs)
    return node.record.name in SETTLED and not symbols and not operands


def with_settled(task: Task) -> Task:
    """The task with such results among its inputs, as constants that it reached by itself."""
    nodes = [node for node in task.graph.nodes if _is_settled(node)]
    sizing = task.sizing
    if not nodes or (sizing is not None and _count(sizing.graph) != len(nodes)):
        return task
    tensors = [tensor for node in nodes for tensor in _results(node)]
    return replace(
        task,
        graph=_without(task.graph),
        sources=(*task.sources, *(State(tensor._storage) for tensor in tensors)),
        examples=(*task.examples, *(np.asarray(tensor.numpy()) for tensor in tensors)),
        sizing=None if sizing is None else replace(sizing, graph=_without(sizing.graph)),
    )


def _count(graph: DataflowGraph) -> int:
    return sum(map(_is_settled, graph.nodes))


def _results(node: Node) -> tuple[Tensor, ...]:
    with CONTEXT.having(capture=None, grad_enabled=False):
        results: Any = node.record(*node.inputs, **node.params)
    return results if isinstance(results, tuple) else (results,)


def _without(graph: DataflowGraph) -> DataflowGraph:
    """A graph in which the results of settled nodes are inputs, behind the others."""
    smaller = DataflowGraph()
    new: dict[Any, Any] = {}
    for value in graph.inputs:
        new[value] = smaller.add_input(value.spec, host=value.host)
    for node in filter(_is_settled, graph.nodes):
        for value in node.outputs:
            new[value] = smaller.add_input(value.spec)
    for node in graph.nodes:
        if not _is_settled(node):
            smaller.where = node.where
            specs = [tuple(value.spec for value in node.outputs)]
            smaller.add_again([node], specs, new)
    smaller.outputs = [new[value] for value in graph.outputs]
    return smaller
