"""Rows times a weight in groups by tensor units: the weight is made real in registers.

A program has a tile of outputs and rows and goes along both, or along a part of them: where there
are few tiles, several programs share one, and what they found is added up by a second kernel. The
weight is the first factor, which the units take from registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.schedule import PROCESSORS, power_of_two
from adjoint.engine.backends.triton.templates.groups.form import OUT, GroupedRows
from adjoint.engine.backends.triton.templates.lines import pointer

PARTS = 8  # the most that share a tile
SUMMED = 1024  # elements that a program of the second kernel adds up
RESULT, PARTIAL, BIASES, COUNT, ACROSS = range(5)  # its words


@dataclass(frozen=True, slots=True)
class TileWay:
    """Outputs, rows and depth of a tile, and how its program runs."""

    outputs: int
    rows: int
    deep: int
    warps: int
    stages: int


def ways(form: GroupedRows, rows: int) -> list[TileWay]:
    """The ways worth trying, the likeliest first."""
    tall = min(128, max(16, power_of_two(rows)))
    deep = depth_of(form)
    if form.dtype == "float32":
        return [TileWay(64, min(tall, 64), min(deep, 32), 4, 3)]
    table = [TileWay(64, tall, deep, 4, 3)]
    if deep > 64:
        table.append(TileWay(64, tall, 64, 4, 3))
    if tall > 64:
        table.append(TileWay(128, tall, deep, 8, 3))
    return table


def depth_of(form: GroupedRows) -> int:
    """How deep tiles are: a whole part of a group, if they can be."""
    if form.count == 1:
        return min(128, max(32, power_of_two(form.depth)))
    return next((deep for deep in (128, 64, 32) if form.group % deep == 0), 64)


def parts_of(form: GroupedRows, rows: int, outputs: int) -> int:
    """How many programs share a tile of the first way, so that all processors have some."""
    way = ways(form, rows)[0]
    tiles = -(-rows // way.rows) * -(-outputs // way.outputs)
    many = 4 if way.rows == 16 else 2
    return max(1, min(PARTS, many * PROCESSORS // tiles, form.depth // (4 * way.deep)))


def tile_lines(form: GroupedRows, way: TileWay, parts: int, exact: str) -> list[str]:
    """The kernel; `exact` is how products of float32 are asked for."""
    steps = -(-form.depth // way.deep)
    each = -(-steps // parts)
    out = "float32" if parts > 1 else form.dtype
    loop = (
        f"for step in range({steps}):"
        if parts == 1
        else f"for step in range(part * {each}, tl.minimum(part * {each} + {each}, {steps})):"
    )
    lines = [
        *form.start("tl.uint8"),
        f"out = {pointer(OUT, memory_type(out))}",
        f"down = (m + {way.rows - 1}) // {way.rows}",
        "tile = tl.program_id(0).to(tl.int64)",
        *(["part = tl.program_id(1)"] if parts > 1 else []),
        f"i = tile % down * {way.rows} + tl.arange(0, {way.rows})",
        f"j = tile // down * {way.outputs} + tl.arange(0, {way.outputs})",
        "line = tl.minimum(j, n - 1)",
        f"x_row = tl.minimum(i, m - 1)[None, :] * {form.step}",
        f"weight_row = line[:, None] * {form.bytes}",
        f"group_row = line[:, None] * {form.count}",
        f"total = tl.zeros(({way.outputs}, {way.rows}), tl.float32)",
        loop,
        *(f"    {line}" for line in step_lines(form, way, exact)),
    ]
    if parts > 1:
        lines.append("out += part.to(tl.int64) * m * n")
    elif form.bias:
        lines.append("total += tl.load(bias + line).to(tl.float32)[:, None]")
    place = "out + i[None, :] * n + j[:, None]"
    inside = "(i < m)[None, :] & (j < n)[:, None]"
    return [*lines, f"tl.store({place}, total.to({memory_type(out)}), mask={inside})"]


def step_lines(form: GroupedRows, way: TileWay, exact: str) -> list[str]:
    """What a tile of the weight and one of the rows add."""
    ragged = form.depth % way.deep != 0
    packed = 8 // form.bits  # numbers of a byte
    wide = way.deep // packed
    mask = f", mask=(at < {form.bytes})[None, :], other=0" if ragged else ""
    x_mask = f", mask=(k < {form.depth})[:, None], other=0.0" if ragged else ""
    lines = [
        f"k = step * {way.deep} + tl.arange(0, {way.deep})",
        f"rows = tl.load(x + x_row + k[:, None]{x_mask})",
        f"at = step * {wide} + tl.arange(0, {wide})",
        f"bits = tl.load(weight + weight_row + at[None, :]{mask}).to(tl.int32)",
    ]
    if form.count == 1:
        group, group_mask = "group_row", ""
    elif form.group % way.deep == 0:
        group, group_mask = f"group_row + step * {way.deep} // {form.group}", ""
    else:
        group, group_mask = f"group_row + (at * {packed} // {form.group})[None, :]", mask
    kind = memory_type(form.dtype)
    beyond = f"tl.where((at < {form.bytes})[None, :], {{0}}, 0.0)" if ragged else "{0}"
    lines += [
        f"factor = tl.load(scale + {group}{group_mask}).to(tl.float32)",
        *([f"points = tl.load(zero + {group}{group_mask}).to(tl.float32)"] if form.zero else []),
    ]
    sources = ["bits & 15", "bits >> 4"] if packed == 2 else ["bits ^ 128"]
    numbers = [form.number(bits) for bits in sources]
    if form.zero:
        numbers = [f"({number} - points)" for number in numbers]
    numbers = [f"{number} * factor" for number in numbers]
    lines += [f"real{k} = ({beyond.format(text)}).to({kind})" for k, text in enumerate(numbers)]
    if packed == 2:
        lines.append(f"real0 = tl.join(real0, real1).reshape({way.outputs}, {way.deep})")
    return [*lines, f"total = tl.dot(real0, rows, total{exact})"]


def sum_lines(form: GroupedRows, parts: int) -> list[str]:
    """The second kernel: what was found for each part of the depth, added up."""
    kind = memory_type(form.dtype)
    lines = [
        f"out = {pointer(RESULT, kind)}",
        f"partial = {pointer(PARTIAL, 'tl.float32')}",
        f"count = tl.load(w + {COUNT})",
        f"at = tl.program_id(0).to(tl.int64) * {SUMMED} + tl.arange(0, {SUMMED})",
        "inside = at < count",
        "total = tl.load(partial + at, mask=inside, other=0.0)",
        *(
            f"total += tl.load(partial + {p} * count + at, mask=inside, other=0.0)"
            for p in range(1, parts)
        ),
    ]
    if form.bias:
        bias = pointer(BIASES, memory_type(form.bias))
        column = f"at % tl.load(w + {ACROSS})"
        lines.append(f"total += tl.load({bias} + {column}, mask=inside, other=0.0).to(tl.float32)")
    return [*lines, f"tl.store(out + at, total.to({kind}), mask=inside)"]
