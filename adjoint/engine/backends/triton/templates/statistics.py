"""The template of the statistics of rows: the largest element and the logarithm of the sum of
exponentials above it, in one pass over a row (Milakov and Gimelshein, 2018).

Each lane keeps its own maximum and sum over several loads; they meet at the end of the row.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import ALIGN, NAME, Written, is_aligned
from adjoint.engine.backends.triton.loose import LOG2E
from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, OWN, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.nn.losses.classification import ROW_STATISTICS

DTYPES = {"float16", "bfloat16", "float32"}
# A tile of a row: what one instruction loads for each thread, several times.
LANES, DEPTH, WARPS = 2048, 4, 8


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Rows along the last dimension."""
    x = inputs[0]
    return (
        isinstance(x, Value)
        and not x.host
        and x.spec.device.type == setting.target.device
        and x.spec.dtype.name in DTYPES
        and node.params["dim"] == len(x.spec.shape) - 1
        and 0 not in x.spec.shape
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Rows that do not lie one after another at a constant step."""
    place = layout(inputs[0])
    return set() if in_rows(place) else {0}


def in_rows(place: Place) -> bool:
    """Whether rows are contiguous and at a constant step."""
    if place.shape[-1] > 1 and place.strides[-1] != 1:
        return False
    wanted = None
    for n, s in reversed(list(zip(place.shape[:-1], place.strides[:-1], strict=True))):
        if n > 1:
            if wanted is not None and s != wanted:
                return False
            wanted = s * n
    return True


def row_step(place: Place) -> int:
    """Elements from one row to the next."""
    for n, s in reversed(list(zip(place.shape[:-1], place.strides[:-1], strict=True))):
        if n > 1:
            return s
    return place.shape[-1]


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch, a program for each row."""
    x, outs, copies = operands[0], [], []
    for out in results:
        place = out
        if out.buffer.kind not in OWN:
            room = PlannedBuffer(ARENA, out.buffer.dtype, prod(out.shape), name="statistics")
            place = row_major(room, out.shape)
            copies.append(copy_step(setting.target, place, out, ROW_STATISTICS.name))
        outs.append(place)
    count, length, step = prod(x.shape[:-1]), x.shape[-1], row_step(x)
    item, halves = x.buffer.dtype.itemsize, x.buffer.dtype.is_half
    aligned = is_aligned(setting.target, x) and step * item % ALIGN == 0
    source = rows_source(x.buffer.dtype.name, length, step, aligned)
    launch = Launch(
        function=f"statistics{digest(source)}",
        text=Written(source, (count, 1), WARPS, ROW_STATISTICS.name, stages=3, fused=halves),
        words=[Address(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in (x, *outs)],
        reads=(whole(x.buffer),),
        writes=tuple(whole(p.buffer) for p in outs),
        pieces=count,
        cost=4 * count * length,
        label=sized("amax+sub+exp+sum+log", count, length),
    )
    return [launch, *copies]


def rows_source(dtype: str, length: int, step: int, aligned: bool) -> str:
    """The kernel."""
    lanes = power_of_two(length, LANES)
    deep = power_of_two(-(-length // lanes), DEPTH)
    tile = lanes * deep
    whole = length // tile * tile
    start = f"tl.load(w + 0).to(tl.pointer_type({memory_type(dtype)})) + row * {step}"
    lines = [
        "@triton.jit",
        f"def {NAME}(words):",
        "    w = words.to(tl.pointer_type(tl.int64))",
        "    row = tl.program_id(0).to(tl.int64)",
        f"    x = tl.multiple_of({start}, {ALIGN})" if aligned else f"    x = {start}",
        f"    at = tl.arange(0, {deep})[:, None] * {lanes} + tl.arange(0, {lanes})[None, :]",
        f'    top = tl.full((1, {lanes}), float("-inf"), tl.float32)',
        f"    total = tl.full((1, {lanes}), 0, tl.float32)",
        f"    for base in range(0, {whole}, {tile}):",
        *(f"        {line}" for line in tile_lines(dtype, "base", "")),
    ]
    if length > whole:
        beyond = f', mask=at + {whole} < {length}, other=float("-inf")'
        lines += [f"    {line}" for line in tile_lines(dtype, str(whole), beyond)]
    lines += [
        "    highest = tl.reduce(top, 1, nan_max, keep_dims=True)",
        '    from_here = tl.where(highest == float("-inf"), 0.0, highest)',
        f"    sums = tl.sum(total * {above(dtype, 'top', 'from_here')}, 1, keep_dims=True)",
        # A row of nothing but -inf: NaN, as -inf - -inf is.
        '    sums = tl.where(highest == float("-inf"), float("nan"), sums)',
        "    one = tl.arange(0, 1)[:, None] + row",
        "    tl.store(tl.load(w + 1).to(tl.pointer_type(tl.float32)) + one, highest)",
        "    rest = libdevice.log(sums)",
        "    tl.store(tl.load(w + 2).to(tl.pointer_type(tl.float32)) + one, rest)",
    ]
    return "\n".join(lines) + "\n"


def tile_lines(dtype: str, base: str, mask: str) -> list[str]:
    """What a tile adds to each lane's maximum and sum."""
    return [
        f"here = tl.load(x + {base} + at{mask}).to(tl.float32)",
        "higher = nan_max(top, tl.reduce(here, 0, nan_max, keep_dims=True))",
        # As long as all is -inf, a difference of two would be NaN.
        'from_here = tl.where(higher == float("-inf"), 0.0, higher)',
        f"more = tl.sum({above(dtype, 'here', 'from_here')}, 0, keep_dims=True)",
        f"total = total * {above(dtype, 'top', 'from_here')} + more",
        "top = higher",
    ]


def above(dtype: str, x: str, base: str) -> str:
    """The exponential of a difference; of halves as one product, one sum and one power of two."""
    if dtype == "float32":
        return f"libdevice.exp({x} - {base})"
    return f"tl.exp2({x} * {LOG2E!r} - {base} * {LOG2E!r})"


TEMPLATES = {ROW_STATISTICS.name: Template(accepts, packed, steps)}
