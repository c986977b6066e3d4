"""Constant folding: what is made of numbers alone is computed once, now.

Only a result that is again one number throughout becomes a node, `full`; a larger constant would
have to be kept and loaded, where its generator (arange, a comparison of two aranges) costs nothing
in a fused loop. Constants are folded on one element, so sizes do not matter.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.passes.rules.algebra import made_by
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.create.creation import FULL


def fold(graph: DataflowGraph) -> DataflowGraph:
    """The graph with operations on constants replaced by their results."""
    return rebuild(graph, _visit)


def _visit(b: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> tuple[Value, ...] | None:
    record = node.record
    selects = record.selects and not record.indexed  # which may fail
    if not (record.family == "elementwise" or record.name == "cast" or selects):
        return None
    if not inputs or len(node.outputs) != 1 or record.draws:
        return None
    if not all(x.__class__ is not Value or _is_filled(x) for x in inputs):
        return None
    spec = node.outputs[0].spec
    if selects:
        number = inputs[0].node.inputs[0]
    elif any(is_extent(_filling(x)) for x in inputs):
        return None  # another number at another size
    else:
        number = _evaluate(node, inputs)
    return (filled(b, number, spec),)


def _is_filled(x: Value) -> bool:
    return made_by(x, "full") is not None and x.node.inputs[0].__class__ is not Value  # type: ignore[union-attr]


def _filling(x: Any) -> Any:
    """The number that an operand is full of, or is."""
    return x.node.inputs[0] if x.__class__ is Value else x  # type: ignore[union-attr]


def filled(b: GraphBuilder, number: Any, spec: Spec) -> Value:
    """A tensor of one number."""
    shape, dtype, device = spec
    return b.emit(FULL, number, shape=shape, dtype=dtype, device=device, strides=None)


def _evaluate(node: Node, inputs: tuple[Any, ...]) -> Any:
    """The number that an elementwise node makes of the numbers its operands are full of."""
    with CONTEXT.having(capture=None, grad_enabled=False, autocast=None, levels=()):
        operands = [_one_element(x) if x.__class__ is Value else x for x in inputs]
        result = node.record(*operands, **node.params)
    return result.item()


def _one_element(x: Value) -> Any:
    """The tensor's only number in a tensor of the same rank, which promotion looks at."""
    options = dict(x.node.params, shape=(1,) * len(x.spec.shape), strides=None)  # type: ignore[union-attr]
    return FULL(*x.node.inputs, **options)  # type: ignore[union-attr]
