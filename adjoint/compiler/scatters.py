"""The template of adding rows at indices: the gradient of an embedding."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.backends.llvm import rows
from adjoint.compiler.copying import copy_step
from adjoint.compiler.indexed import Fault
from adjoint.compiler.places import Place
from adjoint.compiler.steps import Address, Launch, Status, whole
from adjoint.compiler.templates import TEMPLATES, LayoutOf, Template
from adjoint.graph.ir import Node, Value


def accepts(node: Node, inputs: tuple[Any, ...]) -> bool:
    """Rows of a row-major result, by one index along the first dimension."""
    spec = node.outputs[0].spec
    return (
        all(isinstance(x, Value) for x in inputs)
        and spec.device.type == "cpu"
        and spec.dtype.name in rows.ELEMENTS
        and node.params["dims"] == (0,)
        and inputs[2].spec.dtype.name == "int64"
        and (node.params["accumulate"] is True)
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Values and indices are read in row-major order."""
    return {i for i in (1, 2) if not layout(inputs[i]).contiguous}


def steps(node: Node, operands: list[Place], results: list[Place]) -> list[Launch]:
    """The base copied, then the rows added to it."""
    base, values, index = operands
    out = results[0]
    spec = node.outputs[0].spec
    length = prod(spec.shape[1:])
    count = prod(index.shape)
    item = spec.dtype.itemsize
    words: list[Any] = [
        Address(out.buffer, out.offset * item),
        Address(values.buffer, values.offset * item),
        Address(index.buffer, index.offset * 8),
        count, length, spec.shape[0], int(node.params.get("wrap", True)), Status(),
        Fault(
            IndexError if node.params.get("wrap", True) else RuntimeError,
            f"index_put: index is out of bounds for dimension 0 with size {spec.shape[0]}",
        ),
        -(-length // rows.PART),
    ]  # fmt: skip
    launch = Launch(
        function=f"rows_{spec.dtype.name}",
        text=lambda name: (rows.rows_text(name, rows.ELEMENTS[spec.dtype.name]), set()),
        words=words,
        reads=(whole(values.buffer), whole(index.buffer), whole(out.buffer)),
        writes=(whole(out.buffer),),
        pieces=words[-1],
        cost=2.0 * count * length,
        label=f"index_put {count}x{length}",
    )
    return [copy_step(base, out, "index_put"), launch] if base != out else [launch]


TEMPLATES["index_put"] = Template(accepts, packed, steps)
