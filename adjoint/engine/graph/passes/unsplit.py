"""Unsplit: sums of slices put into zeros, the gradient of a split, become one concatenation.

The gradient of x[:, a:b] is zeros with g put at a:b. Where x was split, several such are added;
no two overlap, so their sum is what lies in them, side by side. A -0.0 in g met the zeros of the
others and is 0.0 in the sum: 0.0 is added to what may hold one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.passes.rules.algebra import never_negative_zero
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.ops.elementwise.arithmetic import ADD
from adjoint.engine.ops.shape.join import CAT

Part = tuple[int, int, Value]  # start, stop, what lies there


def unsplit(graph: DataflowGraph) -> DataflowGraph:
    """The graph with slices put into zeros, and their sums, as concatenations."""
    parts: dict[Value, tuple[int, list[Part]]] = {}  # value -> (dimension, what lies where)

    def visit(
        builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]
    ) -> tuple[Value, ...] | None:
        out = node.outputs[0] if node.outputs else None
        if node.record.name == "view_scatter":
            pieces = _padded(node, inputs)
        elif node.record.name == "add" and len(inputs) == 2:
            pieces = _together(builder, parts.get(inputs[0]), parts.get(inputs[1]))
        else:
            return None
        if pieces is None or out is None:
            return None
        joined = _join(builder, out, *pieces)
        parts[joined] = pieces
        return (joined,)

    return rebuild(graph, visit)


def _padded(node: Node, inputs: tuple[Any, ...]) -> tuple[int, list[Part]] | None:
    """A slice along one dimension put into zeros."""
    base, value = inputs[0], inputs[1]
    chain = node.params["chain"]
    zeros = base.node
    if zeros is None or zeros.record is not FULL or len(chain) != 1:
        return None
    fill = zeros.inputs[0]
    if isinstance(fill, Value) or fill != 0:
        return None
    record, params = chain[0]
    if record.name != "slice" or len(params["index"]) != base.spec.ndim:
        return None
    dim = -1
    for d, (entry, size) in enumerate(zip(params["index"], base.spec.shape, strict=True)):
        if entry == (0, size, 1):
            continue
        if dim >= 0 or not isinstance(entry, tuple) or entry[2] != 1:
            return None
        dim = d
    if dim < 0:
        return None
    start, stop, _ = params["index"][dim]
    return dim, [(start, stop, value)]


def _together(builder: GraphBuilder, a: Any, b: Any) -> tuple[int, list[Part]] | None:
    if a is None or b is None or a[0] != b[0]:
        return None
    parts = sorted([*a[1], *b[1]], key=lambda p: p[:2])
    if any(x[1] > y[0] for x, y in pairwise(parts)):
        return None
    return a[0], [(start, stop, _added(builder, x)) for start, stop, x in parts]


def _added(builder: GraphBuilder, x: Value) -> Value:
    """What x is once zeros were added to it."""
    if not x.spec.dtype.is_inexact or _begins_with_zero(x):
        return x
    return builder.emit(ADD, x, 0.0)


def _begins_with_zero(x: Value) -> bool:
    """Whether x holds no -0.0, by what it is: products, too, are sums that begin with 0.0."""
    seen = x
    while seen.node is not None and seen.node.record.is_view:
        seen = seen.node.inputs[0]
    maker = seen.node
    return (maker is not None and maker.record.name == "matmul") or never_negative_zero(x)


def _join(builder: GraphBuilder, out: Value, dim: int, parts: list[Part]) -> Value:
    """The concatenation, gaps filled with zeros."""
    shape, pieces, at = out.spec.shape, [], 0
    for start, stop, value in [*parts, (shape[dim], shape[dim], None)]:
        if start > at:
            gap = (*shape[:dim], start - at, *shape[dim + 1 :])
            pieces.append(
                builder.emit(FULL, 0, shape=gap, dtype=out.spec.dtype, device=out.spec.device)
            )
        if value is not None:
            pieces.append(value)
        at = stop
    return builder.emit(CAT, *pieces, dim=dim) if len(pieces) > 1 else pieces[0]
