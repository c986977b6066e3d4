"""The kernels of bags: rows that indices pick are pooled as they are read.

Bags are dealt out among the workers. Gradients are dealt out by parts of the table, of which each
goes through all indices in order, so that repeated ones add up in one order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.registers.elementwise import (
    from_memory,
    kind_of,
    stored_kind,
    to_memory,
)
from adjoint.engine.backends.registers.vector import V, select
from adjoint.engine.core.dtype import DType

LANES = 8
AT_ONCE = 4  # vectors of a row that are added up at once
SUM, MEAN, MAX = "sum", "mean", "max"


@dataclass(slots=True)
class BagWords(LaunchWords):
    """A table, indices of its rows, and where among them bags begin."""

    table: Any  # of a gradient: the result
    index: Any
    begins: Any
    out: Any  # of a gradient: what comes back to the bags
    chosen: Any  # of maxima: the row of each
    bags: Any
    count: Any  # of indices
    length: Any  # of rows
    rows: Any
    status: Any
    bad_index: Any  # faults
    bad_bag: Any
    row_parts: Any  # of a gradient: parts of the table
    column_parts: Any
    pieces: Any


class Bags:
    """Writes one kernel."""

    def __init__(self, dtype: DType, mode: str, back: bool) -> None:
        self.dtype, self.mode, self.back = dtype, mode, back
        self.kind, self.stored = kind_of(dtype), stored_kind(dtype)
        self.w = w = CodeWriter()
        self.word = word = BagWords.read_by(w)
        self.table, self.index, self.begins, self.out, self.chosen = map(
            w.pointer, (word.table, word.index, word.begins, word.out, word.chosen)
        )

    def text(self, name: str) -> Text:
        """The kernel."""
        self.w.pieces(self.word.pieces, self.part if self.back else self.pool)
        return self.w.finish(name)

    # -- bags -----------------------------------------------------------------------------------

    def bounds(self, bag: V) -> tuple[V, V]:
        """Where a bag begins and ends among the indices."""
        w, word = self.w, self.word
        low = w.load(self.begins, "i64", bag)
        last = (bag + 1).eq(word.bags)
        following = w.load(self.begins, "i64", select(last, bag, bag + 1))
        return low, select(last, word.count, following)

    def report(self, fault: V, number: V) -> None:
        """Tell what is wrong."""
        store_fault(self.w.code, self.w.pointer(self.word.status), fault.ref, at=number)

    def checked(self, bag: V, body: Callable[[V, V], None]) -> None:
        """`body` with a bag's bounds, if it and all of its indices are what they should be."""
        w, word = self.w, self.word
        low, high = self.bounds(bag)
        begun = (bag > 0) | low.eq(0)
        good = begun & (low >= 0) & (low <= high) & (high <= word.count)
        w.when(~good, lambda: self.report(word.bad_bag, low))

        def indices() -> None:
            def one(i: V, fine: V) -> list[V]:
                at = w.load(self.index, "i64", i)
                inside = (at >= 0) & (at < word.rows)
                w.when(~inside, lambda: self.report(word.bad_index, at))
                return [fine & inside]

            (fine,) = w.loop(low, high, one, [w.code.const(True, "i1")])
            w.when(fine, lambda: body(low, high))

        w.when(good, indices)

    def columns(self, start: V, stop: V, vectors: int, body: Callable[[int, int, V], None]) -> None:
        """`body(lanes, vectors, column)` of all columns: so many vectors, one, then single ones."""
        w, wide = self.w, LANES * vectors
        whole = start + ((stop - start) - (stop - start).modulo(wide))
        w.loop(start, whole, lambda j: body(LANES, vectors, j), step=wide)
        most = whole
        if vectors > 1:
            most = whole + ((stop - whole) - (stop - whole).modulo(LANES))
            w.loop(whole, most, lambda j: body(LANES, 1, j), step=LANES)
        w.loop(most, stop, lambda j: body(1, 1, j))

    def load(self, base: str, at: V, lanes: int) -> V:
        """Neighbouring elements as numbers."""
        return from_memory(self.w.load(base, self.stored, at, lanes), self.dtype)

    def store(self, value: V, base: str, at: V) -> None:
        """Numbers as neighbouring elements."""
        self.w.store(to_memory(value, self.dtype), base, at)

    def row(self, i: V) -> V:
        """Where the row of an index begins."""
        return self.w.load(self.index, "i64", i) * self.word.length

    def pool(self, bag: V) -> None:
        """One bag."""
        vectors = 1 if self.mode == MAX else AT_ONCE
        pooled = self.largest if self.mode == MAX else self.total

        def body(low: V, high: V) -> None:
            def some(lanes: int, count: int, j: V) -> None:
                pooled(low, high, lanes, count, j, bag * self.word.length + j)

            self.columns(self.w.whole(0), self.word.length, vectors, some)

        self.checked(bag, body)

    def total(self, low: V, high: V, lanes: int, vectors: int, j: V, to: V) -> None:
        """The sum or mean of some columns."""
        w, code = self.w, self.w.code

        def add(i: V, *sums: V) -> list[V]:
            at = self.row(i) + j
            return [s + self.load(self.table, at + k * lanes, lanes) for k, s in enumerate(sums)]

        sums = w.loop(low, high, add, [code.const(0.0, self.kind, lanes)] * vectors)
        for k, one in enumerate(sums):
            if self.mode == MEAN:
                number = w.most(high - low, 1).convert(self.kind)
                one = one / code.splat(number, lanes)
            self.store(one, self.out, to + k * lanes)

    def largest(self, low: V, high: V, lanes: int, vectors: int, j: V, to: V) -> None:
        """The largest of some columns, and the first row that has it: none of an empty bag."""
        w, code = self.w, self.w.code

        def more(i: V, top: V, chosen: V) -> list[V]:
            number = w.load(self.index, "i64", i)
            new = self.load(self.table, number * self.word.length + j, lanes)
            better = (new > top) | (~new.eq(new) & top.eq(top)) | (chosen < 0)
            here = code.splat(number.convert("i32"), lanes)
            return [select(better, new, top), select(better, here, chosen)]

        begin = [code.const(0.0, self.kind, lanes), code.const(-1, "i32", lanes)]
        top, chosen = w.loop(low, high, more, begin)
        self.store(top, self.out, to)
        w.store(chosen.convert("i64"), self.chosen, to)

    # -- gradients ------------------------------------------------------------------------------

    def part(self, piece: V) -> None:
        """Some columns of some rows of the table: zeros, to which all of their bags are added."""
        w, word = self.w, self.word
        row_part, column_part = w.split(piece, word.column_parts)
        rows = [(word.rows * (row_part + k)).quotient(word.row_parts) for k in (0, 1)]
        start, stop = (
            (word.length * (column_part + k)).quotient(word.column_parts) for k in (0, 1)
        )

        def clear(row: V) -> None:
            def some(lanes: int, vectors: int, j: V) -> None:
                zero = w.code.const(0.0, self.kind, lanes)
                for k in range(vectors):
                    self.store(zero, self.table, row * word.length + j + k * lanes)

            self.columns(start, stop, AT_ONCE, some)

        w.loop(rows[0], rows[1], clear)

        def bag(b: V) -> None:
            self.checked(b, lambda low, high: self.spread(b, low, high, rows, start, stop))

        w.loop(0, word.bags, bag)

    def spread(self, bag: V, low: V, high: V, rows: list[V], start: V, stop: V) -> None:
        """What comes back to a bag added to its rows."""
        w, word, code = self.w, self.word, self.w.code
        number = w.most(high - low, 1).convert(self.kind)

        def one(i: V) -> None:
            row = w.load(self.index, "i64", i)

            def some(lanes: int, vectors: int, j: V) -> None:
                for k in range(vectors):
                    own = j + k * lanes
                    come = self.load(self.out, bag * word.length + own, lanes)
                    if self.mode == MEAN:
                        come = come / code.splat(number, lanes)
                    there = row * word.length + own
                    self.store(self.load(self.table, there, lanes) + come, self.table, there)

            mine = (row >= rows[0]) & (row < rows[1])
            w.when(mine, lambda: self.columns(start, stop, AT_ONCE, some))

        w.loop(low, high, one)
