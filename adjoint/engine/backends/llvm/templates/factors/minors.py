"""The kernel of cofactors: of singular matrices as of others, since nothing is divided by a pivot.

Elimination makes L^-1 P of the identity and U of the matrix A = P^T L U; the transposed cofactors
of A are the sign of P times those of U times L^-1 P. Those of U are products of parts of its
diagonal and of numbers c that follow from each other along a row:

    adj(U)[i, j] = u_0 ... u_(i-1)  c[i, j]  u_(j+1) ... u_(n-1)
    c[i, i] = 1,  c[i, j] = - sum over k from i to j - 1 of  c[i, k] u_(k+1) ... u_(j-1) U[k, j]
"""

from __future__ import annotations

from adjoint.engine.backends.llvm.templates.factors.kernel import Elimination
from adjoint.engine.backends.registers.vector import V

ROOM = 3  # matrices that one needs besides its result
ROWS = 4  # and rows


class Cofactors(Elimination):
    """OUT = the cofactors of A, of doubles."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind, "cofactor")

    def fail(self, at: V) -> None:
        """A matrix without an inverse has cofactors, too."""

    def matrix(self, p: V) -> None:
        w, kind, n = self.w, self.kind, self.n
        size = n * n
        room = self.place(self.word.copy, p * (size * ROOM + n * ROWS))
        work, rows, turned = (w.at(room, kind, size * k) for k in range(ROOM))
        parts, minors, after, line = (w.at(room, kind, size * ROOM + n * k) for k in range(ROWS))
        self.copy(self.place(self.word.a, p * size), work, size)
        self.clear(rows, size)
        one = w.code.const(1, kind)
        w.loop(0, n, lambda i: w.store(one, rows, i * n + i))
        (sign,) = w.loop(0, n, lambda k, s: self.column(work, rows, k, s), [one])
        w.loop(0, n, lambda i: w.loop(i, n, lambda j: self.turn(work, turned, i, j)))

        def backward(turn: V, product: V) -> list[V]:
            k = n - 1 - turn
            w.store(product, after, k)
            return [product * self.number(work, k, k)]

        w.loop(0, n, backward, [one])
        out = self.place(self.word.out, p * size)

        def column(i: V, before: V) -> list[V]:
            w.store(before, parts, i)
            w.store(before * w.load(after, kind, i), minors, i)
            w.loop(i + 1, n, lambda j: self.next_minor(work, turned, parts, minors, after, i, j))
            self.clear(line, n)
            add = lambda k: self.add(
                line, self.row(rows, k, n), w.load(minors, kind, k), w.whole(0), n
            )
            w.loop(i, n, add)
            w.loop(0, n, lambda j: w.store(w.load(line, kind, j), out, j * n + i))
            return [before * self.number(work, i, i)]

        w.loop(0, n, column, [sign])

    def turn(self, work: str, turned: str, i: V, j: V) -> None:
        """An element of U, transposed."""
        self.w.store(self.number(work, i, j), turned, j * self.n + i)

    def next_minor(
        self, work: str, turned: str, parts: str, minors: str, after: str, i: V, j: V
    ) -> None:
        """The j-th cofactor of a row of U, of the `parts` of those before it."""
        w, kind = self.w, self.kind
        begin = self.w.at(parts, kind, i)
        column = self.w.at(turned, kind, j * self.n + i)
        minor = -self.dot(begin, column, j - i)
        w.store(minor * w.load(after, kind, j), minors, j)
        self.scale(begin, self.number(work, j, j), j - i)
        w.store(minor, parts, j)

    def scale(self, target: str, by: V, count: V) -> None:
        """Multiply a row with a number."""
        w, kind = self.w, self.kind
        w.loop(0, count, lambda k: w.store(w.load(target, kind, k) * by, target, k))
