"""Matrices copied into another order, by a routine that kernels of products call."""

from __future__ import annotations

from adjoint.engine.backends.llvm.ir.writer import LINE, CodeWriter
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers
from adjoint.engine.backends.llvm.templates.product.wide_packing import TOGETHER, WideMove
from adjoint.engine.backends.registers.vector import V, select, width

SQUARE = 16  # bytes of the vectors that a square is turned with
AHEAD = 8  # rows that are asked for before they are copied: they may be far apart
NUMBERS = 9  # of the routine


def move(w: CodeWriter, kind: str, wide: int | V, *numbers: V) -> None:
    """Call `to[p // wide * jump + p % wide + q * step] = from[p * along_p + q * along_q]`.

    The numbers: addresses from and to; along_p, along_q, step and jump; how many p there are, up to
    which p there are to be zeros in the result, and how many q there are. Only on wide registers
    `wide` may be known at run time alone.
    """
    if has_wide_registers():
        if isinstance(wide, int) and wide * width(kind) > TOGETHER * LINE * 8:
            raise ValueError(f"panels of {wide} columns are wider than the routine copies at once")
        name = f"adjoint_move_{kind}"

        def write(inner: CodeWriter, given: list[V]) -> None:
            WideMove(inner, kind, given).write()

        w.routine(name, NUMBERS + 1, write, as_written=True)
        w.call(name, [*numbers, w.whole(wide) if isinstance(wide, int) else wide])
        return
    assert isinstance(wide, int)
    name = f"adjoint_move_{kind}_{wide}"
    w.routine(
        name,
        NUMBERS,
        lambda inner, given: _Move(inner, kind, wide, given).write(),
        as_written=True,
    )
    w.call(name, numbers)


class _Move:
    """Writes the routine."""

    def __init__(self, w: CodeWriter, kind: str, wide: int, given: list[V]) -> None:
        self.w, self.kind, self.wide = w, kind, wide
        self.source, self.target = w.pointer(given[0]), w.pointer(given[1])
        self.along_p, self.along_q, self.step, self.jump = given[2:6]
        self.p_count, self.p_stop, self.q_count = given[6:]
        self.lanes = SQUARE * 8 // width(kind)
        self.narrow = max(wide // 4, 1)  # elements that parts of panels are copied by

    def write(self) -> None:
        w = self.w
        rows = self.along_p.eq(1)
        squares = self.along_q.eq(1) & (self.q_count >= self.lanes) & ~rows
        w.when(rows, self.copy)
        w.when(squares, self.turn)
        few = self.p_count.modulo(self.wide).modulo(self.narrow)
        rest = select(rows, few, self.p_count.modulo(self.lanes))
        self.single(select(rows | squares, self.p_count - rest, w.whole(0)))

    def to(self, p: V) -> str:
        """Where p's elements go."""
        panel, inside = self.w.split(p, self.w.whole(self.wide))
        return self.w.at(self.target, self.kind, panel * self.jump + inside)

    def copy(self) -> None:
        """p lies along memory on both sides: whole panels of it, then a part of one."""
        w, wide, narrow = self.w, self.wide, self.narrow
        panels = self.p_count.quotient(wide)
        whole = panels * wide
        left = self.p_count - whole
        left = left - left.modulo(narrow)
        lines = range(0, max(wide * width(self.kind) // 8, 1), LINE)

        def q_turn(q: V) -> None:
            row = w.at(self.source, self.kind, q * self.along_q)
            later = w.at(row, self.kind, self.along_q * AHEAD)
            to = w.at(self.target, self.kind, q * self.step)
            part, last = w.at(row, self.kind, whole), w.at(to, self.kind, panels * self.jump)

            def p_turn(panel: V) -> None:
                for offset in lines:
                    w.prefetch(w.at(later, self.kind, panel * wide), offset)
                w.store(w.load(row, self.kind, panel * wide, wide), to, panel * self.jump)

            w.loop(0, panels, p_turn)
            w.when(left > 0, lambda: w.prefetch(w.at(later, self.kind, whole), 0))
            w.loop(0, left, lambda p: few(part, last, p), step=narrow)

        def few(row: str, to: str, p: V) -> None:
            w.store(w.load(row, self.kind, p, narrow), to, p)

        w.loop(0, self.q_count, q_turn)

    def turn(self) -> None:
        """q lies along memory at the source, p at the target: squares are transposed."""
        w, lanes = self.w, self.lanes
        rest = self.q_count.modulo(lanes)

        def p_turn(p: V) -> None:
            rows = [w.at(self.source, self.kind, (p + i) * self.along_p) for i in range(lanes)]
            to = self.to(p)
            for row in rows:  # short rows end before the processor knows where the next begin
                for offset in (0, LINE):
                    w.prefetch(w.at(row, self.kind, self.along_p * AHEAD), offset)

            def q_turn(q: V) -> None:
                square = w.transposed([w.load(row, self.kind, q, lanes) for row in rows])
                for i, x in enumerate(square):
                    w.store(x, to, (q + i) * self.step)

            def run(number: V) -> None:  # what is whole, then a last square, with some q once more
                first = number.eq(0)
                start = select(first, w.whole(0), self.q_count - lanes)
                w.loop(start, select(first, self.q_count - rest, self.q_count), q_turn, step=lanes)

            w.loop(0, rest.ne(0).convert("i64") + 1, run)

        w.loop(0, self.p_count - self.p_count.modulo(lanes), p_turn, step=lanes)

    def single(self, p_start: V) -> None:
        """The other p element by element, then zeros."""
        w = self.w

        def p_turn(p: V) -> None:
            inside = p < self.p_count
            column = w.at(self.source, self.kind, w.least(p, self.p_count - 1) * self.along_p)
            to = self.to(p)

            def q_turn(q: V) -> None:
                x = w.load(column, self.kind, q * self.along_q)
                w.store(select(inside, x, 0), to, q * self.step)

            w.loop(0, self.q_count, q_turn)

        w.loop(p_start, self.p_stop, p_turn)
