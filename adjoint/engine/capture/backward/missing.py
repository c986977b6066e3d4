"""Backward graphs where some results have no cotangent, because nobody used them.

A zero in place of a cotangent that is not there would do harm: times an infinite slope (of a
logarithm at 0, say) it is NaN, where eager execution never comes. Backward graphs are linear in
their cotangents, so whatever is made of missing ones alone is left out and is zero.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.ops.create.creation import FULL


def without(graph: DataflowGraph, count: int, given: frozenset[int]) -> DataflowGraph:
    """The graph of `count` cotangents, its first inputs, of which only some are given."""
    live = {graph.inputs[i] for i in given}
    absent = {x for i, x in enumerate(graph.inputs[:count]) if i not in given}

    def visit(b: GraphBuilder, node: Node, inputs: Any) -> tuple[Value, ...] | None:
        operands = [x for x in node.inputs if x.__class__ is Value]
        if any(x in live for x in operands):
            live.update(node.outputs)
            return None
        inexact = all(out.spec.dtype.is_inexact for out in node.outputs)  # a comparison is not
        if not inexact or not any(x in absent for x in operands):
            return None
        absent.update(node.outputs)
        return tuple(
            b.emit(FULL, 0, shape=x.spec.shape, dtype=x.spec.dtype, device=x.spec.device)
            for x in node.outputs
        )

    return rebuild(graph, visit)
