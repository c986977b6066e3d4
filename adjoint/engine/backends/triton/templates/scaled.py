"""The template of products of float8: by units for it, or as halves where a GPU has none.

Float8 numbers are halves exactly, so both ways multiply the same numbers; that of halves is also
tried where units for float8 are, and taken if it is faster, as it may be of few rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import ALIGN, alignment
from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.backends.triton.templates import lines as along
from adjoint.engine.backends.triton.templates.lines import pointer
from adjoint.engine.backends.triton.templates.statistics import in_rows, row_step
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.state.determinism import are_deterministic_algorithms_enabled
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import common_divisor

NAME = "scaled_product"
EIGHTS = {"float8_e4m3fn": "tl.float8e4nv", "float8_e5m2": "tl.float8e5"}
RESULTS = {"float16", "bfloat16", "float32"}
FIRST, SECOND, FIRST_SCALE, SECOND_SCALE, BIAS, OUT, ROWS, COLUMNS = range(8)  # words
TALL = 8  # tiles of rows that are gone through before the next tile of columns


@dataclass(frozen=True, slots=True)
class ScaledWay:
    """Rows, columns and depth of a tile, and how its program runs."""

    rows: int
    columns: int
    deep: int
    warps: int
    stages: int
    halves: bool


@dataclass(frozen=True, slots=True)
class ScaledForm:
    """What a kernel must know of a product."""

    kinds: tuple[str, str]
    out: str
    bias: str
    depth: int
    steps: tuple[int, int]  # bytes from a row to the next, of both operands
    each: tuple[bool, bool]  # whether rows, columns have scales of their own
    aligned: tuple[bool, bool]
    fast: bool


def ways(rows: int, columns: int) -> list[ScaledWay]:
    """The ways worth trying, the likeliest first."""
    tall, across = (max(16, power_of_two(size)) for size in (rows, columns))
    table = [(128, 256, 128, 8, 3, False), (128, 128, 128, 8, 3, False), (128, 128, 64, 8, 3, True)]
    if rows <= 64:
        table = [(64, 64, 128, 4, 4, False), (64, 32, 256, 4, 4, False), (64, 64, 64, 4, 4, True)]
    found = [
        ScaledWay(min(r, tall), min(c, across), d, w, s, halves) for r, c, d, w, s, halves in table
    ]
    return list(dict.fromkeys(found))


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Matrices on the device, of which none is empty."""
    if not all(
        isinstance(x, Value) and not x.host and x.spec.device.type == setting.target.device
        for x in inputs
    ):
        return False
    x, y, *rest = (v.spec for v in inputs)
    sizes = (*x.shape, *y.shape)
    return (
        {x.dtype.name, y.dtype.name} <= {*EIGHTS}
        and node.params["dtype"].name in RESULTS
        and all(v.dtype.name in RESULTS for v in rest)
        and along.are_known(*sizes)
        and 0 not in sizes
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Rows lie at a constant step, all else in row-major order."""
    matrices = {i for i in (0, 1) if not in_rows(layout(inputs[i]))}
    return matrices | {i for i, v in enumerate(inputs) if i > 1 and not layout(v).contiguous}


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch, a program for each tile of the result."""
    x, y, x_scale, y_scale, *bias = operands
    out, copies = along.own(setting, results[0], NAME)
    rows, columns, depth = x.shape[0], y.shape[0], x.shape[1]
    aligned = [common_divisor(alignment(setting.target, p), row_step(p)) >= ALIGN for p in (x, y)]
    form = ScaledForm(
        (x.buffer.dtype.name, y.buffer.dtype.name), out.buffer.dtype.name,
        bias[0].buffer.dtype.name if bias else "", depth, (row_step(x), row_step(y)),
        (len(x_scale.shape) > 0, len(y_scale.shape) > 0), (aligned[0], aligned[1]),
        bool(node.params["fast"]),
    )  # fmt: skip
    tried = ways(rows, columns)
    # Sums of float8's units have 14 bits, too few for a float32 result; and ways round otherwise.
    if are_deterministic_algorithms_enabled() or (form.out == "float32" and not form.fast):
        tried = [way for way in tried if way.halves]
    first, *others = [
        along.written(
            NAME, source_lines(form, way), (-(-rows // way.rows) * -(-columns // way.columns), 1),
            warps=way.warps, stages=way.stages, fused=form.out != "float32",
        )
        for way in tried
    ]  # fmt: skip
    places = [x, y, x_scale, y_scale, *(bias or [x_scale])]
    words = [*map(along.address, (*places, out)), rows, columns]
    sizes = rows, columns, depth
    step = along.launch_of(
        NAME, first.beside(others), words, places, [out], cost=rows * columns * depth, sizes=sizes
    )
    return [step, *copies]


def source_lines(form: ScaledForm, way: ScaledWay) -> list[str]:
    """The kernel."""
    ragged = form.depth % way.deep != 0
    lines = []
    for name, word, kind, aligned in zip(
        "xy", (FIRST, SECOND), form.kinds, form.aligned, strict=True
    ):
        start = pointer(word, "tl.uint8" if way.halves else EIGHTS[kind])
        lines.append(
            f"{name} = tl.multiple_of({start}, {ALIGN})" if aligned else f"{name} = {start}"
        )
    nothing = "0" if way.halves else "0.0"
    masks = [
        f", mask=(at < {form.depth}){side}, other={nothing}" for side in ("[None, :]", "[:, None]")
    ]
    # Sums of float8's units have few digits: they are added to those in float32 after each tile.
    exact = "" if way.halves or form.fast else f", max_num_imprecise_acc={way.deep}"
    lines += [
        f"m = tl.load(w + {ROWS})",
        f"n = tl.load(w + {COLUMNS})",
        f"down = (m + {way.rows - 1}) // {way.rows}",
        f"across = (n + {way.columns - 1}) // {way.columns}",
        "tile = tl.program_id(0).to(tl.int64)",
        f"first = tile // ({TALL} * across) * {TALL}",
        f"tall = tl.minimum(down - first, {TALL})",
        f"place = tile % ({TALL} * across)",
        f"i = (first + place % tall) * {way.rows} + tl.arange(0, {way.rows})",
        f"j = place // tall * {way.columns} + tl.arange(0, {way.columns})",
        f"x_row = tl.minimum(i, m - 1)[:, None] * {form.steps[0]}",
        f"y_row = tl.minimum(j, n - 1)[None, :] * {form.steps[1]}",
        f"total = tl.zeros(({way.rows}, {way.columns}), tl.float32)",
        f"for base in range(0, {form.depth}, {way.deep}):",
        f"    at = base + tl.arange(0, {way.deep})",
        f"    a = tl.load(x + x_row + at[None, :]{masks[0] if ragged else ''})",
        f"    b = tl.load(y + y_row + at[:, None]{masks[1] if ragged else ''})",
        *(f"    {line}" for line in (halves_lines(form) if way.halves else [])),
        f"    total = tl.dot(a, b, total{exact})",
    ]
    sides = (("[:, None]", "i", "m", FIRST_SCALE), ("[None, :]", "j", "n", SECOND_SCALE))
    for each, (side, index, size, word) in zip(form.each, sides, strict=True):
        scale = pointer(word, "tl.float32")
        inside = f"tl.load({scale} + tl.minimum({index}, {size} - 1)){side}"
        lines.append(f"total *= {inside if each else f'tl.load({scale})'}")
    if form.bias:
        bias = pointer(BIAS, memory_type(form.bias))
        lines.append(f"total += tl.load({bias} + tl.minimum(j, n - 1)).to(tl.float32)[None, :]")
    kind = memory_type(form.out)
    return [
        *lines,
        f"out = {pointer(OUT, kind)} + i[:, None] * n + j[None, :]",
        f"tl.store(out, total.to({kind}), mask=(i < m)[:, None] & (j < n)[None, :])",
    ]


def halves_lines(form: ScaledForm) -> list[str]:
    """Bytes as float16: the exponent's bits where float16 has them, and its other bias made up."""
    lines = []
    for name, kind in zip("ab", form.kinds, strict=True):
        bits = f"{name}.to(tl.uint16)"
        if kind == "float8_e5m2":
            lines.append(f"{name} = ({bits} << 8).to(tl.float16, bitcast=True)")
            continue
        moved = f"((({bits} & 128) << 8) | (({bits} & 127) << 7)).to(tl.float16, bitcast=True)"
        number = f"({moved} * 256.0).to(tl.float16)"
        lines.append(f'{name} = tl.where(({name} & 127) == 127, float("nan"), {number})')
    return [*lines, *(f"{name} = {name}.to(tl.float16)" for name in "ab")]


TEMPLATES = {NAME: Template(accepts, packed, steps)}
