"""What stands for operations on complex matrices: the same on pairs of reals (Note [routines])."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.llvm.ir.machine import is_this_process
from adjoint.engine.backends.llvm.templates.borrowed.template import FACTORS
from adjoint.engine.backends.llvm.templates.lapack.template import METHODS
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.graph.verify import as_operand
from adjoint.engine.ops.linalg.pairs import OF_PAIRS
from adjoint.engine.ops.shape.reinterpret import VIEW_AS_COMPLEX, VIEW_AS_REAL

Values = tuple[Value, ...]


def substituted(graph: DataflowGraph) -> DataflowGraph:
    """The graph without complex matrices to factor."""
    wanted = is_this_process() and any(map(is_complex_problem, graph.nodes))
    return rebuild(graph, visit) if wanted else graph


def is_complex_problem(node: Node) -> bool:
    """Whether a node's matrices are complex, in sizes that are known, and not empty."""
    if node.record.name not in METHODS and node.record.name not in FACTORS:
        return False
    values = [x for x in (*node.inputs, *node.outputs) if isinstance(x, Value) and not x.host]
    return any(x.spec.dtype.is_complex for x in values) and not any(
        n == 0 or is_extent(n) for x in values for n in x.spec.shape
    )


def visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Values | None:
    """What stands for a node's results; None where it stays."""
    if not is_complex_problem(node):
        return None
    pairs = tuple(x.spec.dtype.is_complex for x in inputs)
    given = [
        builder.emit(VIEW_AS_REAL, x) if paired else x
        for x, paired in zip(inputs, pairs, strict=True)
    ]
    record = OF_PAIRS[len(node.outputs)]
    params = {"function": node.record.name, "pairs": pairs, **node.params}
    inferred = record.infer(*map(as_operand, given), **params)
    specs = (inferred,) if isinstance(inferred, Spec) else inferred
    found = builder.graph.add_node(record, tuple(given), params, specs)
    return tuple(
        builder.emit(VIEW_AS_COMPLEX, x) if old.spec.dtype.is_complex else x
        for x, old in zip(found, node.outputs, strict=True)
    )
