"""What kernels over windows share: tables of where elements lie.

Note [walks]
    A convolution runs over positions of its result: example and up to three coordinates, counted
    as one index. A walk turns a run of that index into elements' offsets in one or two arrays, by
    counting rather than dividing; kernels then take vectors of neighbouring positions where these
    are neighbours in memory, and single elements where they are not (at the ends of rows, with
    strides).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.registers.vector import V, select

RANK = 3  # coordinates, beside the example


class PositionWalk:
    """Positions as elements' offsets in one or more arrays."""

    def __init__(self, w: CodeWriter, sizes: Sequence[V], strides: Sequence[Sequence[V]]) -> None:
        self.w = w
        self.sizes = sizes  # of the coordinates
        self.strides = strides  # for each array: of the example, then of the coordinates

    def fill(self, tables: Sequence[str], first: V, count: V, total: V) -> None:
        """Offsets of `count` positions from `first` on, into tables; beyond `total`, the last.

        Row by row, so that coordinates are carried once in a row.
        """
        w = self.w
        valid = w.least(total - first, count)
        where: list[V] = []
        rest = first
        for size in reversed(self.sizes):
            rest, at = w.split(rest, size)
            where.insert(0, at)
        width, x = self.sizes[-1], where.pop()
        rows = (x + valid + width - 1).quotient(width)

        def row(r: V, *at: V) -> list[V]:
            start = r * width - x  # where in the tables the row's first position would be
            self.fill_row(tables, at, start, w.most(start, 0), w.least(start + width, valid))
            carry = w.whole(1)
            following: list[V] = []
            for a, size in zip(reversed(at[1:]), reversed(self.sizes[:-1]), strict=True):
                over = (a + carry).eq(size)
                following.insert(0, select(over, w.whole(0), a + carry))
                carry = over.convert("i64")
            return [at[0] + carry, *following]

        w.loop(0, rows, row, [rest, *where])
        for table in tables:
            last = w.load(table, "i64", valid - 1)
            w.loop(valid, count, lambda j, table=table, last=last: w.store(last, table, j))

    def fill_row(self, tables: Sequence[str], at: Sequence[V], start: V, low: V, high: V) -> None:
        """The positions `low` to `high` of one row into tables."""
        w = self.w
        bases = []
        for strides in self.strides:
            base = at[0] * strides[0] - start * strides[-1]
            for a, s in zip(at[1:], strides[1:-1], strict=True):
                base = base + a * s
            bases.append(base)

        def turn(j: V) -> None:
            for table, base, strides in zip(tables, bases, self.strides, strict=True):
                w.store(base + j * strides[-1], table, j)

        w.loop(low, high, turn)

    def neighbours(self, table: str, j: V, lanes: int) -> V:
        """Whether a vector's positions from `j` on are neighbours in memory."""
        w = self.w
        places = [w.load(table, "i64", j + lane) for lane in range(lanes)]
        near = (places[1] - places[0]).eq(1)
        for before, after in pairwise(places[1:]):
            near = near & (after - before).eq(1)
        return near

    def flag(self, table: str, flags: str, count: V, lanes: int, limit: V) -> None:
        """For each of `count` vectors whether its positions are neighbours, all below `limit`."""
        w = self.w

        def vector(v: V) -> None:
            j = v * lanes
            good = self.neighbours(table, j, lanes) & (j + lanes <= limit)
            w.store(good.convert("i64"), flags, v)

        w.loop(0, count, vector)
