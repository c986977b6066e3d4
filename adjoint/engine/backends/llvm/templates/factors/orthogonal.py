"""The kernel of orthogonal factors: Householder's reflections, with the signs LAPACK gives them."""

from __future__ import annotations

from adjoint.engine.backends.llvm.templates.factors.kernel import MatrixWriter
from adjoint.engine.backends.registers.vector import V, select


class Orthogonal(MatrixWriter):
    """`out` = Q, `info` = R with `a` = Q R; Q has as many columns, and R rows, as `wide` says."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.rows, self.columns, self.wide = self.word.n, self.word.m, self.word.wide
        self.count = self.w.least(self.rows, self.columns)  # of reflections

    def matrix(self, p: V) -> None:
        w, rows, columns = self.w, self.rows, self.columns
        size = rows * columns
        longest = w.most(rows, columns)
        work = self.place(self.word.copy, p * (size + self.count + longest))
        self.rates = w.at(work, self.kind, size)
        self.line = w.at(work, self.kind, size + self.count)
        self.copy(self.place(self.word.a, p * size), work, size)
        w.loop(0, self.count, lambda k: self.reflect(work, k))
        self.collect(work, self.place(self.word.out, p * rows * self.wide))
        self.put_triangle(work, self.place(self.word.info, p * self.wide * columns))

    def reflect(self, work: str, k: V) -> None:
        """Clear a column below the diagonal, and leave there what its reflection is made of."""
        w, kind, rows, columns = self.w, self.kind, self.rows, self.columns
        head = w.load(work, kind, k * columns + k)
        nothing = w.code.const(0, kind)

        def larger(i: V, most: V) -> list[V]:
            size = abs(w.load(work, kind, i * columns + k))
            return [select((size > most) | size.isnan(), size, most)]

        (most,) = w.loop(k + 1, rows, larger, [nothing])
        flat = most.eq(0.0)
        scale = w.most(most, abs(head))
        scale = select(flat, 1.0, scale)

        def squared(i: V, total: V) -> list[V]:
            x = w.load(work, kind, i * columns + k) / scale
            return [total + x * x]

        first = head / scale
        (total,) = w.loop(k + 1, rows, squared, [first * first])
        length = total.sqrt() * scale
        left = select(flat, head, -length.copysign(head))
        rate = select(flat, 0.0, (left - head) / left)
        w.store(rate, self.rates, k)

        def settle() -> None:
            part = head - left

            def divide(i: V) -> None:
                at = i * columns + k
                w.store(w.load(work, kind, at) / part, work, at)

            w.loop(k + 1, rows, divide)
            w.store(left, work, k * columns + k)
            self.apply(work, work, k, columns, k + 1)

        w.when(~flat, settle)

    def apply(self, work: str, target: str, k: V, width: V, start: V) -> None:
        """Reflect the rows of a matrix from a column on."""
        w, kind, columns = self.w, self.kind, self.columns
        mine = self.row(target, k, width)

        def element(j: V) -> None:
            w.store(w.load(mine, kind, j), self.line, j)

        w.loop(start, width, element)

        def gather(i: V) -> None:
            factor = w.load(work, kind, i * columns + k)
            self.add(self.line, self.row(target, i, width), factor, start, width)

        w.loop(k + 1, self.rows, gather)
        rate = -w.load(self.rates, kind, k)
        self.add(mine, self.line, rate, start, width)

        def change(i: V) -> None:
            factor = w.load(work, kind, i * columns + k) * rate
            self.add(self.row(target, i, width), self.line, factor, start, width)

        w.loop(k + 1, self.rows, change)

    def collect(self, work: str, out: str) -> None:
        """The product of all reflections, the last one first."""
        w, wide = self.w, self.wide
        self.clear(out, self.rows * wide)
        one = w.code.const(1, self.kind)
        w.loop(0, w.least(self.rows, wide), lambda i: w.store(one, out, i * wide + i))

        def turn(number: V) -> None:
            k = self.count - 1 - number
            self.apply(work, out, k, wide, w.whole(0))

        w.loop(0, self.count, turn)

    def put_triangle(self, work: str, out: str) -> None:
        """The upper triangle, zeros elsewhere."""
        w, kind, columns = self.w, self.kind, self.columns

        def line(i: V) -> None:
            def element(j: V) -> None:
                at = i * columns + j
                inside = (j >= i) & (i < self.count)
                value = w.load(work, kind, select(inside, at, 0))
                w.store(select(inside, value, 0.0), out, at)

            w.loop(0, columns, element)

        w.loop(0, self.wide, line)
