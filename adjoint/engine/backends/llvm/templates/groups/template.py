"""The template of a few rows times a weight in groups; more rows are multiplied as floats."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.windowed import address, parts_of
from adjoint.engine.backends.llvm.templates.groups import dotted
from adjoint.engine.backends.llvm.templates.groups.dotted import MadeWords, PlaneWords, by_dots
from adjoint.engine.backends.llvm.templates.groups.kernel import (
    LANES,
    GroupedForm,
    GroupedWords,
    groups_text,
)
from adjoint.engine.backends.llvm.templates.integers.dots import Dot, host_dot
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template, knows_all
from adjoint.engine.core.dtype import int8, int32
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import computed, typical

FEW = 4  # rows up to which reading the weight takes the time
PIECES = 16
WORTH = 64 * 1024  # multiply-adds that a piece has at least
KINDS = {"uint8": "u8", "int8": "i8", "float32": "f32"}


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """A few rows of float32, and groups of whole vectors."""
    if not all(isinstance(x, Value) for x in inputs) or not knows_all(setting, node, inputs):
        return False
    x, _, scale, *rest = inputs
    zero, bias = _parts(node, rest)
    floats = [x, scale, *bias]
    return (
        typical(prod(x.spec.shape[:-1])) <= FEW
        and node.params["group"] % LANES == 0
        and all(v.spec.dtype.name == "float32" for v in floats)
        and all(v.spec.dtype.name in KINDS for v in zero)
    )


def _parts(node: Node, rest: Any) -> tuple[list[Any], list[Any]]:
    """Zero points, and a bias, of which there may be one each."""
    many = list(rest)
    cut = len(many) - int(node.params["biased"])
    return many[:cut], many[cut:]


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """All operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def part_of(n: int, k: int) -> int:
    """Rows of the weight that a piece has."""
    pieces = max(1, min(PIECES, n * k // WORTH))
    return max(1, -(-n // pieces))


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch."""
    x, weight, scale, *rest = operands
    out = results[0]
    zero, bias = _parts(node, rest)
    rows, depth = prod(x.shape[:-1]), x.shape[-1]
    outputs, group = weight.shape[0], int(node.params["group"])
    tall = next(n for n in (1, 2, 4) if typical(rows) <= n)
    kind = KINDS[zero[0].buffer.dtype.name] if zero else ""
    form = GroupedForm(int(node.params["bits"]), tall, kind, bool(bias))
    part = computed(part_of, outputs, depth)
    pieces = parts_of(outputs, part)
    places = [x, weight, scale, *(zero or [scale]), *(bias or [scale]), out]
    at = [address(place, place.offset) for place in places]
    words = GroupedWords(
        x=at[0], weight=at[1], scale=at[2], zero=at[3], bias=at[4], c=at[5], m=rows,
        n=outputs, groups=depth // group, group=group, x_row=depth, c_row=outputs,
        part=part, pieces=pieces,
    ).listed()  # fmt: skip
    launch = Launch(
        function=form.name,
        text=partial(groups_text, form=form),
        words=words,
        reads=tuple(whole(place.buffer) for place in places[:-1]),
        writes=(whole(out.buffer),),
        pieces=pieces,
        cost=rows * outputs * depth / 2,
        label=sized("grouped_linear", rows, outputs, depth),
    )
    dot = host_dot()
    return _by_dots(launch, form, dot, x, group) if by_dots(form, group, dot) else [launch]


def _by_dots(launch: Launch, form: GroupedForm, dot: Dot, x: Place, group: int) -> list[Launch]:
    """The planes of the input, and the product with them (Note [planes])."""
    rows, depth = prod(x.shape[:-1]), x.shape[-1]
    count = depth // group
    planes = PlannedBuffer(ARENA, int8, rows * depth * dotted.DIGITS, name="planes")
    records = PlannedBuffer(ARENA, int32, rows * count * dotted.RECORD, name="records")
    form = replace(form, rows=1)
    return [
        Launch(
            function=f"planes_{form.bits}_{dot.name}",
            text=partial(dotted.planes_text, bits=form.bits, dot=dot.name),
            words=PlaneWords(
                source=address(x, x.offset), planes=Address(planes), records=Address(records),
                rows=rows, count=count, size=group, source_row=depth, pieces=rows * count,
            ).listed(),
            reads=(whole(x.buffer),),
            writes=(whole(planes), whole(records)),
            pieces=rows * count,
            cost=rows * depth * 4,
            label=sized("planes", rows, depth),
        ),
        replace(
            launch,
            function=f"{form.name}_{dot.name}",
            text=partial(dotted.dotted_text, form=form, dot=dot.name),
            words=[*launch.words, *MadeWords(Address(planes), Address(records)).listed()],
            reads=(*launch.reads, whole(planes), whole(records)),
        ),
    ]  # fmt: skip


TEMPLATES = {"grouped_linear": Template(accepts, packed, steps)}
