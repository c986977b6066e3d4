"""The templates of what runs along a dimension: cumulative sums and the like, recurrences.

A program goes along some lines, a tile of `steps` at a time, and carries on what came before. Where
lines are few and long they are cut into parts: first what each part comes to, then the same scan of
that, and then every part, which begins with what those before it came to.

Where many lines lie side by side, threads go along a line each, step by step (`STEPWISE`): a tile's
scan, which exchanges elements between threads, took six times as long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from adjoint.engine.backends.array.kernels.reduce.reduction import LONG
from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton.code import TYPES, memory_type
from adjoint.engine.backends.triton.schedule import PROCESSORS, power_of_two
from adjoint.engine.backends.triton.templates import lines as along
from adjoint.engine.backends.triton.templates.lines import pointer
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.core.dtype import int64, named
from adjoint.engine.graph.ir import Node, Value

TILE, WARPS = 2048, 4  # elements of a tile
COLUMNS = 32  # lines side by side, where their elements lie so
PART = 4096  # elements of a line that is cut
FIRST, SECOND, OUT, LENGTH, AFTER, LINES, CARRIED = range(7)  # words
# What a kernel makes; of extremes, totals are where they are, and `MIDDLE` scans those.
WHOLE, TOTALS, MIDDLE, PARTS = "whole", "totals", "middle", "parts"
STEPWISE = "stepwise"  # the same as WHOLE
WIDEST, LOADED = (
    256,
    4,
)  # lines of a program that goes step by step, and steps that it loads at once
# What a scan of tiles combines with (`prelude`), and what a line begins with.
COMBINE = {
    "cumsum": ("plus", "0"), "cumprod": ("times", "1"),
    "logcumsumexp": ("log_plus_exp", 'float("-inf")'),
    "linear_scan": ("then_step", "0"),
    "cummax": ("later_highest", 'float("-inf")'), "cummin": ("later_lowest", 'float("inf")'),
}  # fmt: skip
EXTREMES = ("cummax", "cummin")


@dataclass(frozen=True, slots=True)
class Cumulation:
    """What decides a kernel's text."""

    name: str
    dtype: str
    result: str  # dtype
    wide: str  # the type of what is carried along
    reverse: bool
    makes: str  # WHOLE, STEPWISE, TOTALS, MIDDLE or PARTS
    tile: tuple[int, int]  # steps, lines


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Real numbers on the GPU."""
    out = node.outputs[0].spec
    return along.are_known(*out.shape) and all(
        isinstance(x, Value)
        and x.spec.dtype.name in KIND
        and x.spec.dtype.name != "bool"
        and x.spec.dtype is inputs[0].spec.dtype
        and x.spec.shape == out.shape
        and x.spec.device.type == setting.target.device
        and len(x.spec.shape) > 0
        for x in inputs
    )


def described(node: Node, tile: tuple[int, int]) -> Cumulation:
    """The kernel a node needs."""
    name, spec = node.record.name, node.inputs[0].spec
    if name == "cumextreme":
        name = "cummax" if node.params["largest"] else "cummin"
    wide = KIND[spec.dtype.name][0]
    if name == "cumsum" and wide == "f32" and spec.shape[node.params["dim"]] > LONG:
        wide = "f64"  # as eager execution does
    if wide[0] != "f" and name not in EXTREMES:
        wide = "i64" if wide[1:] == "64" else "i32"  # whose low bits are the result
    result = node.outputs[0].spec.dtype.name
    reverse = bool(node.params.get("reverse", False))
    return Cumulation(name, spec.dtype.name, result, wide, reverse, WHOLE, tile)


def tile_of(length: int, after: int, count: int) -> tuple[int, int]:
    """Steps and lines of a tile."""
    if after > 1:
        columns = min(COLUMNS, power_of_two(after))
        return min(power_of_two(length), TILE // columns), columns
    steps = min(power_of_two(length), TILE)
    return steps, min(TILE // steps, power_of_two(count))


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; or three, where lines are few and long."""
    shape, dim = node.inputs[0].spec.shape, node.params["dim"]
    before, length, after = along.sizes_along(shape, dim, dim + 1)
    out, copies = along.own(setting, results[0], node.record.name)
    tile = tile_of(length, after, before * after)
    what = described(node, tile)
    wide = min(WIDEST, power_of_two(after))
    if after >= COLUMNS and before * -(-after // wide) >= PROCESSORS:
        what = replace(what, makes=STEPWISE, tile=(LOADED, wide))
        return [one(what, operands, out, (length, after, before * after)), *copies]
    few = -(-before * after // tile[1]) < PROCESSORS
    if few and length > 2 * PART:
        return [*by_parts(what, operands, out, (length, after, before * after)), *copies]
    return [one(what, operands, out, (length, after, before * after)), *copies]


def one(what: Cumulation, operands: list[Place], out: Place, sizes: tuple[int, int, int]) -> Launch:
    """The launch of a kernel that goes along whole lines."""
    return launch_for(what, operands, [out], sizes, [], 1)


def by_parts(
    what: Cumulation, operands: list[Place], out: Place, sizes: tuple[int, int, int]
) -> list[Launch]:
    """The totals of parts, their scan, and the parts with what came before them."""
    length, after, count = sizes
    cuts = -(-length // PART)
    wide = int64 if what.name in EXTREMES else named(BY_KIND[what.wide])
    totals = [along.memory(wide, cuts * count, "totals") for _ in operands]
    carried = along.memory(wide, cuts * count, "carried")
    tile = (min(what.tile[0], PART), what.tile[1])
    first = Cumulation(what.name, what.dtype, wide.name, what.wide, what.reverse, TOTALS, tile)
    middle_tile = tile_of(cuts, count, count)
    if what.name in EXTREMES:
        middle = replace(first, makes=MIDDLE, tile=middle_tile)
        scanned = launch_for(middle, operands, [carried], (length, after, count), totals, 1)
    else:
        middle = Cumulation(what.name, wide.name, wide.name, what.wide, False, WHOLE, middle_tile)
        scanned = one(middle, totals, carried, (cuts, count, count))
    last = Cumulation(what.name, what.dtype, what.result, what.wide, what.reverse, PARTS, tile)
    return [
        launch_for(first, operands, totals, sizes, [], cuts),
        scanned,
        launch_for(last, operands, [out], sizes, [carried], cuts),
    ]


BY_KIND = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"}


def launch_for(
    what: Cumulation,
    operands: list[Place],
    outs: list[Place],
    sizes: tuple[int, int, int],
    carried: list[Place],
    cuts: int,
) -> Launch:
    """A launch: programs for blocks of lines, and for the parts of each."""
    length, after, count = sizes
    second = outs[1] if len(outs) > 1 else (operands[1] if len(operands) > 1 else operands[0])
    words: list[Any] = [
        along.address(operands[0]), along.address(operands[-1]), along.address(outs[0]),
        length, after, count, along.address((*carried, second)[0]),
    ]  # fmt: skip
    blocks = -(-count // what.tile[1])
    if what.makes == STEPWISE:
        blocks = count // after * -(-after // what.tile[1])
    return along.launch(
        what.name,
        stepwise_lines(what) if what.makes == STEPWISE else source_lines(what),
        words,
        [*operands, *carried],
        outs,
        (blocks, cuts),
        warps=max(1, min(WARPS, prod(what.tile) // 128)),
        cost=3 * count * length,
        sizes=(count, length),
    )


def source_lines(what: Cumulation) -> list[str]:
    """The kernel's text."""
    wide, pair = TYPES[what.wide], what.name == "linear_scan"
    reach, columns = what.tile
    begin = beginning(what)
    state = f"tl.full((1, {columns}), {begin}, {wide})"
    lines = [
        f"x = {pointer(FIRST, memory_type(what.dtype))}",
        f"out = {pointer(OUT, memory_type(what.result))}",
        f"length = tl.load(w + {LENGTH})",
        f"after = tl.load(w + {AFTER})",
        f"count = tl.load(w + {LINES})",
        f"line = tl.program_id(0).to(tl.int64) * {columns} + tl.arange(0, {columns})[None, :]",
        "start = line // after * (length * after) + line % after",
        f"t = tl.arange(0, {reach})[:, None].to(tl.int64)",
        f"carry = {state}",
        "begin = tl.full((), 0, tl.int64)",
        "end = length",
    ]
    if pair:
        lines += [
            f"y = {pointer(SECOND, memory_type(what.dtype))}",
            f"so_far = tl.full((1, {columns}), 1, {wide})",
        ]
    if what.name in EXTREMES:
        lines.append(f"where_held = tl.full((1, {columns}), 0, tl.int64)")
    if what.makes in (TOTALS, PARTS):
        lines += [
            "part = tl.program_id(1).to(tl.int64)",
            f"begin = part * {PART}",
            f"end = tl.minimum(begin + {PART}, length)",
        ]
    if what.makes == MIDDLE:  # steps are parts
        lines += [
            f"totals = {pointer(CARRIED, 'tl.int64')}",
            f"end = (length + {PART - 1}) // {PART}",
        ]
    if what.makes == PARTS and what.name in EXTREMES:
        lines += [
            f"carried = {pointer(CARRIED, 'tl.int64')} + (part - 1) * count",
            "some = (line < count) & (part > 0)",
            "where_held = tl.load(carried + line, mask=some, other=0)",
            f"carry = tl.load(x + start + where_held * after, mask=some, other=0).to({wide})",
            f"carry = tl.where(some, carry, {begin}).to({wide})",
        ]
    elif what.makes == PARTS:
        lines += [
            f"carried = {pointer(CARRIED, wide)} + (part - 1) * count",
            f"carry = tl.load(carried + line, mask=(line < count) & (part > 0), other={begin})",
        ]
    lines.append(f"for base in range(begin, end, {reach}):")
    lines += [f"    {line}" for line in tile_lines(what)]
    if what.makes == TOTALS:
        state = "where_held" if what.name in EXTREMES else "carry"
        lines.append(f"tl.store(out + part * count + line, {state}, mask=line < count)")
        if pair:  # all steps of the part as one: its factor beside what it comes to
            lines[-1:] = [
                "tl.store(out + part * count + line, so_far, mask=line < count)",
                f"second = {pointer(CARRIED, wide)}",
                "tl.store(second + part * count + line, carry, mask=line < count)",
            ]
    return lines


def stepwise_lines(what: Cumulation) -> list[str]:
    """The text of a kernel whose threads go along lines that lie side by side."""
    wide, combine = TYPES[what.wide], COMBINE[what.name][0]
    steps, columns = what.tile
    stored = "tl.uint8" if what.result == "bool" else f"tl.{what.result}"
    lines = [
        f"x = {pointer(FIRST, memory_type(what.dtype))}",
        f"y = {pointer(SECOND, memory_type(what.dtype))}",
        f"out = {pointer(OUT, memory_type(what.result))}",
        f"length = tl.load(w + {LENGTH})",
        f"after = tl.load(w + {AFTER})",
        f"blocks = (after + {columns - 1}) // {columns}",
        "which = tl.program_id(0).to(tl.int64)",
        f"column = which % blocks * {columns} + tl.arange(0, {columns})",
        "inside = column < after",
        "start = which // blocks * length * after + column",
        f"carry = tl.full(({columns},), {beginning(what)}, {wide})",
        f"none = tl.full(({columns},), 0, tl.int64)",
        "held = none",
        f"for base in range(0, length, {steps}):",
    ]
    turn = []
    for k in range(steps):
        at = f"length - 1 - (base + {k})" if what.reverse else f"base + {k}"
        turn += [
            f"some{k} = inside & (base + {k} < length)",
            f"place{k} = start + ({at}) * after",
            f"here{k} = tl.load(x + place{k}, mask=some{k}, other=0).to({wide})",
        ]
        if what.name == "linear_scan":
            turn.append(f"more{k} = tl.load(y + place{k}, mask=some{k}, other=0).to({wide})")
    for k in range(steps):
        match what.name:
            case "linear_scan":  # nothing comes before the first: a factor there is without effect
                turn.append(
                    f"carry = tl.where(base + {k} == 0, more{k}, more{k} + here{k} * carry)"
                )
            case "cummax" | "cummin":
                turn.append(f"carry, held = {combine}(carry, held, here{k}, none + base + {k})")
            case _:
                turn.append(f"carry = {combine}(carry, here{k})")
        made = "held" if what.name in EXTREMES else "carry"
        turn.append(f"tl.store(out + place{k}, {made}.to({stored}), mask=some{k})")
    return lines + [f"    {line}" for line in turn]


def beginning(what: Cumulation) -> str:
    """What a line begins with."""
    if what.name in EXTREMES and what.wide[0] != "f":
        return least(what.wide) if what.name == "cummax" else most(what.wide)
    return COMBINE[what.name][1]


def tile_lines(what: Cumulation) -> list[str]:
    """What is done with a tile."""
    wide, combine = TYPES[what.wide], COMBINE[what.name][0]
    at = "length - 1 - at" if what.reverse else "at"
    stored = "tl.uint8" if what.result == "bool" else f"tl.{what.result}"
    lines = [
        "at = base + t",
        "inside = (at < end) & (line < count)",
        f"place = start + ({at}) * after",
        f"here = tl.load(x + place, mask=inside, other=0).to({wide})",
    ]
    if what.makes == MIDDLE:
        lines[2:] = [
            "place = at * count + line",
            "there = tl.load(totals + place, mask=inside, other=0)",
            f"here = tl.load(x + start + there * after, mask=inside, other=0).to({wide})",
        ]
    last = (
        "tl.sum(tl.where(at == tl.minimum(base + {reach}, end) - 1, {what}, 0), 0, keep_dims=True)"
    )

    def ending(name: str, kind: str) -> str:
        return last.format(reach=what.tile[0], what=name) + f".to({kind})"

    match what.name:
        case "linear_scan":
            lines += [
                f"more = tl.load(y + place, mask=inside, other=0).to({wide})",
                f"factor, made = tl.associative_scan((here, more), 0, {combine})",
                # Nothing comes before the first: a factor there is without effect.
                "made = tl.where(base == 0, made, made + factor * carry)",
                f"so_far = so_far * {ending('factor', wide)}",
                f"carry = {ending('made', wide)}",
            ]
        case "cummax" | "cummin":
            if what.makes != MIDDLE:
                lines.append("there = tl.broadcast_to(at, here.shape)")
            lines += [
                f"best, found = tl.associative_scan((here, there), 0, {combine})",
                f"best, made = {combine}(carry, where_held, best, found)",
                f"carry = {ending('best', wide)}",
                f"where_held = {ending('made', 'tl.int64')}",
            ]
        case _:
            lines += [
                f"made = tl.associative_scan(here, 0, {combine})",
                f"made = {combine}(carry, made)",
                f"carry = {ending('made', wide)}",
            ]
    if what.makes != TOTALS:
        lines.append(f"tl.store(out + place, made.to({stored}), mask=inside)")
    return lines


def least(kind: str) -> str:
    """The least of a kind of integers."""
    return "0" if kind[0] == "u" else str(-(1 << (int(kind[1:]) - 1)))


def most(kind: str) -> str:
    """The largest of a kind of integers."""
    return str((1 << (int(kind[1:]) - (kind[0] != "u"))) - 1)


TEMPLATES = dict.fromkeys(
    ("cumsum", "cumprod", "logcumsumexp", "linear_scan", "cumextreme"),
    Template(accepts, along.packed, steps),
)
