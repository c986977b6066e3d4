"""The kernel of the exponentials of matrices: scaled, by the series, and squared again.

Up to a norm of 1 twenty terms are right to 2^-64. They are summed by fives, so that seven products
do; each halving of the norm is a product more.
"""

from __future__ import annotations

from math import factorial

from adjoint.engine.backends.llvm.templates.factors.kernel import MatrixWriter
from adjoint.engine.backends.registers.vector import V, select

TERMS, BLOCK = 20, 5
ROOM = BLOCK + 1  # matrices that one needs besides its result
MOST = 1100  # halvings: beyond, a double is no number that is finite


class MatrixExponential(MatrixWriter):
    """OUT = 1 + A + A^2 / 2 + ..., of doubles; NaN where a matrix is not finite."""

    def matrix(self, p: V) -> None:
        w, n = self.w, self.n
        size = n * n
        given, out = self.place(self.word.a, p * size), self.place(self.word.out, p * size)
        room = self.place(self.word.copy, p * size * ROOM)
        *powers, spare = (w.at(room, self.kind, size * k) for k in range(ROOM))
        norm = self.norm(given)
        finite = (norm - norm).eq(0.0)
        nan = w.code.const(float("nan"), self.kind)
        w.when(~finite, lambda: w.loop(0, size, lambda i: w.store(nan, out, i)))
        w.when(finite, lambda: self.finite(given, out, powers, spare, norm))

    def norm(self, x: str) -> V:
        """The largest sum of a row's sizes; not finite where an element is not."""
        w, n, kind = self.w, self.n, self.kind
        zero = w.code.const(0, kind)

        def line(i: V, most: V) -> list[V]:
            add = lambda j, total: [total + abs(self.number(x, i, j))]
            (total,) = w.loop(0, n, add, [zero])
            return [select((total > most) | ~total.eq(total), total, most)]

        return w.loop(0, n, line, [zero])[0]

    def finite(self, given: str, out: str, powers: list[str], spare: str, norm: V) -> None:
        w, size, kind = self.w, self.n * self.n, self.kind
        one = w.code.const(1, kind)
        _, scale, halvings = w.repeat(
            [norm, one, w.whole(0)],
            lambda rest, scale, halvings: (rest > 1.0) & (halvings < MOST),
            lambda rest, scale, halvings: [rest * 0.5, scale * 0.5, halvings + 1],
        )
        w.loop(0, size, lambda i: w.store(w.load(given, kind, i) * scale, powers[0], i))
        for k in range(1, BLOCK):
            self.multiply(powers[k - 1], powers[0], powers[k])
        top = powers[-1]
        last = 1 / factorial(TERMS)
        w.loop(0, size, lambda i: w.store(w.load(top, kind, i) * last, out, i))
        for first in range(TERMS - BLOCK, -1, -BLOCK):
            if first < TERMS - BLOCK:
                self.multiply(top, out, spare)
                self.copy(spare, out, size)
            self.add_terms(out, powers, first)

        def square(_: V) -> None:
            self.multiply(out, out, spare)
            self.copy(spare, out, size)

        w.loop(0, halvings, square)

    def add_terms(self, out: str, powers: list[str], first: int) -> None:
        """Add five terms of the series, divided by a power of the matrix."""
        w, n, kind = self.w, self.n, self.kind
        rates = [1 / factorial(first + k) for k in range(BLOCK)]

        def element(i: V) -> None:
            total = w.load(out, kind, i)
            for rate, power in zip(rates[1:], powers[:-1], strict=True):
                total = total + w.load(power, kind, i) * rate
            w.store(total, out, i)

        w.loop(0, n * n, element)

        def diagonal(i: V) -> None:
            at = i * n + i
            w.store(w.load(out, kind, at) + rates[0], out, at)

        w.loop(0, n, diagonal)

    def multiply(self, x: str, y: str, out: str) -> None:
        """OUT = X Y, row by row."""
        w, n = self.w, self.n
        self.clear(out, n * n)

        def line(i: V) -> None:
            mine = self.row(out, i, n)
            add = lambda k: self.add(mine, self.row(y, k, n), self.number(x, i, k), w.whole(0), n)
            w.loop(0, n, add)

        w.loop(0, n, line)
