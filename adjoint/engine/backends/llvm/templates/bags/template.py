"""The templates of rows pooled in bags, and of the gradient of sums and means."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.llvm.templates.bags.kernel import MAX, Bags, BagWords
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Address, Launch, Status, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.common.checks import NUMBER

FLOATS = ("float16", "bfloat16", "float32", "float64")
WIDE = ("float32", "float64")  # sums that are kept in memory
PARTS = 8  # of a table that a gradient is dealt out by, at least
STRIP = 64  # columns of a part


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Tables of floats on the CPU, in known sizes; sums of a gradient are not halves."""
    for x in inputs:
        if not isinstance(x, Value) or x.host or x.spec.device.type != "cpu":
            return False
        if any(map(is_extent, x.spec.shape)) or 0 in x.spec.shape:
            return False
    table, *rest = (x.spec for x in inputs)
    kinds = WIDE if "rows" in node.params else FLOATS
    few = node.params.get("rows", table.shape[0]) < 2**31  # numbers of rows are words of 32 bits
    return few and table.dtype.name in kinds and all(x.dtype.name == "int64" for x in rest)


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def address(place: Place) -> Address:
    """Where a place begins."""
    return Address(place.buffer, place.offset * place.buffer.dtype.itemsize)


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; bags are dealt out among the workers, or parts of the table."""
    first, index, begins = operands
    mode, back = node.params["mode"], "rows" in node.params
    table, out = (results[0], first) if back else (first, results[0])
    rows, length = table.shape
    (bags,), (count,) = begins.shape, index.shape
    column_parts = -(-length // STRIP)
    row_parts = min(rows, max(1, PARTS // column_parts))
    dtype = table.buffer.dtype
    words = BagWords(
        table=address(table), index=address(index), begins=address(begins), out=address(out),
        chosen=address(results[1]) if mode == MAX else 0, bags=bags, count=count, length=length,
        rows=rows, status=Status(), row_parts=row_parts, column_parts=column_parts,
        bad_index=Fault(IndexError, f"embedding_bag: index {NUMBER} of {rows} rows"),
        bad_bag=Fault(RuntimeError, f"embedding_bag: a bag begins at {NUMBER} of {count} indices"),
        pieces=row_parts * column_parts if back else bags,
    )  # fmt: skip
    return [
        Launch(
            function=f"bags_{'back_' if back else ''}{mode}_{dtype.name}",
            text=lambda name: Bags(dtype, mode, back).text(name),
            words=words.listed(),
            reads=tuple(whole(place.buffer) for place in operands),
            writes=tuple(whole(place.buffer) for place in results),
            pieces=row_parts * column_parts if back else bags,
            cost=count * (4 * length + 32) * (2 if mode == MAX else 1)
            + (rows * length if back else 0),
            label=sized(node.record.name, bags, count, length),
        )
    ]


TEMPLATES = dict.fromkeys(
    ("embedding_bag", "embedding_bag_max", "embedding_bag_gradient"),
    Template(accepts, packed, steps),
)
