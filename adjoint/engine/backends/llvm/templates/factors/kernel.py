"""The kernels of small factorisations: along rows, a matrix of a batch after another.

Note [small factors]
    LAPACK's blocked algorithms gain on matrices that do not fit the cache; of small ones a call
    from Python takes longer than the work. So these are the plain algorithms, in the order in which
    rows lie in memory: Cholesky's by products of rows, the others by adding multiples of rows.
    Elimination chooses the largest element of a column, as LAPACK does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.math.logarithm import log
from adjoint.engine.backends.registers.vector import V, mad, select
from adjoint.engine.ops.common.checks import PLACE_BITS

LARGE = 2.0**500  # what factors of a determinant are kept below


@dataclass(slots=True)
class FactorWords(LaunchWords):
    """The matrices of a batch; zero for what a kernel has none of."""

    a: Any
    b: Any
    out: Any
    info: Any  # the second result
    n: Any
    m: Any
    copy: Any  # memory for a matrix each
    pieces: Any
    status: Any
    wide: Any  # columns of an orthogonal factor
    fault: Any = 0  # what is said of a matrix that cannot be treated


class MatrixWriter:
    """Writes a kernel that takes the matrices of a batch in turn."""

    def __init__(self, kind: str) -> None:
        self.kind, self.lanes = kind, outer_tile(kind).lanes
        self.w = w = CodeWriter()
        self.word = FactorWords.read_by(w)
        self.n, self.m = self.word.n, self.word.m
        self.which: V  # of the matrices is at hand

    def text(self, name: str) -> Text:
        def one(p: V) -> None:
            self.which = p
            self.matrix(p)

        self.w.pieces(self.word.pieces, one)
        return self.w.finish(name)

    def matrix(self, p: V) -> None:
        """What is done with one matrix of the batch."""
        raise NotImplementedError

    def place(self, start: V, index: V) -> str:
        """A pointer so many elements behind an address."""
        return self.w.at(self.w.pointer(start), self.kind, index)

    def row(self, matrix: str, i: V, length: V) -> str:
        """Where a row begins."""
        return self.w.at(matrix, self.kind, i * length)

    def number(self, matrix: str, i: V, j: V, turned: bool = False) -> V:
        """An element of the square matrix, or of its transpose."""
        if turned:
            i, j = j, i
        return self.w.load(matrix, self.kind, i * self.n + j)

    def whole(self, start: V, stop: V) -> V:
        """Up to where elements come in whole vectors."""
        return stop - (stop - start).modulo(self.lanes)

    def copy(self, source: str, target: str, count: V) -> None:
        w, kind = self.w, self.kind
        zero = w.whole(0)
        middle = self.whole(zero, count)
        for start, stop, lanes in ((zero, middle, self.lanes), (middle, count, 1)):
            w.loop(
                start,
                stop,
                lambda i, lanes=lanes: w.store(w.load(source, kind, i, lanes), target, i),
                step=lanes,
            )

    def clear(self, target: str, count: V) -> None:
        """Zeros."""
        w = self.w
        w.loop(0, count, lambda i: w.store(w.code.const(0, self.kind), target, i))

    def add(self, target: str, source: str, factor: V, start: V, stop: V) -> None:
        """Add a multiple of one row to another."""
        w, kind = self.w, self.kind
        middle = self.whole(start, stop)

        def some(lanes: int) -> None:
            spread = w.code.splat(factor, lanes) if lanes > 1 else factor

            def body(j: V) -> None:
                had = w.load(target, kind, j, lanes)
                w.store(mad(w.load(source, kind, j, lanes), spread, had), target, j)

            span = (start, middle) if lanes > 1 else (middle, stop)
            w.loop(*span, body, step=lanes)

        some(self.lanes)
        some(1)

    def exchange(self, x: str, y: str, count: V) -> None:
        """Exchange two rows."""
        w, kind = self.w, self.kind

        def element(j: V) -> None:
            first, second = w.load(x, kind, j), w.load(y, kind, j)
            w.store(second, x, j)
            w.store(first, y, j)

        w.loop(0, count, element)

    def divide(self, target: str, by: V, count: V) -> None:
        """Divide a row by a number."""
        w, kind = self.w, self.kind
        w.loop(0, count, lambda j: w.store(w.load(target, kind, j) / by, target, j))

    def dot(self, x: str, y: str, count: V) -> V:
        """The product of two rows."""
        w, kind, lanes = self.w, self.kind, self.lanes
        middle = self.whole(w.whole(0), count)

        def several(j: V, total: V) -> list[V]:
            return [mad(w.load(x, kind, j, lanes), w.load(y, kind, j, lanes), total)]

        def one(j: V, total: V) -> list[V]:
            return [mad(w.load(x, kind, j), w.load(y, kind, j), total)]

        (sums,) = w.loop(0, middle, several, [w.code.const(0, kind, lanes)], step=lanes)
        return w.loop(middle, count, one, [w.total(sums)])[0]

    def fail(self, at: V) -> None:
        """Tell of a failure at a place, counted from 1, of the matrix at hand."""
        w = self.w
        where = (self.which << PLACE_BITS) + at + 1
        store_fault(w.code, w.pointer(self.word.status), self.word.fault.ref, at=where)

    def settle_info(self, p: V) -> None:
        """No failure that a caller would see."""
        self.w.store(self.w.code.const(0, "i32"), self.w.pointer(self.word.info), p)


class Cholesky(MatrixWriter):
    """OUT = L with A = L L^T, of the lower triangle; or L^T, of the upper one."""

    def __init__(self, kind: str, upper: bool) -> None:
        super().__init__(kind)
        self.upper = upper

    def matrix(self, p: V) -> None:
        w, kind, n = self.w, self.kind, self.n
        source, out = (self.place(start, p * n * n) for start in (self.word.a, self.word.out))
        factor = self.place(self.word.copy, p * n * n) if self.upper else out
        self.clear(out, n * n)
        self.settle_info(p)

        def line(i: V) -> None:
            mine = self.row(factor, i, n)

            def element(j: V) -> None:
                other = self.row(factor, j, n)
                rest = self.number(source, i, j, self.upper) - self.dot(mine, other, j)
                w.store(rest / w.load(other, kind, j), mine, j)

            w.loop(0, i, element)
            rest = self.number(source, i, i) - self.dot(mine, mine, i)
            w.when(~(rest > 0.0), lambda: self.fail(i))  # or NaN
            w.store(rest.sqrt(), mine, i)
            if self.upper:
                w.loop(0, i + 1, lambda j: w.store(w.load(mine, kind, j), out, j * n + i))

        w.loop(0, n, line)


class Triangular(MatrixWriter):
    """OUT = A^-1 B, of one triangle of A."""

    def __init__(self, kind: str, upper: bool, unit: bool) -> None:
        super().__init__(kind)
        self.upper, self.unit = upper, unit

    def matrix(self, p: V) -> None:
        n, m = self.n, self.m
        source, out = self.place(self.word.a, p * n * n), self.place(self.word.out, p * n * m)
        self.copy(self.place(self.word.b, p * n * m), out, n * m)
        self.solve(source, out, self.upper, turned=False)

    def solve(self, source: str, out: str, upper: bool, turned: bool) -> None:
        """Solve in place with one triangle of a matrix, or (`turned`) of its transpose."""
        w, n, m = self.w, self.n, self.m

        def line(turn: V) -> None:
            i = n - 1 - turn if upper else turn
            mine = self.row(out, i, m)
            start, stop = (i + 1, n) if upper else (w.whole(0), i)

            def subtract(k: V) -> None:
                factor = -self.number(source, i, k, turned)
                self.add(mine, self.row(out, k, m), factor, w.whole(0), m)

            w.loop(start, stop, subtract)
            if not self.unit:
                self.divide(mine, self.number(source, i, i), m)

        w.loop(0, n, line)


class Definite(Triangular):
    """OUT = (L L^T)^-1 B, of a factor L; or of L^T, the upper one."""

    def __init__(self, kind: str, upper: bool) -> None:
        super().__init__(kind, upper, unit=False)

    def matrix(self, p: V) -> None:
        n, m = self.n, self.m
        source, out = self.place(self.word.a, p * n * n), self.place(self.word.out, p * n * m)
        self.copy(self.place(self.word.b, p * n * m), out, n * m)
        self.solve(source, out, upper=False, turned=self.upper)
        self.solve(source, out, upper=True, turned=not self.upper)


class Elimination(MatrixWriter):
    """OUT = A^-1 B ("solve"), A^-1 ("inv"), a determinant ("det"), its sign and log ("slogdet")."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(kind)
        self.what, self.alone = what, what in ("det", "slogdet")

    def matrix(self, p: V) -> None:
        w, kind, n, m = self.w, self.kind, self.n, self.m
        work = self.place(self.word.copy, p * n * n)
        self.copy(self.place(self.word.a, p * n * n), work, n * n)
        out = self.place(self.word.out, p if self.alone else p * n * m)
        if self.what == "solve":
            self.copy(self.place(self.word.b, p * n * m), out, n * m)
        elif self.what == "inv":
            self.clear(out, n * n)
            w.loop(0, n, lambda i: w.store(w.code.const(1, kind), out, i * n + i))
        (sign,) = w.loop(0, n, lambda k, s: self.column(work, out, k, s), [w.code.const(1, kind)])
        if self.what == "det":
            w.store(self.diagonal_product(work, sign), out, w.whole(0))
            return
        if self.what == "slogdet":
            sign, size = w.loop(0, n, partial(self.logarithms, work), [sign, w.code.const(0, kind)])
            w.store(sign, out, w.whole(0))
            w.store(size, self.place(self.word.info, p), w.whole(0))
            return
        self.settle_info(p)
        w.loop(0, n, lambda turn: self.put_back(work, out, n - 1 - turn))

    def logarithms(self, work: str, k: V, sign: V, total: V) -> list[V]:
        """The sign and the logarithm of the product of the diagonal up to an element."""
        x = self.number(work, k, k)
        signed = select(x < 0.0, -sign, sign)
        return [select(x.eq(0.0), 0.0, signed), total + log(abs(x))]

    def diagonal_product(self, work: str, sign: V) -> V:
        """The product of the diagonal, which overflows only if it is too large itself.

        Factors are kept between two powers of two, and how often one was taken out is counted.
        """
        w = self.w

        def within(x: V, taken: V) -> list[V]:
            size = abs(x)
            large, tiny = size > LARGE, (size < 1 / LARGE) & ~size.eq(0.0)
            inside = select(large, x * (1 / LARGE), select(tiny, x * LARGE, x))
            return [inside, select(large, taken + 1, select(tiny, taken - 1, taken))]

        def multiplied(k: V, x: V, taken: V) -> list[V]:
            factor, taken = within(self.number(work, k, k).convert("f64"), taken)
            return within(x * factor, taken)

        product, taken = w.loop(0, self.n, multiplied, [sign.convert("f64"), w.whole(0)])
        (product,) = w.loop(0, taken, lambda _, x: [x * LARGE], [product])
        (product,) = w.loop(0, -taken, lambda _, x: [x * (1 / LARGE)], [product])
        return product.convert(self.kind)

    def column(self, work: str, out: str, k: V, sign: V) -> list[V]:
        """Clear a column below the diagonal; the sign of the exchanges so far."""
        w, n, m = self.w, self.n, self.m

        def larger(i: V, size: V, at: V) -> list[V]:
            other = abs(self.number(work, i, k))
            is_larger = other > size
            return [select(is_larger, other, size), select(is_larger, i, at)]

        _, at = w.loop(k + 1, n, larger, [abs(self.number(work, k, k)), k])
        moved = ~at.eq(k)

        def exchange() -> None:
            self.exchange(self.row(work, k, n), self.row(work, at, n), n)
            if not self.alone:
                self.exchange(self.row(out, k, m), self.row(out, at, m), m)

        w.when(moved, exchange)
        pivot = self.number(work, k, k)
        if not self.alone:
            w.when(pivot.eq(0.0), lambda: self.fail(k))

        def below(i: V) -> None:
            # Where the largest is 0, so is all that is below it.
            factor = select(pivot.eq(0.0), 0.0, -self.number(work, i, k) / pivot)
            self.add(self.row(work, i, n), self.row(work, k, n), factor, k + 1, n)
            if not self.alone:
                self.add(self.row(out, i, m), self.row(out, k, m), factor, w.whole(0), m)

        w.loop(k + 1, n, below)
        return [select(moved, -sign, sign)]

    def put_back(self, work: str, out: str, i: V) -> None:
        """A row of the result, once those after it are known."""
        w, n, m = self.w, self.n, self.m
        mine = self.row(out, i, m)

        def subtract(k: V) -> None:
            self.add(mine, self.row(out, k, m), -self.number(work, i, k), w.whole(0), m)

        w.loop(i + 1, n, subtract)
        self.divide(mine, self.number(work, i, i), m)
