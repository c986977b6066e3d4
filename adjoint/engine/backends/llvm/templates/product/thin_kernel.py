"""The kernel of products with a thin operand: each result is a sum along two rows.

Note [thin products]
    Where a matrix meets a few rows only, packing it would cost more than multiplying it. So the
    depth lies along the lanes: some rows of the matrix are multiplied with one of the thin
    operand's, and each vector of sums is added up at the end. Both operands have contiguous rows.

    One row alone reads each element of the matrix once, so memory decides: two rows at a time, far
    along, and those after them asked for, which the processor does not do by itself where rows are
    short. From memory that is a third faster than four rows at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import LINE, CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.row_kernel import member_at
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.vector import V, mad, width

TALL, LONG = 4, 2  # rows at a time, vectors of each: more sums that do not wait for each other
ALONE, AHEAD = 2, 128  # rows at a time for one alone, and bytes of each


@dataclass(slots=True)
class ThinWords(LaunchWords):
    """Rows X times a few columns Y, which are rows in memory."""

    x: Any
    y: Any
    c: Any
    m: Any
    t: Any
    k: Any
    x_row: Any
    y_row: Any
    c_row: Any
    c_t: Any
    rows: Any  # of a piece
    row_parts: Any
    pieces: Any
    inner: Any  # members of the inner batch; how far members are apart
    outer_x: Any
    outer_y: Any
    outer_c: Any
    inner_x: Any
    inner_y: Any
    inner_c: Any


class Dots:
    """Writes the kernel: C[i, t] = sum over k of X[i, k] Y[t, k]."""

    def __init__(self, kind: str, alone: bool) -> None:
        self.kind, self.item = kind, width(kind) // 8
        self.lanes = outer_tile(kind).lanes
        self.alone, self.tall, self.long = alone, TALL, LONG
        if alone:
            self.tall, self.long = ALONE, max(AHEAD // (self.lanes * self.item), LONG)
        self.w = w = CodeWriter()
        self.word = ThinWords.read_by(w)

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some rows of one member of the batch."""
        w, word = self.w, self.word
        member, part = w.split(p, word.row_parts)
        x, y, c = member_at(w, word, member, self.item)
        first = part * word.rows
        stop = w.least(first + word.rows, word.m)

        def some(i: V) -> None:
            # The last rows are done with some before them, which gives these the same sums again.
            numbers = [w.least(i + r, stop - 1) for r in range(self.tall)]
            rows = [w.at(x, self.kind, number * word.x_row) for number in numbers]

            def one(t: V) -> None:
                sums = self.sums(rows, w.at(y, self.kind, t * word.y_row))
                for number, total in zip(numbers, sums, strict=True):
                    w.store(total, c, number * word.c_row + t * word.c_t)

            w.loop(0, word.t, one)

        w.loop(first, stop, some, step=self.tall)

    def sums(self, rows: list[str], other: str) -> list[V]:
        """The sums of several rows, along the whole depth."""
        w, kind, lanes, depth = self.w, self.kind, self.lanes, self.word.k
        tall, long = self.tall, self.long
        most = depth - depth.modulo(lanes * long)
        whole = depth - depth.modulo(lanes) if self.alone else most

        def several(count: int, k: V, *before: V) -> list[V]:
            places, after = iter(before), []
            if self.alone and count == long:
                self.ask_for([w.at(row, kind, k + self.word.x_row * tall) for row in rows])
            for v in range(count):
                y = w.load(other, kind, k + v * lanes, lanes)
                after += [
                    mad(w.load(row, kind, k + v * lanes, lanes), y, next(places)) for row in rows
                ]
            return after

        def single(k: V, *before: V) -> list[V]:
            y = w.load(other, kind, k)
            return [mad(w.load(row, kind, k), y, s) for row, s in zip(rows, before, strict=True)]

        zero = [w.code.const(0, kind, lanes)] * (tall * long)
        sums = w.loop(0, most, partial(several, long), zero, step=lanes * long)
        if self.alone:
            sums[:tall] = w.loop(most, whole, partial(several, 1), sums[:tall], step=lanes)
        totals = [w.total(sum(sums[r + tall :: tall], sums[r])) for r in range(tall)]
        return w.loop(whole, depth, single, totals)

    def ask_for(self, places: list[str]) -> None:
        """Have the lines of the next rows brought while these are multiplied."""
        size = self.long * self.lanes * self.item
        for place in places:
            for start in range(0, size, LINE):
                self.w.prefetch(place, start)


def dots_text(name: str, kind: str, alone: bool) -> Text:
    """The kernel of Note [thin products]."""
    return Dots(kind, alone).text(name)
