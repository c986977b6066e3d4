"""The template of `searchsorted`."""

from __future__ import annotations

from math import log2, prod
from typing import Any

from adjoint.engine.backends.llvm.templates.searching.kernel import Search, SearchWords
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent

# Whole numbers without a sign are compared otherwise.
KINDS = {
    "float32": "f32", "float64": "f64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
}  # fmt: skip
SHARE = 64  # values that are worth a worker


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """A sequence and values of one dtype, on the CPU and in known sizes."""
    if not all(isinstance(x, Value) and not x.host for x in inputs):
        return False
    sequence, values = (x.spec for x in inputs)
    return (
        sequence.dtype is values.dtype
        and sequence.dtype.name in KINDS
        and sequence.device.type == values.device.type == "cpu"
        and not any(map(is_extent, (*sequence.shape, *values.shape)))
        and 0 not in (*sequence.shape, *values.shape)
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; values are dealt out among the workers."""
    sequence, values = (x.spec for x in node.inputs)
    search = Search(
        KINDS[sequence.dtype.name], bool(node.params["right"]), one=len(sequence.shape) == 1
    )
    count, length = prod(values.shape), sequence.shape[-1]
    sequences, given, out = (
        Address(place.buffer, place.offset * place.buffer.dtype.itemsize)
        for place in (*operands, *results)
    )
    row = values.shape[-1] if values.shape else 1
    words = SearchWords(sequences, given, out, length=length, count=count, row=row)
    return [
        Launch(
            function=search.function,
            text=search.text,
            words=words.listed(),
            reads=tuple(whole(place.buffer) for place in operands),
            writes=(whole(results[0].buffer),),
            pieces=max(1, count // SHARE),
            cost=count * 4 * log2(length + 1),
            label=sized(node.record.name, count, length),
        )
    ]


TEMPLATES = {"searchsorted": Template(accepts, packed, steps)}
