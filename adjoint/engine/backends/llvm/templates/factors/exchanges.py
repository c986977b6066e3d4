"""The kernels of triangular factors of any matrix, and of what its exchanges of rows come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.factors.kernel import MatrixWriter
from adjoint.engine.backends.registers.vector import V, select


class LowerUpper(MatrixWriter):
    """OUT = L and U in one matrix; at `b` the row that each was exchanged with, counted from 1."""

    def __init__(self, kind: str, checked: bool) -> None:
        super().__init__(kind)
        self.checked = checked

    def matrix(self, p: V) -> None:
        w, n, m = self.w, self.n, self.m
        out = self.place(self.word.out, p * n * m)
        self.copy(self.place(self.word.a, p * n * m), out, n * m)
        self.settle_info(p)
        count = w.least(n, m)
        pivots = w.at(w.pointer(self.word.b), "i32", p * count)
        w.loop(0, count, lambda k: self.column(out, pivots, p, k))

    def column(self, out: str, pivots: str, p: V, k: V) -> None:
        """Clear a column below the diagonal, and keep what cleared it there."""
        w, kind, n, m = self.w, self.kind, self.n, self.m

        def element(i: V, j: V) -> V:
            return w.load(out, kind, i * m + j)

        def larger(i: V, size: V, at: V) -> list[V]:
            other = abs(element(i, k))
            is_larger = other > size
            return [select(is_larger, other, size), select(is_larger, i, at)]

        _, at = w.loop(k + 1, n, larger, [abs(element(k, k)), k])
        w.store((at + 1).convert("i32"), pivots, k)
        w.when(~at.eq(k), lambda: self.exchange(self.row(out, k, m), self.row(out, at, m), m))
        pivot = element(k, k)
        none = pivot.eq(0.0)
        w.when(none, lambda: self.note(p, k))

        def below(i: V) -> None:
            # Where the largest is 0, so is all that is below it.
            rate = select(none, element(i, k), element(i, k) / pivot)
            w.store(rate, out, i * m + k)
            self.add(self.row(out, i, m), self.row(out, k, m), -rate, k + 1, m)

        w.loop(k + 1, n, below)

    def note(self, p: V, k: V) -> None:
        """Tell the first place without a pivot."""
        w, info = self.w, self.w.pointer(self.word.info)
        before = w.load(info, "i32", p)
        w.store(select(before.eq(0), (k + 1).convert("i32"), before), info, p)
        if self.checked:
            self.fail(k)


@dataclass(slots=True)
class ExchangeWords(LaunchWords):
    """Rows of exchanges, and the order that each puts `size` things in."""

    pivots: Any
    out: Any
    rows: Any
    count: Any  # of exchanges
    size: Any
    status: Any
    fault: Any


def order_text(name: str, inverse: bool) -> Text:
    """The order after all exchanges, or the one that undoes it: the last exchange first."""
    w = CodeWriter()
    word = ExchangeWords.read_by(w)

    def row(p: V) -> None:
        pivots = w.at(w.pointer(word.pivots), "i32", p * word.count)
        out = w.at(w.pointer(word.out), "i64", p * word.size)
        w.loop(0, word.size, lambda i: w.store(i, out, i))

        def exchange(turn: V) -> None:
            i = word.count - 1 - turn if inverse else turn
            j = w.load(pivots, "i32", i).convert("i64") - 1

            def swap() -> None:
                one, other = w.load(out, "i64", i), w.load(out, "i64", j)
                w.store(other, out, i)
                w.store(one, out, j)

            fits = (j >= 0) & (j < word.size)
            w.when(fits, swap)
            status = w.pointer(word.status)
            w.when(~fits, lambda: store_fault(w.code, status, word.fault.ref, at=j + 1))

        w.loop(0, word.count, exchange)

    w.pieces(word.rows, row)
    return w.finish(name)
