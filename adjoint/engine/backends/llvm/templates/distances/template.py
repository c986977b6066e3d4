"""The template of `pdist`."""

from __future__ import annotations

from math import inf
from typing import Any

from adjoint.engine.backends.llvm.templates.distances.kernel import PairWords, RowPairs
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent

KINDS = {"float32": "f32", "float64": "f64"}
POWERS = (1.0, 2.0, inf)


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Rows of known sizes on the CPU, of no halves, and the norms that take no powers."""
    (x,) = inputs
    return (
        isinstance(x, Value)
        and not x.host
        and x.spec.device.type == "cpu"
        and x.spec.dtype.name in KINDS
        and not any(map(is_extent, x.spec.shape))
        and 0 not in x.spec.shape
        and node.params["p"] in POWERS
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Rows are read as they lie in memory."""
    return set() if layout(inputs[0]).contiguous else {0}


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; rows are dealt out among the workers."""
    rows, out = operands[0], results[0]
    count, length = node.inputs[0].spec.shape
    item = rows.buffer.dtype.itemsize
    kernel = RowPairs(KINDS[rows.buffer.dtype.name], node.params["p"])
    pieces = count // 2
    words = PairWords(
        Address(rows.buffer, rows.offset * item), Address(out.buffer, out.offset * item),
        count=count, length=length, pieces=pieces,
    )  # fmt: skip
    return [
        Launch(
            function=kernel.function,
            text=kernel.text,
            words=words.listed(),
            reads=(whole(rows.buffer),),
            writes=(whole(out.buffer),),
            pieces=pieces,
            cost=count * count * (length + 12),
            label=sized("pdist", count, length),
        )
    ]


TEMPLATES = {"pdist": Template(accepts, packed, steps)}
