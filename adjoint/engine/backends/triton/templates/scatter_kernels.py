"""Rows put at places of a result, or combined with what is there: kernels of scatters.

Note [placing]
    Sums go through the device's atomic additions where it has them and nobody asked for sums that
    are the same every time; a row that is put is written, and of several at one place one stays.
    The largest and the smallest are the same in any order, so they are found by atomics as well:
    of floats by their bits, of which those without a sign grow as numbers do, and those with one
    fall. A NaN is to stay, so it becomes the one whose bits do, before it is compared.
    All else is done in order: the rows' numbers are sorted by the places they go to (Note [items]),
    and whoever has the first row of a place takes all of them, one after the other, as the CPU
    does. So the sums have the CPU's bits, and the last of several rows stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.backends.triton.templates import lines as along
from adjoint.engine.backends.triton.templates.lines import pointer
from adjoint.engine.backends.triton.templates.order.sorting import sorted_items
from adjoint.engine.backends.triton.templates.order.sorting_kernels import PAD, PLACE
from adjoint.engine.compiler.memory.places import OWN, Place
from adjoint.engine.compiler.package.status import CODE_BITS, LEAST
from adjoint.engine.compiler.schedule.steps import Launch, Status
from adjoint.engine.core.dtype import DType, int64
from adjoint.engine.core.state.determinism import are_deterministic_algorithms_enabled

OUT, VALUES, STATUS, COUNT, LENGTH, ITEMS, FIXED = range(7)  # words
ADDED = {"float32", "float64", "int32", "int64"}  # that the device adds up in memory
MOST = 1 << 31  # places, and rows
TILE, WARPS = 512, 4
PUT = "put"
EXTREMES = {"amax": "max", "amin": "min"}
OTHER = {"max": "min", "min": "max"}
# How floats, and how integers, are combined (`prelude`).
COMBINE = {
    "sum": ("plus", "plus"), "prod": ("times", "times"),
    "amax": ("nan_max", "int_max"), "amin": ("nan_min", "int_min"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Positions:
    """Where rows go: lines that make `at` and `good` of the rows `i`, and the words they read."""

    lines: list[str]
    words: list[Any]
    reads: list[Place]


def checked(index: str, size: str, fault: int, wrap: bool) -> list[str]:
    """Lines that make `j` of an index, and report one that is out of bounds."""
    return [
        f"asked = {index}",
        f"j = tl.where(asked < 0, asked + {size}, asked)" if wrap else "j = asked",
        f"bad = inside & ((j < 0) | (j >= {size}))",
        f"shown = asked << {CODE_BITS}",
        f"shown = tl.where((shown >> {CODE_BITS}) == asked, shown, {LEAST})",
        f"told = shown | tl.load(w + {fault})",
        "tl.store(status + tl.zeros_like(i), told, mask=bad & (tl.load(status) == 0))",
        "good = good & (bad == 0)",
    ]


def in_order(how: str, dtype: DType) -> bool:
    """Whether rows are taken one after the other (Note [placing])."""
    asked = are_deterministic_algorithms_enabled()
    if how in EXTREMES:
        return dtype.name not in ADDED
    if how == "sum":
        return dtype.name not in ADDED or (asked and dtype.is_floating_point)
    return how != PUT or asked


def placed(
    target: Any,
    name: str,
    how: str,
    out: Place,
    values: Place,
    positions: Positions,
    count: int,
    length: int,
) -> list[Launch]:
    """Launches that put `count` rows of `length` elements, or combine them with what is there.

    Where kernels know sizes, they know of rows how they are aligned. Those that write state do
    nothing after a fault.
    """
    known = [f"length = {length if target.sized else f'tl.load(w + {LENGTH})'}"]
    if out.buffer.kind not in OWN:
        known = [f"if tl.load({pointer(STATUS, 'tl.int64')}) != 0:", "    return", *known]
    ordered, tile = in_order(how, out.buffer.dtype), tile_of(length)
    grid = (-(-count // tile[0]), -(-length // tile[1]))
    items = along.memory(int64, count, "items") if ordered else values
    words: list[Any] = [
        along.address(out), along.address(values), Status(), count, length, along.address(items),
        *positions.words,
    ]  # fmt: skip
    if not ordered:
        text = [*known, *row_lines(tile[0]), *positions.lines, *at_once(how, out, tile[1])]
        put = along.launch(
            name, text, words, [values, out, *positions.reads], [out], grid,
            warps=warps_of(tile), cost=2 * count * length, sizes=(count, length),
        )  # fmt: skip
        by_bits = how in EXTREMES and out.buffer.dtype.is_floating_point
        return [nan_step(name, how, out), put] if by_bits else [put]
    numbered = along.launch(
        name,
        [
            *row_lines(TILE), *positions.lines,
            f"to = {pointer(ITEMS, 'tl.int64')}",
            f"tl.store(to + i, tl.where(good, (at << 32) | i, {PAD} + i), mask=inside)",
        ],
        words, positions.reads, [items], (-(-count // TILE), 1),
        warps=WARPS, cost=count, sizes=(count,),
    )  # fmt: skip
    launches, items = sorted_items(name, items, count)
    words = [*words[:ITEMS], along.address(items)]
    taken = along.launch(
        name, [*known, *taking_lines(how, out, tile)], words, [values, items, out], [out], grid,
        warps=warps_of(tile), cost=2 * count * length, sizes=(count, length),
    )  # fmt: skip
    return [numbered, *launches, taken]


def tile_of(length: int) -> tuple[int, int]:
    """Rows and columns of a tile."""
    columns = power_of_two(length, TILE)
    return TILE // columns, columns


def warps_of(tile: tuple[int, int]) -> int:
    """How many warps work on a tile."""
    return max(1, min(WARPS, prod(tile) // 128))


def row_lines(rows: int) -> list[str]:
    """The rows of a program."""
    return [
        f"status = {pointer(STATUS, 'tl.int64')}",
        f"count = tl.load(w + {COUNT})",
        f"i = tl.program_id(0).to(tl.int64) * {rows} + tl.arange(0, {rows})",
        "inside = i < count",
        "good = inside",
    ]


def memory_lines(out: Place) -> list[str]:
    """The result, and the rows."""
    kind = memory_type(out.buffer.dtype.name)
    return [f"out = {pointer(OUT, kind)}", f"values = {pointer(VALUES, kind)}"]


def at_once(how: str, out: Place, columns: int) -> list[str]:
    """Rows written, or added or compared by atomics."""
    lines = [
        *memory_lines(out),
        f"c = tl.program_id(1).to(tl.int64) * {columns} + tl.arange(0, {columns})[None, :]",
        "taken = good[:, None] & (c < length)",
        "value = tl.load(values + i[:, None] * length + c, mask=taken, other=0)",
        "there = out + at[:, None] * length + c",
    ]
    if how not in EXTREMES:
        return [
            *lines,
            f"{'tl.store' if how == PUT else 'tl.atomic_add'}(there, value, mask=taken)",
        ]
    way, dtype = EXTREMES[how], out.buffer.dtype
    if not dtype.is_floating_point:
        return [*lines, f"tl.atomic_{way}(there, value, mask=taken)"]
    whole = f"int{8 * dtype.itemsize}"
    here, as_there = (f"there.to(tl.pointer_type(tl.{kind}))" for kind in (whole, f"u{whole}"))
    unsigned = f"bits.to(tl.u{whole}, bitcast=True)"
    return [
        *lines,
        f"bits = value.to(tl.{whole}, bitcast=True)",
        f"bits = tl.where(value != value, {nan_bits(how, dtype)}, bits)",
        "signed = bits < 0",
        f"tl.atomic_{way}({here}, bits, mask=taken & (signed == 0))",
        f"tl.atomic_{OTHER[way]}({as_there}, {unsigned}, mask=taken & signed)",
    ]


def nan_bits(how: str, dtype: DType) -> int:
    """The NaN that stays where others are compared with it, as a signed number."""
    top = 0x7FF8 << 48 if dtype.itemsize == 8 else 0x7FC0 << 16
    return top if how == "amax" else top - (1 << (8 * dtype.itemsize - 1))


def nan_step(name: str, how: str, out: Place) -> Launch:
    """Have a result begin with NaNs that stay (Note [placing])."""
    dtype, size = out.buffer.dtype, prod(out.shape)
    lines = [
        f"out = {pointer(OUT, f'tl.int{8 * dtype.itemsize}')}",
        f"at = tl.program_id(0).to(tl.int64) * {TILE} + tl.arange(0, {TILE})",
        f"inside = at < tl.load(w + {COUNT})",
        "bits = tl.load(out + at, mask=inside, other=0)",
        f"value = bits.to({memory_type(dtype.name)}, bitcast=True)",
        f"stays = tl.full(({TILE},), {nan_bits(how, dtype)}, bits.dtype)",
        "tl.store(out + at, stays, mask=inside & (value != value))",
    ]
    words: list[Any] = [along.address(out), 0, 0, size]
    grid = (-(-size // TILE), 1)
    return along.launch(name, lines, words, [out], [out], grid, warps=WARPS, cost=size)


def taking_lines(how: str, out: Place, tile: tuple[int, int]) -> list[str]:
    """Whoever has the first row of a place takes all rows that go there."""
    rows, columns = tile
    combined = "value"
    if how != PUT:
        function = COMBINE[how][not out.buffer.dtype.is_floating_point]
        combined = f"{function}(held, value)"
    load = "tl.load(values + (item & {place}) * length + c, mask={mask}, other=0)"
    return [
        *memory_lines(out),
        f"items = {pointer(ITEMS, 'tl.int64')}",
        f"count = tl.load(w + {COUNT})",
        f"s = tl.program_id(0).to(tl.int64) * {rows} + tl.arange(0, {rows})[:, None]",
        f"c = tl.program_id(1).to(tl.int64) * {columns} + tl.arange(0, {columns})[None, :]",
        f"item = tl.load(items + s, mask=s < count, other={PAD})",
        f"before = tl.load(items + s - 1, mask=(s < count) & (s > 0), other={PAD})",
        "at = item >> 32",
        f"going = (item < {PAD}) & ((s == 0) | ((before >> 32) != at))",
        "mine = going & (c < length)",
        "held = tl.load(out + at * length + c, mask=mine, other=0)",
        "while tl.sum(going.to(tl.int32)) > 0:",
        f"    value = {load.format(place=PLACE, mask='going & (c < length)')}",
        f"    held = tl.where(going, {combined}, held).to(held.dtype)",
        "    s += 1",
        f"    item = tl.load(items + s, mask=going & (s < count), other={PAD})",
        f"    going = going & (item < {PAD}) & ((item >> 32) == at)",
        "tl.store(out + at * length + c, held, mask=mine)",
    ]
