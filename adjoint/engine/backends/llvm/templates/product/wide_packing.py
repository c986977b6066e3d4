"""Matrices copied into panels on wide registers, of any width by one routine (`packing.move`).

Note [turned panels]
    A matrix whose columns are contiguous is turned while it is copied: of as many rows as a vector
    has lanes, 16 bytes each are read, four vectors are made of them so that what lies side by side
    in a quarter of one is turned within that quarter, and each result is a whole line of a panel.

Note [copied panels]
    Where rows are contiguous and near, panels are copied one after another, in the fewest
    instructions. Where they are far, four vectors of one are copied in a turn, which are one panel,
    two or four. Which lanes of them a panel has does not change from turn to turn, so that a panel
    of twelve takes no longer than one of sixteen; only the last turn of a row has masks of its own,
    and leaves out vectors without lanes: to store none of them, where memory was never written,
    takes as long as to store many.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adjoint.engine.backends.llvm.ir.masked import masked_store
from adjoint.engine.backends.llvm.ir.writer import LINE, CodeWriter
from adjoint.engine.backends.registers.vector import V, select, width

AHEAD = 8  # rows that are asked for before they are copied: they may be far apart
TOGETHER = 4  # vectors that are copied in a turn; a panel is no wider
PAIR = 2  # vectors of most panels
NEAR = 1 << 17  # bytes of memory that is gone through once for each panel
QUARTER = 16  # bytes
NUMBERS = 10  # of the routine


class WideMove:
    """Writes the routine, whose last number is how wide panels are."""

    def __init__(self, w: CodeWriter, kind: str, given: list[V]) -> None:
        self.w, self.kind = w, kind
        self.source, self.target = w.pointer(given[0]), w.pointer(given[1])
        self.along_p, self.along_q, self.step, self.jump = given[2:6]
        self.p_count, self.p_stop, self.q_count, self.wide = given[6:]
        self.item = width(kind) // 8
        self.lanes = LINE // self.item
        self.square = QUARTER // self.item

    def write(self) -> None:
        w = self.w
        rows = self.along_p.eq(1)
        squares = self.along_q.eq(1) & (self.q_count >= self.square)
        span = self.q_count * self.along_q * self.item
        near = rows & self.wide.eq(PAIR * self.lanes) & (span <= NEAR)
        w.when(near, self.copy_near)
        w.when(rows & ~near, self.copy)
        w.when(squares & ~rows, lambda: self.each_panel(self.turn))
        w.when(~squares & ~rows, lambda: self.each_panel(self.single))

    def copy_near(self) -> None:
        """The same of panels of two vectors, from near memory."""
        w, kind = self.w, self.kind
        offsets = [w.whole(i * self.lanes) for i in range(PAIR)]

        def panel(number: V) -> None:
            start = number * self.wide
            source = w.at(self.source, kind, start)
            target = w.at(self.target, kind, number * self.jump)
            held = [self.below(self.p_count - start, offset) for offset in offsets]
            kept = [self.below(self.p_stop - start, offset) for offset in offsets]

            def q_turn(q: V) -> None:
                row = w.at(source, kind, q * self.along_q)
                later = w.at(row, kind, self.along_q * AHEAD)
                to = w.at(target, kind, q * self.step)
                for offset, mine, theirs in zip(offsets, held, kept, strict=True):
                    w.prefetch(w.at(later, kind, offset), 0)
                    w.store_some(theirs, w.load_some(mine, kind, row, offset), to, offset)

            w.loop(0, self.q_count, q_turn)

        w.loop(0, (self.p_stop + (self.wide - 1)).quotient(self.wide), panel)

    def copy(self) -> None:
        """p lies along memory on both sides (Note [copied panels])."""
        w, kind, lanes = self.w, self.kind, self.lanes
        none = w.whole(0)
        vectors = (self.wide + (lanes - 1)).quotient(lanes)  # of a panel
        panels = w.most(w.whole(TOGETHER).quotient(vectors), 1)
        stride, jump = panels * self.wide, panels * self.jump
        count = self.p_count.quotient(stride)
        rest, padded = self.p_count - count * stride, self.p_stop - count * stride
        places: list[tuple[V, V]] = []
        whole, held, kept = [], [], []
        for i in range(TOGETHER):
            panel, inside = w.split(w.whole(i), vectors)
            start, inside = panel * self.wide, inside * lanes
            places.append((start + inside, panel * self.jump + inside))
            # Of panels of three vectors one is copied in a turn: the fourth vector is none.
            whole.append(self.below(select(panel < panels, self.wide, none), inside))
            held.append(self.below(rest - start, inside))
            kept.append(self.below(padded - start, inside))

        def one(i: int, row: str, later: str, to: str, held: list[V], kept: list[V]) -> None:
            source, target = places[i]
            w.prefetch(w.at(later, kind, source), 0)
            w.store_some(kept[i], w.load_some(held[i], kind, row, source), to, target)

        def q_turn(q: V) -> None:
            row = w.at(self.source, kind, q * self.along_q)
            later = w.at(row, kind, self.along_q * AHEAD)
            to = w.at(self.target, kind, q * self.step)

            def turn(number: V) -> None:
                start = number * stride
                here = w.at(to, kind, number * jump)
                where = w.at(row, kind, start), w.at(later, kind, start), here
                for i in range(TOGETHER):
                    one(i, *where, whole, whole)

            w.loop(0, count, turn)
            start = count * stride
            where = w.at(row, kind, start), w.at(later, kind, start), w.at(to, kind, count * jump)
            for i, (source, _) in enumerate(places):
                w.when(padded > source, partial(one, i, *where, held, kept))

        w.loop(0, self.q_count, q_turn)

    def below(self, count: V, p: V) -> V:
        """The lanes from p on that are below a count, and within a panel."""
        return self.w.lanes_below(self.w.least(count, self.wide) - p, self.lanes)

    def each_panel(self, write: Callable[[str, str, V, V], None]) -> None:
        """Write all vectors: from where, to where, how many p there are, the lanes kept."""
        w = self.w

        def panel(number: V) -> None:
            start, to = number * self.wide, w.at(self.target, self.kind, number * self.jump)

            def vector(p: V) -> None:
                source = w.at(self.source, self.kind, (start + p) * self.along_p)
                held = w.least(w.least(self.p_count - start, self.wide) - p, self.lanes)
                kept = self.below(self.p_stop - start, p)
                write(source, w.at(to, self.kind, p), held, kept)

            w.loop(0, w.least(self.p_stop - start, self.wide), vector, step=self.lanes)

        w.loop(0, (self.p_stop + (self.wide - 1)).quotient(self.wide), panel)

    def turn(self, source: str, to: str, held: V, kept: V) -> None:
        """q lies along memory at the source, p at the target (Note [turned panels])."""
        w, kind, square = self.w, self.kind, self.square
        none = w.whole(0)
        last = held - 1  # beyond it, it is taken again; it lies before the source if none is held
        rows = [w.at(source, kind, w.least(last, p) * self.along_p) for p in range(self.lanes)]
        mask = w.lanes_below(held, self.lanes)
        rest = self.q_count.modulo(square)

        def ask(p: V) -> None:  # short rows end before the processor knows where the next begin
            row = w.at(source, kind, p * self.along_p)
            for offset in (0, LINE):
                w.prefetch(row, offset)

        def q_turn(q: V) -> None:
            read = [w.load(row, kind, q, square) for row in rows]
            columns = self.turned([self.joined(read[j::square]) for j in range(square)])
            for i, x in enumerate(columns):
                place = w.at(to, kind, (q + i) * self.step)
                masked_store(kept, select(mask, x, 0), place, self.item)

        def run(number: V) -> None:  # what is whole, then a last square, with some q once more
            first = number.eq(0)
            start = select(first, none, self.q_count - square)
            w.loop(start, select(first, self.q_count - rest, self.q_count), q_turn, step=square)

        w.loop(self.lanes, w.whole(2 * self.lanes), ask)
        w.loop(0, rest.ne(0).convert("i64") + 1, run)

    def joined(self, parts: list[V]) -> V:
        """Vectors as one."""
        while len(parts) > 1:
            lanes = range(2 * parts[0].lanes)
            parts = [self.w.pick(a, b, lanes) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def turned(self, rows: list[V]) -> list[V]:
        """Quarters of vectors turned as squares, by interleaving the halves of each."""
        square, size = self.square, 1
        while size < square:
            lower = [
                start + half * self.lanes + size * chunk + i
                for start in range(0, self.lanes, square)
                for chunk in range(square // (2 * size))
                for half in (0, 1)
                for i in range(size)
            ]
            upper = [lane + square // 2 for lane in lower]
            rows = [
                self.w.pick(rows[i], rows[i + size], which)
                for i in range(square)
                if not i & size
                for which in (lower, upper)
            ]
            size *= 2
        return rows

    def single(self, source: str, to: str, held: V, kept: V) -> None:
        """Element by element."""
        w, kind = self.w, self.kind

        def q_turn(q: V) -> None:
            here, there = w.at(source, kind, q * self.along_q), w.at(to, kind, q * self.step)
            w.store_some(kept, w.code.const(0, kind, self.lanes), there, w.whole(0))

            def one(p: V) -> None:
                w.store(w.load(here, kind, p * self.along_p), there, p)

            w.loop(0, held, one)

        w.loop(0, self.q_count, q_turn)
