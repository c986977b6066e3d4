"""Searches, choices, ranks and minors as loops of a GPU's kernels.

A search in a sorted sequence is so many steps of reading one element and going on in one half, all
of them in the kernel that reads what is searched for: no launch of its own, and nothing waits.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.triton.minors import are_little, cofactors, determinants
from adjoint.engine.core.dtype import int64
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.graph.forms.searching import multinomial
from adjoint.engine.graph.forms.writing import FormWriter
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder, rebuild
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.common.checks import require
from adjoint.engine.tensor.tensor import Tensor

STEPS = 24  # of a search: the text of a kernel has each of them


def bisected(sequence: Tensor, values: Tensor, right: bool) -> Tensor:
    """The steps of the eager table's `bisect`: each reads what the one before has found."""
    count = int(sequence.shape[-1])
    common = common_dtype((sequence, values))
    sequence, values = sequence.to(common), values.to(common)
    low = values.new_zeros(values.shape, dtype=int64)
    high = values.new_full(values.shape, count, dtype=int64)
    for _ in range(count.bit_length()):
        middle = (low + high) // 2
        at = middle.clamp(0, count - 1)
        found = sequence[at] if sequence.ndim == 1 else sequence.gather(-1, at)
        # Written so that a NaN is passed by, and goes to the end.
        passed = (found > values if right else found >= values).logical_not()
        later = passed & (low < high)
        low, high = (
            (middle + 1).where(later, low),
            high.where(later | (low >= high), middle),
        )
    return low


def ranked(mask: Tensor, leading: int, limit: int) -> Tensor:
    """The eager table's `mask_rank`, which waits for nothing: too many are told later."""
    rows = mask.reshape((*mask.shape[:leading], prod(mask.shape[leading:])))
    count = rows.cumsum(-1)
    wrong = f"number of elements of source ({limit}) < number of ones in mask"
    count = require(count, count <= limit, wrong)
    return (count - 1).clamp(0, max(limit - 1, 0)).reshape(mask.shape)


WRITTEN: dict[str, Any] = {
    "cofactor": cofactors, "det": determinants, "mask_rank": ranked,
    "multinomial": multinomial, "searchsorted": bisected,
}  # fmt: skip


def with_searches(graph: DataflowGraph) -> DataflowGraph:
    """A graph with these written in it: choices search, so they come first."""
    for name in WRITTEN:
        if any(node.record.name == name and is_known(node) for node in graph.nodes):
            graph = written(graph, name)
    return graph


def written(graph: DataflowGraph, name: str) -> DataflowGraph:
    """A graph with all nodes of one name written out."""
    writer = FormWriter(WRITTEN)

    def visit(builder: GraphBuilder, node: Node, inputs: tuple[Any, ...]) -> Any:
        chosen = node.record.name == name and is_known(node)
        return writer.visit(builder, node, inputs) if chosen else None

    return rebuild(graph, visit)


def is_known(node: Node) -> bool:
    """Whether it is known how many steps there are, and they are not too many."""
    if node.record.name in ("cofactor", "det"):
        return are_little(node)
    first = node.inputs[0].spec
    specs = [v.spec for v in (*node.inputs, *node.outputs) if isinstance(v, Value)]
    if first.dtype.is_complex or not first.shape or any(is_extent(n) for n in first.shape):
        return False
    if any(not is_extent(n) and n == 0 for spec in specs for n in spec.shape):
        return False
    return node.record.name == "mask_rank" or int(first.shape[-1]).bit_length() <= STEPS
