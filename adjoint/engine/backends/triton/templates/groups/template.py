"""The template of rows times a weight of 4 or 8 bits in groups.

Up to a few rows, the time is that of reading the weight (`few`); more are multiplied by tensor
units (`tiles`). Of many rows the composition is as fast: to make the weight real once takes little
beside the library's product.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any

from adjoint.engine.backends.triton.launch_words import Written, alignment
from adjoint.engine.backends.triton.templates import lines as along
from adjoint.engine.backends.triton.templates.groups import few, tiles
from adjoint.engine.backends.triton.templates.groups.form import GroupedRows
from adjoint.engine.backends.triton.templates.statistics import in_rows, row_step
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.dtype import float32
from adjoint.engine.core.state.determinism import are_deterministic_algorithms_enabled
from adjoint.engine.core.state.precision import get_float32_matmul_precision
from adjoint.engine.graph.ir import Node, Value

NAME = "grouped_linear"
FLOATS = {"float16", "bfloat16", "float32"}
ZEROS = {"int8", "uint8", *FLOATS}
MOST = {"float16": 128, "bfloat16": 128, "float32": 128}  # rows; of more, the composition is faster
DEEPEST = 1 << 24  # features, so that places within a program's outputs fit 32 bits


def parts_of(node: Node, rest: Any) -> tuple[list[Any], list[Any]]:
    """Zero points, and a bias, of which there may be one each."""
    many = list(rest)
    cut = len(many) - int(node.params["biased"])
    return many[:cut], many[cut:]


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Up to many rows of floats on the device; no byte of the weight is of two groups."""
    if not all(
        isinstance(x, Value) and not x.host and x.spec.device.type == setting.target.device
        for x in inputs
    ):
        return False
    x, weight, scale, *rest = (v.spec for v in inputs)
    zero, bias = parts_of(node, rest)
    sizes = (*x.shape, *weight.shape)
    return (
        x.dtype.name in FLOATS
        and all(v.dtype.name in FLOATS for v in (scale, *bias))
        and all(v.dtype.name in ZEROS for v in zero)
        and len(weight.shape) == 2
        and along.are_known(*sizes)
        and 0 not in sizes
        and prod(x.shape[:-1]) <= MOST[x.dtype.name]
        and x.shape[-1] <= DEEPEST
        and node.params["group"] * node.params["bits"] % 8 == 0
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Rows lie at a constant step, all else in row-major order."""
    rows = set() if in_rows(layout(inputs[0])) else {0}
    return rows | {i for i, v in enumerate(inputs) if i and not layout(v).contiguous}


def form_of(setting: Setting, node: Node, operands: list[Place]) -> GroupedRows:
    """What kernels must know of a product."""
    x, weight, scale, *rest = operands
    zero, bias = parts_of(node, rest)
    step, bits = row_step(x), int(node.params["bits"])
    depth, item = x.shape[-1], x.buffer.dtype.itemsize
    aligned = (
        gcd(alignment(setting.target, x), step * item),
        gcd(alignment(setting.target, weight), depth * bits // 8),
    )
    return GroupedRows(
        x.buffer.dtype.name, bits, depth, int(node.params["group"]), step, scale.buffer.dtype.name,
        zero[0].buffer.dtype.name if zero else "", bias[0].buffer.dtype.name if bias else "",
        aligned,
    )  # fmt: skip


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch, or two where programs share tiles; their ways are tried when they first run."""
    x, weight, scale, *rest = operands
    zero, bias = parts_of(node, rest)
    form = form_of(setting, node, operands)
    out, copies = along.own(setting, results[0], NAME)
    rows, outputs = prod(x.shape[:-1]), weight.shape[0]
    places = [x, weight, scale, *(zero or [scale]), *(bias or [scale])]
    if rows <= few.MOST:
        parts, found = 1, out
        written = [
            along.written(
                NAME, few.few_lines(form, way, rows), (-(-outputs // way.outputs), 1),
                warps=way.warps, fused=form.dtype != "float32",
            )
            for way in few.ways()
        ]  # fmt: skip
    else:
        parts = tiles.parts_of(form, rows, outputs)
        found = out if parts == 1 else along.memory(float32, parts * rows * outputs, NAME)
        written = [
            along.written(
                NAME, tiles.tile_lines(form, way, parts, exact(form)),
                (-(-rows // way.rows) * -(-outputs // way.outputs), parts),
                warps=way.warps, stages=way.stages, fused=form.dtype != "float32",
            )
            for way in tiles.ways(form, rows)
        ]  # fmt: skip
    sizes = rows, outputs, form.depth
    words = [*map(along.address, (*places, found)), rows, outputs]
    step = along.launch_of(
        NAME, chosen(written), words, places, [found], cost=2 * prod(sizes), sizes=sizes
    )
    sums = [added_up(form, parts, found, bias, out, rows, outputs)] if parts > 1 else []
    return [step, *sums, *copies]


def added_up(
    form: GroupedRows,
    parts: int,
    found: Place,
    bias: list[Place],
    out: Place,
    rows: int,
    outputs: int,
) -> Launch:
    """The launch that adds up what programs found for parts of the depth."""
    count = rows * outputs
    return along.launch(
        f"{NAME}_sum", tiles.sum_lines(form, parts),
        [*map(along.address, (out, found, *(bias or [found]))), count, outputs],
        [found, *bias], [out], (-(-count // tiles.SUMMED), 1),
        warps=4, cost=parts * count, sizes=(parts, count),
    )  # fmt: skip


def exact(form: GroupedRows) -> str:
    """How products of float32 are asked for: as exact as sums of float32 unless less is allowed."""
    if form.dtype != "float32":
        return ""
    full = get_float32_matmul_precision() == "highest"
    return f', input_precision="{"tf32x3" if full else "tf32"}"'


def chosen(written: list[Written]) -> Written:
    """The first way beside the others; alone where results must repeat, as ways round otherwise."""
    first, *others = written
    return first if are_deterministic_algorithms_enabled() else first.beside(others)


TEMPLATES = {NAME: Template(accepts, packed, steps)}
