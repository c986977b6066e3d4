"""Sums of columns, row after row.

Note [columns]
    A kernel that sums each column of a matrix down all its rows would read a line of the cache of
    every row and come back for the next ones: rows are far apart, nothing fetches them ahead. So
    these kernels take a wide strip of columns and go through it row by row, in blocks of rows as
    sums do (Note [sums]), and in blocks of blocks: a column has no lanes to share its length. Sums
    wait in memory. Whole rows are best: what fetches lines ahead then meets no gap. A strip is less
    where its sums would not stay in the nearest cache, or where there would be too few pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from adjoint.engine.backends.registers.operations import KIND, combine, identity
from adjoint.engine.backends.registers.vector import V, type_text
from adjoint.engine.compiler.loops.ir import LOAD, POINT, REDUCE, SHORT, WHOLE, Form

if TYPE_CHECKING:
    from adjoint.engine.backends.llvm.loops.kernels import LoopEmitter
    from adjoint.engine.backends.llvm.loops.nests import Env

STRIP = 1024  # columns, at most
TURNS = 16  # of a block, each of one row or of four together
BLOCKS = 64  # of a block of blocks
# Where little is done with an element, most of the time goes into sums that are read and written:
# so four rows are added up, by twos, before one is written, and columns that are left over come
# in narrower vectors before they come one by one. Larger bodies would only be more code.
LIGHT = 4  # operations
TOGETHER = 4  # rows
OF_FEW = 2 * TOGETHER  # of less than a vector's columns: two times four before one is written
NARROW = 4  # lanes


def sums_columns(form: Form) -> bool:
    """Whether a form is of this kind: nothing but sums, read once, over one inner dimension."""
    if form.rows or form.outer < 1 or form.inner != 1:
        return False
    if form.spans == SHORT and not is_light(form):
        return False
    sums = [op for op in form.ops if op.kind == REDUCE]
    return (
        bool(sums)
        and all(op.name == "sum" and op.compute in ("float32", "float64") for op in sums)
        and all(op.stage == 0 for op in form.ops if op.full or op.kind == REDUCE)
        and all(op.kind in (LOAD, POINT, REDUCE) for op in form.ops)
        and not any(op.name in ("scatter", "random") for op in form.ops)
    )


def is_light(form: Form) -> bool:
    """Whether little is done with an element, and nothing is written for it."""
    return len(form.ops) <= LIGHT and not any(form.ops[v].full for v, _ in form.stores)


combine_sums = partial(combine, "sum")


class ColumnSums:
    """Writes one strip of such a kernel."""

    def __init__(self, emitter: LoopEmitter, shared: Callable[[int], Env]) -> None:
        self.emitter, self.shared = emitter, shared
        self.code, self.blocks, self.form = emitter.code, emitter.blocks, emitter.form
        self.sums = [k for k, op in enumerate(self.form.ops) if op.kind == REDUCE]
        self.kinds = [KIND[self.form.ops[k].compute][0] for k in self.sums]
        self.totals = [f"%totals{k}" for k in self.sums]
        self.wide = [f"%wide{k}" for k in self.sums]  # of the block of blocks at hand
        self.parts = [f"%parts{k}" for k in self.sums]  # of the block of rows at hand
        self.light = is_light(self.form)

    def memory(self) -> list[str]:
        """Where sums wait: lines for the head of the function."""
        return [
            f"{name} = alloca [{STRIP} x {type_text(kind, 1)}], align 64"
            for names in (self.totals, self.wide, self.parts)
            for name, kind in zip(names, self.kinds, strict=True)
        ]

    def strip(self, start: str, middle: str, stop: str) -> None:
        """The columns from start to stop; up to the middle they come in whole vectors."""
        let = self.code.let
        spans = self.spans(start, middle, stop)
        size = self.emitter.size[self.form.outer]

        def over(turn: Callable[[str, int], None]) -> None:
            for low, high, width in spans:

                def each(c: str, _: list[V], width: int = width) -> list[V]:
                    turn(c, width)
                    return []

                self.blocks.loop(low, high, width, (), each)

        def clear(c: str, width: int) -> None:
            for names in (self.totals, self.wide, self.parts):
                for pointer, kind in zip(self.at(names, start, c), self.kinds, strict=True):
                    self.keep(pointer, identity(self.code, "sum", kind, width))

        def until(i: str, count: int, stop: str) -> str:
            end = let(f"add i64 {i}, {count}")
            return let(f"select i1 {let(f'icmp slt i64 {end}, {stop}')}, i64 {end}, i64 {stop}")

        def block(i: str, end: str) -> None:
            def rows(count: int, r: str, _: list[V]) -> list[V]:
                numbers = [r, *[let(f"add i64 {r}, {k}") for k in range(1, count)]]
                over(lambda c, width: self.add(start, c, width, numbers))
                return []

            for together in sizes:
                whole = let(f"and i64 {let(f'sub i64 {end}, {i}')}, {-together}")
                first = let(f"add i64 {i}, {whole}") if together > 1 else end
                self.blocks.loop(i, first, together, (), partial(rows, together))
                i = first
            over(lambda c, width: self.settle(self.wide, self.parts, start, c, width))

        sizes = [OF_FEW, TOGETHER, 1] if self.form.spans == SHORT else [TOGETHER, 1]
        sizes = sizes if self.light else [1]
        count = TURNS * (TOGETHER if self.light else 1)

        def wide_block(i: str, _: list[V]) -> list[V]:
            stop = until(i, BLOCKS * count, size)

            def turn(j: str, _: list[V]) -> list[V]:
                block(j, until(j, count, stop))
                return []

            self.blocks.loop(i, stop, count, (), turn)
            over(lambda c, width: self.settle(self.totals, self.wide, start, c, width))
            return []

        over(clear)
        self.blocks.loop("0", size, BLOCKS * count, (), wide_block)
        over(lambda c, width: self.finish(start, c, width))

    def spans(self, start: str, middle: str, stop: str) -> list[tuple[str, str, int]]:
        """From where to where columns come in vectors of how many lanes."""
        let, lanes = self.code.let, self.emitter.lanes
        if self.form.spans == SHORT:
            spans = []
            for width in (NARROW, NARROW // 2):
                whole = let(f"and i64 {let(f'sub i64 {stop}, {start}')}, {-width}")
                end = let(f"add i64 {start}, {whole}")
                spans.append((start, end, width))
                start = end
            return [*spans, (start, stop, 1)]
        if lanes == 1:
            return [(start, stop, 1)]
        if self.form.spans == WHOLE:
            return [(start, middle, lanes)]
        if not self.light or lanes <= NARROW:
            return [(start, middle, lanes), (middle, stop, 1)]
        whole = let(f"and i64 {let(f'sub i64 {stop}, {middle}')}, {-NARROW}")
        narrow = let(f"add i64 {middle}, {whole}")
        return [(start, middle, lanes), (middle, narrow, NARROW), (narrow, stop, 1)]

    def at(self, names: list[str], start: str, c: str) -> list[str]:
        """Pointers to a column's sums."""
        let = self.code.let
        place = let(f"sub i64 {c}, {start}")
        return [
            let(f"getelementptr {type_text(kind, 1)}, ptr {name}, i64 {place}")
            for name, kind in zip(names, self.kinds, strict=True)
        ]

    def keep(self, pointer: str, value: V) -> None:
        self.code.lines.append(f"store {value.type} {value.ref}, ptr {pointer}, align 4")

    def kept(self, pointer: str, kind: str, width: int) -> V:
        total = self.code.let(f"load {type_text(kind, width)}, ptr {pointer}, align 4")
        return self.code.value(total, kind, width)

    def add(self, start: str, c: str, width: int, rows: list[str]) -> None:
        """Add the elements of some rows to the sums of some columns: four by twos, or one."""
        emitter = self.emitter
        env = self.shared(width)
        where = {emitter.vector: c}
        stored = [(v, at) for v, at in self.form.stores if self.form.ops[v].full]
        for k in emitter.wanted(0):
            emitter.get(k, env, width, where, 0)
        pointers = self.at(self.parts, start, c)
        parts = [self.kept(p, kind, width) for p, kind in zip(pointers, self.kinds, strict=True)]
        zeros = [self.code.const(-0.0, kind, width) for kind in self.kinds]  # x is x + -0.0
        access = emitter.access
        for first in range(0, len(rows), TOGETHER):
            added = []
            for r in rows[first : first + TOGETHER]:
                here = {**where, self.form.outer: r}
                if stored:
                    access.later = {self.form.outer: self.code.let(f"add i64 {r}, {len(rows)}")}
                added.append(emitter.turn(env, here, width, 0, stored, self.sums, zeros))
            while len(added) > 1:
                pairs = zip(added[::2], added[1::2], strict=True)
                added = [list(map(combine_sums, x, y)) for x, y in pairs]
            parts = list(map(combine_sums, parts, added[0]))
        access.later = {}
        for pointer, part in zip(pointers, parts, strict=True):
            self.keep(pointer, part)

    def settle(self, into: list[str], of: list[str], start: str, c: str, width: int) -> None:
        """Add the sums of a block to those of what it is a block of."""
        pairs = zip(self.at(into, start, c), self.at(of, start, c), self.kinds, strict=True)
        for total, part, kind in pairs:
            both = combine_sums(self.kept(total, kind, width), self.kept(part, kind, width))
            self.keep(total, both)
            self.keep(part, identity(self.code, "sum", kind, width))

    def finish(self, start: str, c: str, width: int) -> None:
        """Store what is made of the totals."""
        emitter, form = self.emitter, self.form
        env = self.shared(width)
        where = {emitter.vector: c}
        for k, pointer, kind in zip(
            self.sums, self.at(self.totals, start, c), self.kinds, strict=True
        ):
            env[k] = emitter.reduced(k, self.kept(pointer, kind, width))
        for v, r in form.stores:
            if not form.ops[v].full:
                emitter.access.store(r, where, emitter.get(v, env, width, where, 1))
