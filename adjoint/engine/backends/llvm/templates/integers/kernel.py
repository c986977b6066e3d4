"""The kernel of products of int8: each result is a sum along two rows.

Note [integer products]
    Rows of A and columns of B are contiguous along the depth, so that nothing is packed: a tile is
    some rows times four columns, its sums are vectors along the depth, and each is added up at the
    end. What the depth leaves over a vector is done with the last whole vector once more, the bytes
    that were counted set to zero; a depth less than a vector goes byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.integers.dots import DOTS, OFFSET, Dot
from adjoint.engine.backends.registers.vector import V, select

ACROSS = 4  # columns of a tile: their sums, added up, are one vector


@dataclass(slots=True)
class IntegerWords(LaunchWords):
    """C = A B of whole numbers; rows of A and columns of B are contiguous."""

    a: Any
    b: Any
    c: Any
    m: Any
    n: Any
    k: Any
    a_row: Any
    b_row: Any
    c_row: Any
    rows: Any  # of a piece
    row_parts: Any
    columns: Any  # of a piece
    column_parts: Any
    pieces: Any
    inner: Any  # members of the inner batch; how far members are apart
    outer_a: Any
    outer_b: Any
    outer_c: Any
    inner_a: Any
    inner_b: Any
    inner_c: Any


@dataclass(frozen=True, slots=True)
class _Operands:
    """Pointers to the rows of a tile and to its columns."""

    rows: Sequence[str]
    columns: Sequence[str]


class IntegerProduct:
    """Writes the kernel of Note [integer products]."""

    def __init__(self, dot: Dot, rows: int) -> None:
        self.dot, self.tall = dot, rows
        self.w = w = CodeWriter()
        self.word = IntegerWords.read_by(w)
        self.result = w.reserve("i32", ACROSS)

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        text, declared = self.w.finish(name)
        if self.dot.feature:
            head = "i64 %workers)"
            text = text.replace(head, f'{head} "target-features"="{self.dot.feature}"', 1)
        return text, declared

    def piece(self, p: V) -> None:
        """Some rows and columns of one member of the batch."""
        w, word = self.w, self.word
        rest, column_part = w.split(p, word.column_parts)
        member, row_part = w.split(rest, word.row_parts)
        outer, inner = w.split(member, word.inner)

        def begin(base: V, along: V, within: V, item: int) -> str:
            return w.pointer(base + (outer * along + inner * within) * item)

        a = begin(word.a, word.outer_a, word.inner_a, 1)
        b = begin(word.b, word.outer_b, word.inner_b, 1)
        c = begin(word.c, word.outer_c, word.inner_c, 4)
        first = row_part * word.rows
        stop = w.least(first + word.rows, word.m)
        start = column_part * word.columns
        end = w.least(start + word.columns, word.n)

        def columns(j: V) -> None:
            # The last rows and columns stand in for those beyond, whose sums nobody keeps.
            mine = [w.at(b, "i8", w.least(j + n, end - 1) * word.b_row) for n in range(ACROSS)]
            excess = self.excess(mine)

            def rows(i: V) -> None:
                theirs = [
                    w.at(a, "i8", w.least(i + r, stop - 1) * word.a_row) for r in range(self.tall)
                ]
                sums = self.sums(_Operands(theirs, mine))
                for r in range(self.tall):
                    total = self.four(sums[r * ACROSS : (r + 1) * ACROSS])
                    total = total if excess is None else total - excess
                    self.put(total, c, i + r, stop, j, end)

            w.loop(first, stop, rows, step=self.tall)

        w.loop(start, end, columns, step=ACROSS)

    def excess(self, columns: list[str]) -> V | None:
        """What moved rows add to the sums of some columns, whatever the rows are."""
        if not self.dot.moved:
            return None
        w, dot = self.w, self.dot
        ones = w.code.const(1, "i8", dot.size)

        def turn(k: V, *before: V) -> list[V]:
            return self.added([ones], [w.load(x, "i8", k, dot.size) for x in columns], before)

        def last(k: V, counted: V, before: Sequence[V]) -> list[V]:
            return self.added([ones], [self.rest(x, k, counted) for x in columns], before)

        def single(k: V, *before: V) -> list[V]:
            elements = [w.load(x, "i8", k).convert("i32") for x in columns]
            return [self.first_lane(x, s) for x, s in zip(elements, before, strict=True)]

        return self.four(self.along(ACROSS, turn, last, single)) * OFFSET

    def sums(self, tile: _Operands) -> list[V]:
        """The sums of a tile, row by row, each a vector still."""
        w, dot = self.w, self.dot

        def moved(x: V) -> V:
            return x ^ -OFFSET if dot.moved else x

        def turn(k: V, *before: V) -> list[V]:
            columns = [w.load(x, "i8", k, dot.size) for x in tile.columns]
            rows = [moved(w.load(x, "i8", k, dot.size)) for x in tile.rows]
            return self.added(rows, columns, before)

        def last(k: V, counted: V, before: Sequence[V]) -> list[V]:
            columns = [self.rest(x, k, counted) for x in tile.columns]
            rows = [moved(w.load(x, "i8", k, dot.size)) for x in tile.rows]
            return self.added(rows, columns, before)

        def single(k: V, *before: V) -> list[V]:
            columns = [w.load(x, "i8", k).convert("i32") for x in tile.columns]
            rows = [w.load(x, "i8", k).convert("i32") for x in tile.rows]
            if dot.moved:
                rows = [x + OFFSET for x in rows]
            products = [x * y for x in rows for y in columns]
            return [self.first_lane(x, s) for x, s in zip(products, before, strict=True)]

        return self.along(self.tall * ACROSS, turn, last, single)

    def along(
        self,
        count: int,
        turn: Callable[..., list[V]],
        last: Callable[[V, V, Sequence[V]], list[V]],
        single: Callable[..., list[V]],
    ) -> list[V]:
        """Sums along the depth: whole vectors, what is left of one, or byte by byte."""
        w, depth, size = self.w, self.word.k, self.dot.size
        zeros = [w.code.const(0, "i32", self.dot.lanes)] * count
        left = depth.modulo(size)
        whole = depth - left
        sums = w.loop(0, whole, turn, zeros, step=size)
        sums = w.choose(
            left.ne(0) & (whole > 0),
            lambda: last(depth - size, w.whole(size) - left, sums),
            lambda: sums,
        )
        return w.loop(0, select(whole > 0, w.whole(0), left), single, sums)

    def rest(self, column: str, k: V, counted: V) -> V:
        """A vector of which the first `counted` bytes are zero."""
        w, size = self.w, self.dot.size
        lanes = w.code.iota("i8", size)
        bound = w.code.splat(counted.convert("i8"), size)
        return select(lanes >= bound, w.load(column, "i8", k, size), 0)

    def added(self, rows: Sequence[V], columns: Sequence[V], sums: Sequence[V]) -> list[V]:
        places = iter(sums)
        return [self.dot.add(self.w, a, b, next(places)) for a in rows for b in columns]

    def first_lane(self, x: V, sums: V) -> V:
        """Sums with a number added to their first lane."""
        lanes = [x, *[self.w.code.const(0, "i32")] * (self.dot.lanes - 1)]
        return sums + self.w.join(lanes)

    def four(self, sums: Sequence[V]) -> V:
        """Four vectors' totals, side by side."""
        w, narrow = self.w, []
        for x in sums:
            while x.lanes > ACROSS:
                half = x.lanes // 2
                x = w.pick(x, x, range(half)) + w.pick(x, x, range(half, x.lanes))
            narrow.append(x)
        return w.totals(narrow)

    def put(self, total: V, c: str, i: V, stop: V, j: V, end: V) -> None:
        """Four results of a row that exists; fewer at the end of it."""
        w = self.w
        at = i * self.word.c_row + j

        def part() -> None:
            w.store(total, self.result, w.whole(0))
            w.loop(0, end - j, lambda n: w.store(w.load(self.result, "i32", n), c, at + n))

        w.when(
            i < stop,
            lambda: w.either(j + ACROSS <= end, lambda: w.store(total, c, at), part),
        )


def integer_text(name: str, dot: str, rows: int) -> Text:
    """The kernel of Note [integer products]."""
    return IntegerProduct(DOTS[dot], rows).text(name)
