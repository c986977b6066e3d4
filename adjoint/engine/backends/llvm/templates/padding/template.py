"""The template of padding with a constant."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.array.dtypes import bits_in
from adjoint.engine.backends.llvm.templates.padding.kernel import OUTER, Padding, PadWords
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_undecided

CONSTANT_PAD = "constant_pad"  # the composite
KEPT_WHOLE = (CONSTANT_PAD,)
KINDS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
# Of a dimension: the source's size, how much is added before and after, how far elements lie apart.
Dimension = tuple[int, int, int, int]


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Elements of at most eight bytes on the CPU, in known sizes."""
    (x,) = inputs
    if not isinstance(x, Value) or x.host or x.spec.device.type != "cpu":
        return False
    shape, out = x.spec.shape, node.outputs[0].spec.shape
    known = not any(map(is_undecided, (*shape, *out))) and 0 not in (*shape, *out)
    return known and x.spec.dtype.itemsize in KINDS and len(merged(shape, None, node)) <= OUTER + 1


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Rows are read as they lie in memory."""
    place = layout(inputs[0])
    return set() if place.contiguous else {0}


def merged(shape: tuple[int, ...], strides: tuple[int, ...] | None, node: Node) -> list[Dimension]:
    """Dimensions that are padded, each with those after it that are not."""
    apart = strides or tuple([prod(shape[d + 1 :]) for d in range(len(shape))])
    dims: list[Dimension] = []
    for n, (before, after), step in zip(shape, node.params["widths"], apart, strict=True):
        if dims and not before and not after and dims[-1][3] == n * step:
            size, first, last, _ = dims[-1]
            dims[-1] = (size * n, first * n, last * n, step)
        else:
            dims.append((n, before, after, step))
    return dims or [(1, 0, 0, 1)]


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; rows are dealt out among the workers."""
    (source,), (out,) = operands, results
    spec, item = node.inputs[0].spec, node.inputs[0].spec.dtype.itemsize
    *outer, (n, before, after, _) = merged(spec.shape, source.strides, node)
    outer.reverse()
    sizes = [size + a + b for size, a, b, _ in outer]
    # What is cut off the beginning of each dimension is left out at once.
    cut = max(-before, 0) + sum(max(-a, 0) * step for _, a, _, step in outer)
    length, count = n + before + after, prod(sizes)
    nothing = [0] * (OUTER - len(outer))
    words = PadWords(
        source=Address(source.buffer, (source.offset + cut) * item),
        out=Address(out.buffer, out.offset * item),
        value=bits_in(spec.dtype, node.params["value"]),
        rows=count, before=max(before, 0), kept=n + min(before, 0) + min(after, 0),
        after=max(after, 0),
        sizes=[*sizes, *nothing],
        starts=[*[max(a, 0) for _, a, _, _ in outer], *nothing],
        counts=[*[size + min(a, 0) + min(b, 0) for size, a, b, _ in outer], *nothing],
        steps=[*[step for *_, step in outer], *nothing],
    )  # fmt: skip
    kernel = Padding(KINDS[item], len(outer))
    return [
        Launch(
            function=kernel.function,
            text=kernel.text,
            words=words.listed(),
            reads=(whole(source.buffer),),
            writes=(whole(out.buffer),),
            pieces=count,
            cost=count * (length * item / 4 + 128),
            label=sized(CONSTANT_PAD, count, length),
        )
    ]


TEMPLATES = {CONSTANT_PAD: Template(accepts, packed, steps)}
