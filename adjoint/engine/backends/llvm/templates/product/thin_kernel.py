"""The kernel of products with a thin operand: each result is a sum along two rows.

Note [thin products]
    Where a matrix meets a few rows only, packing it would cost more than multiplying it. So the
    depth lies along the lanes: some rows of the matrix are multiplied with some of the thin
    operand's, each with each, and each vector of sums is added up at the end. Both operands have
    contiguous rows. Several of both: what is loaded is used as often as there are of the other.

    One row alone reads each element of the matrix once, so memory decides: two rows at a time, far
    along, and those after them asked for, which the processor does not do by itself where rows are
    short. From memory that is a third faster than four rows at a time.

    A great depth is summed in blocks, whose sums are added: of one long sum the rounding errors
    would grow with its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import LINE, CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.row_kernel import member_at
from adjoint.engine.backends.llvm.templates.product.tiles import inner_tile
from adjoint.engine.backends.registers.vector import V, mad, width

LONG = 2  # vectors of each row at a time, where registers hold their sums
ALONE, AHEAD = 2, 128  # rows at a time for one alone, and bytes of each
BLOCK = 2048  # elements of the depth that are summed by themselves


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


def columns_together(kind: str, count: int) -> int:
    """How many of so many columns are multiplied at once: turns are of one size, or nearly."""
    most = inner_tile(kind).vectors
    return -(-count // -(-count // most))


class Dots:
    """Writes the kernel: C[i, t] = sum over k of X[i, k] Y[t, k].

    So many columns t are multiplied at once; 0: there is one alone.
    """

    def __init__(self, kind: str, together: int) -> None:
        self.kind, self.item = kind, width(kind) // 8
        tile = inner_tile(kind)
        self.lanes = tile.lanes
        self.alone, self.together = not together, max(together, 1)
        self.tall = ALONE if self.alone else tile.rows
        self.long = LONG if LONG * self.together < tile.vectors else 1
        if self.alone:
            self.long = max(AHEAD // (self.lanes * self.item), LONG)
        self.w = w = CodeWriter(as_written=True)
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
            # The last are done with some before them, which gives these the same sums again.
            rows = [w.least(i + r, stop - 1) for r in range(self.tall)]
            mine = [w.at(x, self.kind, row * word.x_row) for row in rows]

            def columns(t: V) -> None:
                ts = [w.least(t + n, word.t - 1) for n in range(self.together)]
                others = [w.at(y, self.kind, n * word.y_row) for n in ts]
                sums = iter(self.sums(mine, others))
                for n in ts:
                    for row in rows:
                        w.store(next(sums), c, row * word.c_row + n * word.c_t)

            w.loop(0, word.t, columns, step=self.together)

        w.loop(first, stop, some, step=self.tall)

    def sums(self, rows: list[str], others: list[str]) -> list[V]:
        """The sums of each row with each other, along the whole depth; those of an other first."""
        w, depth = self.w, self.word.k

        def block(start: V, *before: V) -> list[V]:
            more = self.sums_of_block(rows, others, start, w.least(start + BLOCK, depth))
            return [total + x for total, x in zip(before, more, strict=True)]

        none = [w.code.const(0, self.kind, 1)] * (len(rows) * len(others))
        return w.loop(0, depth, block, none, step=BLOCK)

    def sums_of_block(self, rows: list[str], others: list[str], start: V, stop: V) -> list[V]:
        """The same along a part of the depth."""
        w, kind, lanes = self.w, self.kind, self.lanes
        count = len(rows) * len(others)
        most = stop - (stop - start).modulo(lanes * self.long)
        whole = stop - (stop - start).modulo(lanes)

        def added(k: V, wide: int, before: Sequence[V]) -> list[V]:
            ys = [w.load(other, kind, k, wide) for other in others]
            xs = [w.load(row, kind, k, wide) for row in rows]
            pairs = [(x, y) for y in ys for x in xs]
            return [mad(x, y, total) for (x, y), total in zip(pairs, before, strict=True)]

        def several(vectors: int, k: V, *before: V) -> list[V]:
            after: list[V] = []
            if self.alone and vectors == self.long:
                self.ask_for([w.at(row, kind, k + self.word.x_row * self.tall) for row in rows])
            for v in range(vectors):
                after += added(k + v * lanes, lanes, before[v * count : (v + 1) * count])
            return after

        sums = [w.code.const(0, kind, lanes)] * (count * self.long)
        sums = w.loop(start, most, partial(several, self.long), sums, step=lanes * self.long)
        if self.long > 1:
            sums[:count] = w.loop(most, whole, partial(several, 1), sums[:count], step=lanes)
        totals = self.added_up([sum(sums[n + count :: count], sums[n]) for n in range(count)])
        return w.loop(whole, stop, lambda k, *before: added(k, 1, before), totals)

    def added_up(self, sums: list[V]) -> list[V]:
        """The sums of vectors' lanes; those of as many vectors as there are lanes together."""
        w, lanes = self.w, self.lanes
        whole = len(sums) - len(sums) % lanes
        groups = [w.totals(sums[n : n + lanes]) for n in range(0, whole, lanes)]
        together = [w.lane(group, lane) for group in groups for lane in range(lanes)]
        return together + [w.total(x) for x in sums[whole:]]

    def ask_for(self, places: list[str]) -> None:
        """Have the lines of the next rows brought while these are multiplied."""
        size = self.long * self.lanes * self.item
        for place in places:
            for start in range(0, size, LINE):
                self.w.prefetch(place, start)


def dots_text(name: str, kind: str, together: int) -> Text:
    """The kernel of Note [thin products]."""
    return Dots(kind, together).text(name)
