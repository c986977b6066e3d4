"""What stands for operations so that kernels of elements can do them.

Operands are spread to the shape of the result, numbers become tensors. Halves are computed in
double precision and rounded once, which is what the eager table does. What is made of numbers
alone is in `compiler.lower.made`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.llvm.templates.elements.template import FUNCTIONS
from adjoint.engine.compiler.lower.made import MADE, to
from adjoint.engine.core.dtype import float64, int64
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.ops.elementwise import records
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.shape.convert import CAST
from adjoint.engine.ops.shape.views import EXPAND

Values = tuple[Value, ...]


def substituted(graph: DataflowGraph) -> DataflowGraph:
    """The graph with operands that the kernels read."""
    wanted = any(node.record.name in FUNCTIONS or node.record in MADE for node in graph.nodes)
    return rebuild(graph, visit) if wanted else graph


def visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """What stands for a node's results; None where it stays."""
    if node.record in MADE:
        return MADE[node.record](builder, node)
    if node.record.name not in FUNCTIONS:
        return None
    out: Spec = node.outputs[0].spec
    if 0 in out.shape or any(is_extent(n) for n in out.shape):
        return None
    # What Hermite polynomials are beyond the range depends on the dtype.
    if out.dtype.is_half and node.record.name.startswith("hermite"):
        return None
    operands = tuple(spread(builder, x, out) for x in inputs)
    if not out.dtype.is_half:
        if operands == inputs:
            return None
        return tuple(builder.graph.add_node(node.record, operands, node.params, (out,)))
    wide = tuple(to(builder, x, float64) if is_half(x) else x for x in operands)
    spec = Spec(out.shape, float64, out.device)
    (result,) = builder.graph.add_node(node.record, wide, node.params, (spec,))
    if node.record.name == "standard_gamma":  # which is at least the least of single precision
        least = float(np.finfo(np.float32).tiny)
        tiny = builder.emit(records.LT, result, least)
        result = builder.emit(WHERE, tiny, least, result)
    return (to(builder, result, out.dtype),)


def is_half(x: Any) -> bool:
    """Whether an operand is a tensor of half precision."""
    return isinstance(x, Value) and x.spec.dtype.is_half


def spread(builder: GraphBuilder, x: Any, out: Spec) -> Any:
    """An operand in the shape of the result; one of a single element as it is."""
    if isinstance(x, (bool, int, float)):
        return builder.emit(
            FULL, float(x), shape=(), dtype=float64, device=out.device, strides=None
        )
    if not isinstance(x, Value) or x.host:
        return x
    if not (x.spec.dtype.is_floating_point or x.spec.dtype is int64):
        x = builder.emit(CAST, x, dtype=int64)
    if prod(x.spec.shape) == 1 or x.spec.shape == out.shape:
        return x
    return builder.emit(EXPAND, x, shape=out.shape)
