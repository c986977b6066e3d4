"""Matrices copied into another order, by a routine that kernels of products call."""

from __future__ import annotations

from adjoint.backends.llvm.vector import V, select, width
from adjoint.backends.llvm.writer import Writer

AHEAD = 8  # rows that are asked for before they are copied: they may be far apart
SQUARE = 16  # bytes of the vectors that a square is turned with


def move(w: Writer, kind: str, wide: int, *numbers: V) -> None:
    """Call `to[q * step + p] = from[p * along_p + q * along_q]`.

    The numbers: addresses from and to, along_p, along_q, step, then how many p and q there are.
    Rows of `wide` neighbours are copied at once.
    """
    name = f"adjoint_move_{kind}_{wide}"
    w.routine(name, 7, lambda inner, given: _Move(inner, kind, wide, given).write())
    w.call(name, numbers)


class _Move:
    """Writes the routine."""

    def __init__(self, w: Writer, kind: str, wide: int, given: list[V]) -> None:
        self.w, self.kind, self.wide = w, kind, wide
        self.source, self.target = w.pointer(given[0]), w.pointer(given[1])
        self.along_p, self.along_q, self.step, self.p_count, self.q_count = given[2:]
        self.lanes = SQUARE * 8 // width(kind)

    def write(self) -> None:
        w = self.w
        rows = self.along_p.eq(1) & (self.p_count >= self.wide)
        squares = self.along_q.eq(1) & (w.least(self.p_count, self.q_count) >= self.lanes)
        squares = squares & ~rows
        w.when(rows, self.copy)
        w.when(squares, self.turn)
        w.when(~(rows | squares), self.single)

    def single(self) -> None:
        """Element by element."""
        w = self.w

        def q_turn(q: V) -> None:
            row = w.at(self.source, self.kind, q * self.along_q)
            to = w.at(self.target, self.kind, q * self.step)

            def p_turn(p: V) -> None:
                w.store(w.load(row, self.kind, p * self.along_p), to, p)

            w.loop(0, self.p_count, p_turn)

        w.loop(0, self.q_count, q_turn)

    def copy(self) -> None:
        """p lies along memory on both sides; the last few p are copied with some before them."""
        w, wide = self.w, self.wide

        def q_turn(q: V) -> None:
            row = w.at(self.source, self.kind, q * self.along_q)
            to = w.at(self.target, self.kind, q * self.step)
            later = w.at(row, self.kind, self.along_q * AHEAD)

            def p_turn(p: V) -> None:
                p = w.least(p, self.p_count - wide)
                w.prefetch(w.at(later, self.kind, p), 0)
                w.store(w.load(row, self.kind, p, wide), to, p)

            w.loop(0, self.p_count, p_turn, step=wide)

        w.loop(0, self.q_count, q_turn)

    def turn(self) -> None:
        """q lies along memory at the source, p at the target: squares are transposed.

        Those at the ends overlap the ones before them.
        """
        w, lanes = self.w, self.lanes
        rest = self.q_count.modulo(lanes)

        def p_turn(p: V) -> None:
            p = w.least(p, self.p_count - lanes)
            rows = [w.at(self.source, self.kind, (p + i) * self.along_p) for i in range(lanes)]
            to = w.at(self.target, self.kind, p)

            def q_turn(q: V) -> None:
                square = w.transposed([w.load(row, self.kind, q, lanes) for row in rows])
                for i, x in enumerate(square):
                    w.store(x, to, (q + i) * self.step)

            def run(number: V) -> None:  # first what is whole, then the last square
                first = number.eq(0)
                start = select(first, w.whole(0), self.q_count - lanes)
                w.loop(start, select(first, self.q_count - rest, self.q_count), q_turn, step=lanes)

            w.loop(0, rest.ne(0).convert("i64") + 1, run)

        w.loop(0, self.p_count, p_turn, step=lanes)
