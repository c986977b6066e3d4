"""Kernels of what runs along a dimension: cumulative sums, products, extremes, recurrences.

Elements are seen as (before, length, after), in row-major order. Each line is gone through in
order; lines are worked on side by side: neighbours in `after` as a vector, or where there are none,
ROWS lines of `before` in turn, so that one does not wait for the other's last addition.

The words: the result, one or two operands, before, length, after, parts of `after`, pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from adjoint.engine.backends.llvm.ir.blocks import Blocks
from adjoint.engine.backends.llvm.ir.machine import host_features
from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.registers.elementwise import (
    LOWER,
    from_memory,
    kind_of,
    stored_kind,
    to_memory,
)
from adjoint.engine.backends.registers.math.exponential import exp_of_negative
from adjoint.engine.backends.registers.operations import combine, identity
from adjoint.engine.backends.registers.vector import Code, V, any_of, select, type_text
from adjoint.engine.core.dtype import DType, int64

PART = 64  # neighbours in a piece
# Lines side by side: the more, the less a step waits for the one before it, but memory takes longer
# to write many lines at a time. Extremes wait for nothing (`unless_behind`).
ROWS = {"cumsum": 2, "cumprod": 2, "cummax": 1, "cummin": 1, "logcumsumexp": 4, "linear_scan": 4}
LANES = 8
AHEAD = 16  # elements of a line that are looked at together: most change no extreme
EXTREMES = {"cummax": "amax", "cummin": "amin"}
OPERANDS = {"linear_scan": 2}


@dataclass(frozen=True, slots=True)
class Running:
    """What decides a kernel's text."""

    name: str
    dtype: DType
    wide: str  # the kind that is carried along
    reverse: bool
    lines: bool  # nothing comes after the dimension
    values: bool = False  # extremes are written too, not only where they are

    @property
    def function(self) -> str:
        """The name of the kernel."""
        way = "back" if self.reverse else "on"
        kind = "lines" if self.lines else "columns"
        both = "_both" if self.values else ""
        return f"running_{self.name}{both}_{self.dtype.name}_{self.wide}_{way}_{kind}"

    def start(self, code: Code, lanes: int) -> list[V]:
        """What is carried into the first step."""
        match self.name:
            case "cumsum":  # 0.0 + -0.0 would be 0.0
                return [code.const(-0.0 if self.wide[0] == "f" else 0, self.wide, lanes)]
            case "linear_scan":  # whether there is a result before, and it
                return [code.const(0, "i1", lanes), code.const(0, self.wide, lanes)]
            case "logcumsumexp":  # the largest element, the sum of exponentials less it, the result
                kinds = (self.wide, self.wide, kind_of(self.dtype))
                return [code.const(v, k, lanes) for v, k in zip((-inf, 0, 0), kinds, strict=True)]
            case "cumprod":
                return [code.const(1, self.wide, lanes)]
        none = code.const(0, "i64", lanes)
        return [identity(code, EXTREMES[self.name], self.wide, lanes), none]

    def step(self, carried: list[V], given: list[V], at: V) -> list[V]:
        """What is carried on; its last is the result here."""
        x = given[0].convert(self.wide)
        match self.name:
            case "cumsum":
                return [combine("sum", carried[0], x)]
            case "cumprod":
                return [combine("prod", carried[0], x)]
            case "linear_scan":  # nothing times an infinite factor would be a NaN
                offset = given[1].convert(self.wide)
                later = select(carried[0], offset + x * carried[1], offset)
                return [x.code.const(1, "i1", x.lanes), later]
            case "logcumsumexp":
                top, total, _ = carried
                first = total.eq(0.0)  # which is the result itself: -0.0 + log(1) would be 0.0
                larger = x > top
                # Of equal ones the difference is 0, infinite ones too; that of a NaN is one.
                part = exp_of_negative(select(x.eq(top), 0.0, -abs(x - top)))
                total = select(larger, total * part + 1.0, total + part)
                top, narrow = select(larger, x, top), kind_of(self.dtype)
                result = top.convert(narrow) + LOWER["log"](total.convert(narrow))
                return [top, total, select(first, x.convert(narrow), result)]
        hit = x >= carried[0] if self.name == "cummax" else x <= carried[0]
        if x.is_float:  # none after a NaN but another one
            hit = hit | x.isnan()
        return [select(hit, x, carried[0]), select(hit, at, carried[1])]

    @property
    def result(self) -> DType:
        return int64 if self.name in EXTREMES else self.dtype


@dataclass(slots=True)
class RunningWords(LaunchWords):
    """Lines of `length` elements, `after` apart, `before` times."""

    out: Any
    first: Any  # operand
    second: Any  # or zero
    values: Any  # where extremes go, or zero
    before: Any
    length: Any
    after: Any
    parts: Any  # of `after`
    pieces: Any


class RunningKernel:
    """Writes one kernel."""

    def __init__(self, what: Running) -> None:
        self.what = what
        self.code = Code(features=host_features())
        self.blocks = Blocks(self.code)
        let = self.code.let
        self.word = word = RunningWords.named(
            [
                let(f"load i64, ptr {let(f'getelementptr i64, ptr %args, i64 {k}')}")
                for k in range(RunningWords.word_count())
            ]
        )
        arrays = (word.out, word.first, word.second, word.values)
        self.arrays = [let(f"inttoptr i64 {array} to ptr") for array in arrays]

    def text(self, name: str) -> tuple[str, set[str]]:
        let, word = self.code.let, self.word
        low = let(f"udiv i64 {let(f'mul i64 {word.pieces}, %worker')}, %workers")
        following = let("add i64 %worker, 1")
        high = let(f"udiv i64 {let(f'mul i64 {word.pieces}, {following}')}, %workers")
        if self.what.lines:
            rows = ROWS[self.what.name]
            middle = low
            if rows > 1:
                whole = let(f"and i64 {let(f'sub i64 {high}, {low}')}, {-rows}")
                middle = let(f"add i64 {low}, {whole}")
                self.each(low, middle, rows, lambda p: self.lines(p, rows))
            self.each(middle, high, 1, lambda p: self.lines(p, 1))
        else:
            self.each(low, high, 1, self.columns)
        body = "\n".join(self.code.lines)
        return (
            f"define void @{name}(ptr %args, i64 %worker, i64 %workers) {{\n"
            f"entry:\n{body}\nret void\n}}\n"
        ), self.code.declarations

    def each(self, start: str, stop: str, step: int, body: Callable[[str], None]) -> None:
        def run(i: str, _: list[V]) -> list[V]:
            body(i)
            return []

        self.blocks.loop(start, stop, step, (), run)

    def lines(self, first: str, count: int) -> None:
        """Lines side by side, an element of each at a time."""
        let = self.code.let
        length = self.word.length
        bases = [
            let(f"mul i64 {let(f'add i64 {first}, {k}') if k else first}, {length}")
            for k in range(count)
        ]
        self.run(bases, "1", 1)

    def columns(self, piece: str) -> None:
        """Neighbours of one part of one combination of the dimensions before."""
        let, word = self.code.let, self.word
        before = let(f"udiv i64 {piece}, {word.parts}")
        start = let(f"mul i64 {let(f'urem i64 {piece}, {word.parts}')}, {PART}")
        stop = let(f"add i64 {start}, {PART}")
        stop = let(
            f"select i1 {let(f'icmp slt i64 {stop}, {word.after}')}, i64 {stop}, i64 {word.after}"
        )
        line = let(f"mul i64 {word.length}, {word.after}")
        base = let(f"mul i64 {before}, {line}")
        whole = let(f"and i64 {let(f'sub i64 {stop}, {start}')}, {-LANES}")
        middle = let(f"add i64 {start}, {whole}")
        for lanes, low, high in ((LANES, start, middle), (1, middle, stop)):
            self.each(
                low, high, lanes,
                lambda c, lanes=lanes: self.run(  # type: ignore[misc]
                    [let(f"add i64 {base}, {c}")], word.after, lanes
                ),
            )  # fmt: skip

    def run(self, bases: list[str], stride: str, lanes: int) -> None:
        """Go along lines that begin at these elements."""
        what, code, let = self.what, self.code, self.code.let
        starts = [v for _ in bases for v in what.start(code, lanes)]
        per_line = len(starts) // len(bases)

        def body(i: str, carried: list[V]) -> list[V]:
            at = i
            if what.reverse:
                at = let(f"sub i64 {let(f'sub i64 {self.word.length}, 1')}, {i}")
            shift = let(f"mul i64 {at}, {stride}")
            position = code.splat(code.value(at, "i64", 1), lanes)
            after: list[V] = []
            for k, base in enumerate(bases):
                here = let(f"add i64 {base}, {shift}")
                given = [
                    self.load(self.arrays[1 + j], here, lanes)
                    for j in range(OPERANDS.get(what.name, 1))
                ]
                mine = carried[k * per_line : (k + 1) * per_line]
                if what.name in EXTREMES and lanes == 1:
                    after += self.unless_behind(here, mine, given, position)
                else:
                    after += self.stored(here, what.step(mine, given, position))
            return after

        if what.name not in EXTREMES or stride != "1":
            self.blocks.loop("0", self.word.length, 1, starts, body)
            return
        (base,) = bases

        def several(i: str, carried: list[V]) -> list[V]:
            here = let(f"add i64 {base}, {i}")
            x = self.load(self.arrays[1], here, AHEAD).convert(what.wide)
            best = code.splat(carried[0], AHEAD)
            reached = any_of(~(x < best if what.name == "cummax" else x > best))
            end = let(f"add i64 {i}, {AHEAD}")
            same = [code.splat(v, AHEAD) for v in carried]
            return self.blocks.choose(
                reached,
                lambda: self.blocks.loop(i, end, 1, carried, body),
                lambda: self.stored(here, same) and carried,
            )

        whole = let(f"and i64 {self.word.length}, {-AHEAD}")
        carried = self.blocks.loop("0", whole, AHEAD, starts, several)
        self.blocks.loop(whole, self.word.length, 1, carried, body)

    def unless_behind(self, here: str, carried: list[V], given: list[V], at: V) -> list[V]:
        """A step of a running extreme, which most elements do not change: a branch foresees that.

        By selections alone each element would wait for the comparison before it.
        """
        x, best = given[0].convert(self.what.wide), carried[0]
        behind = x < best if self.what.name == "cummax" else x > best
        return self.blocks.choose(
            behind,
            lambda: self.stored(here, carried),
            lambda: self.stored(here, self.what.step(carried, given, at)),
        )

    def stored(self, here: str, new: list[V]) -> list[V]:
        """What is carried on, its last and, where values are asked for, its first written."""
        self.store(self.arrays[0], here, new[-1], self.what.result)
        if self.what.values:
            self.store(self.arrays[3], here, new[0], self.what.dtype)
        return new

    def load(self, array: str, at: str, lanes: int) -> V:
        dtype = self.what.dtype
        kind = stored_kind(dtype)
        pointer = self.code.let(f"getelementptr {type_text(kind, 1)}, ptr {array}, i64 {at}")
        ref = self.code.let(f"load {type_text(kind, lanes)}, ptr {pointer}, align {dtype.itemsize}")
        return from_memory(self.code.value(ref, kind, lanes), dtype)

    def store(self, array: str, at: str, value: V, dtype: DType) -> None:
        value = to_memory(value.convert(kind_of(dtype)), dtype)
        element = type_text(stored_kind(dtype), 1)
        pointer = self.code.let(f"getelementptr {element}, ptr {array}, i64 {at}")
        self.code.lines.append(
            f"store {value.type} {value.ref}, ptr {pointer}, align {dtype.itemsize}"
        )


def running_text(name: str, what: Running) -> tuple[str, set[str]]:
    """The kernel under a given name, and the declarations it needs."""
    return RunningKernel(what).text(name)
