"""The kernels of systems, inverses, determinants and triangular factors (Note [routines])."""

from __future__ import annotations

from adjoint.engine.backends.llvm.templates.lapack.kernel import RoutineWriter
from adjoint.engine.backends.registers.math.logarithm import log
from adjoint.engine.backends.registers.vector import V, select

LARGE = 2.0**500  # what factors of a determinant are kept below


class LowerUpperRoutine(RoutineWriter):
    """`out` = L and U in one matrix; `second` the rows exchanged; `third` where U has a zero."""

    def matrix(self, p: V) -> None:
        m, n = self.rows, self.columns
        factors = self.place(self.word.room, p * self.word.stride)
        pivots = self.w.at(self.w.pointer(self.word.second), "i32", p * self.w.least(m, n))
        self.turned(self.place(self.word.a, p * m * n), factors, m, n)
        self.call(self.word.first, m, n, factors, m, pivots, self.info)
        self.turned(factors, self.place(self.word.out, p * m * n), n, m)
        self.settle(self.word.third, p, self.told())
        self.refuse(self.told())


class EliminationRoutine(RoutineWriter):
    """Factors of A by columns and their exchanges, to work with; `second` where U has a zero."""

    def matrix(self, p: V) -> None:
        n = self.rows
        factors, pivots = factors_of(self, p)
        self.turned(self.place(self.word.a, p * n * n), factors, n, n)
        self.call(self.word.first, n, n, factors, n, pivots, self.info)
        self.settle(self.word.second, p, self.told())
        self.refuse(self.told())


def factors_of(routine: RoutineWriter, which: V) -> tuple[str, str]:
    """Where the factors of a matrix are and, behind them, the exchanges of 32 bits each."""
    n = routine.rows
    factors = routine.place(routine.word.room, which * routine.word.stride)
    return factors, routine.behind(factors, n * n)


class SystemRoutine(RoutineWriter):
    """`out` = A^-1 B, or A^-1, of what `EliminationRoutine` found; a piece is some columns."""

    def __init__(self, kind: str, parts: int, what: str) -> None:
        super().__init__(kind, parts)
        self.what = what

    def matrix(self, p: V) -> None:
        w, n, m = self.w, self.rows, self.wide
        which, start, count = self.columns_of(p)
        factors, pivots = factors_of(self, which)
        right = self.behind(pivots, n + start * n)
        out = self.place(self.word.out, which * n * m + start)

        def solve() -> None:
            if self.what == "solve":
                source = self.place(self.word.b, which * n * m + start)
                self.turned_part(source, right, n, count, m, n)
            else:
                self.fill(right, self.number(0.0), n * count)
                one = self.number(1.0)
                w.loop(0, count, lambda j: self.store(one, right, j * n + start + j))
            self.call(self.word.then, "N", n, count, factors, n, pivots, right, n, self.info)
            self.turned_part(right, out, count, n, n, m)

        def unsolved() -> None:
            infinite = self.number(float("inf"))
            w.loop(0, n, lambda i: self.fill(self.behind(out, i * m), infinite, count))

        said = w.load(w.pointer(self.word.second), "i32", which)
        w.either(said.eq(0), solve, unsolved)


class DeterminantRoutine(RoutineWriter):
    """`out` = det A, or its sign, and `second` the logarithm of its size."""

    def __init__(self, kind: str, parts: int, logarithm: bool) -> None:
        super().__init__(kind, parts)
        self.logarithm = logarithm

    def matrix(self, p: V) -> None:
        w, n = self.w, self.rows
        factors = self.place(self.word.room, p * self.word.stride)
        pivots = self.behind(factors, n * n)
        self.copy(self.place(self.word.a, p * n * n), factors, n * n)  # a transpose has the same
        self.call(self.word.first, n, n, factors, n, pivots, self.info)

        def exchanged(i: V, sign: V) -> list[V]:
            stays = w.load(pivots, "i32", i).convert("i64").eq(i + 1)
            return [select(stays, sign, -sign)]

        (sign,) = w.loop(0, n, exchanged, [w.code.const(1.0, "f64")])
        zero = w.code.const(0.0, "f64")
        start = [sign, zero] if self.parts > 1 else [sign]
        out = self.place(self.word.out, p)
        if self.logarithm:
            *phase, size = w.loop(
                0, n, lambda i, *so_far: self.turn(factors, i, *so_far), [*start, zero]
            )
            self.put(phase, out)
            second = w.at(w.pointer(self.word.second), self.kind, p)
            w.store(size.convert(self.kind), second, w.whole(0))
            return
        *product, taken = w.loop(
            0, n, lambda i, *so_far: self.multiplied(factors, i, *so_far), [*start, w.whole(0)]
        )
        for by, times in ((LARGE, taken), (1 / LARGE, -taken)):
            product = w.loop(0, times, lambda _, *x, by=by: [y * by for y in x], product)
        self.put(product, out)

    def put(self, parts: list[V], out: str) -> None:
        """A number of parts in double precision."""
        self.store(self.w.join([x.convert(self.kind) for x in parts]), out, self.w.whole(0))

    def pivot(self, factors: str, i: V) -> list[V]:
        """An element of the diagonal, its parts in double precision."""
        x = self.load(factors, i * self.rows + i)
        if self.parts == 1:
            return [x.convert("f64")]
        return [self.w.lane(x, k).convert("f64") for k in range(self.parts)]

    def times(self, x: list[V], y: list[V]) -> list[V]:
        """The product of two numbers."""
        if self.parts == 1:
            return [x[0] * y[0]]
        (a, b), (c, d) = x, y
        return [a * c - b * d, a * d + b * c]

    def turn(self, factors: str, i: V, *so_far: V) -> list[V]:
        """The sign and the logarithm of the product of the diagonal up to an element."""
        *phase, total = so_far
        x = self.pivot(factors, i)
        largest = self.largest(x)
        none = largest.eq(0.0)
        scaled = [y / select(none, 1.0, largest) for y in x]
        length = sum((y * y for y in scaled[1:]), scaled[0] * scaled[0]).sqrt()
        unit = [y / select(none, 1.0, length) for y in scaled]
        phase = self.times(phase, unit)
        size = log(largest) + log(select(none, 1.0, length))
        infinite = largest.eq(float("inf"))
        return [*phase, total + select(infinite, float("inf"), size)]

    def largest(self, parts: list[V]) -> V:
        """The size of the largest part; NaN where one is."""
        size = abs(parts[0])
        for x in parts[1:]:
            other = abs(x)
            size = select((other > size) | other.isnan(), other, size)
        return size

    def within(self, parts: list[V], taken: V) -> list[V]:
        """A number neither too large nor too small, and how often a factor was taken out."""
        size = self.largest(parts)
        large, tiny = size > LARGE, (size < 1 / LARGE) & ~size.eq(0.0)
        kept = [select(large, x * (1 / LARGE), select(tiny, x * LARGE, x)) for x in parts]
        return [*kept, select(large, taken + 1, select(tiny, taken - 1, taken))]

    def multiplied(self, factors: str, i: V, *so_far: V) -> list[V]:
        """The product of the diagonal up to an element."""
        *product, taken = so_far
        *factor, taken = self.within(self.pivot(factors, i), taken)
        return self.within(self.times(product, factor), taken)


class IndefiniteRoutine(RoutineWriter):
    """`out` = L and D in one matrix, `second` the exchanges, `third` where D has a zero block."""

    def matrix(self, p: V) -> None:
        w, n = self.w, self.rows
        factors = self.place(self.word.room, p * self.word.stride)
        work, length = self.behind(factors, n * n), self.word.stride - n * n
        pivots = w.at(w.pointer(self.word.second), "i32", p * n)
        out = self.place(self.word.out, p * n * n)
        self.turned(self.place(self.word.a, p * n * n), factors, n, n)
        self.call(self.word.first, "L", n, factors, n, pivots, work, length, self.info)
        self.turned(factors, out, n, n)
        self.clear_triangle(out, n, above=True)
        self.settle(self.word.third, p, self.told())
        self.refuse(self.told())


class IndefiniteSolver(RoutineWriter):
    """`out` = A^-1 B, of the factors and exchanges that `IndefiniteRoutine` found."""

    def matrix(self, p: V) -> None:
        w, n, m = self.w, self.rows, self.wide
        factors = self.place(self.word.room, p * self.word.stride)
        right = self.behind(factors, n * n)
        pivots = w.at(w.pointer(self.word.b), "i32", p * n)

        def solve() -> None:
            self.turned(self.place(self.word.a, p * n * n), factors, n, n)
            self.turned(self.place(self.word.c, p * n * m), right, n, m)
            self.call(self.word.first, "L", n, m, factors, n, pivots, right, n, self.info)
            self.turned(right, self.place(self.word.out, p * n * m), m, n)

        w.either(self.fits(pivots), solve, lambda: self.fail(w.whole(0)))

    def fits(self, pivots: str) -> V:
        """Whether exchanges are of rows that there are: LAPACK would go wherever they say."""
        w, n = self.w, self.rows

        def goes_on(k: V, fit: V) -> V:
            return (k < n) & ~fit.eq(0)

        def look(k: V, fit: V) -> list[V]:
            pivot = w.load(pivots, "i32", k).convert("i64")
            double = pivot < 0  # a block of two by two, which both its rows name
            after = select(k + 1 < n, k + 1, k)
            same = w.load(pivots, "i32", after).convert("i64").eq(pivot) & ~after.eq(k)
            row = select(double, -pivot, pivot)
            fine = (row >= 1) & (row <= n) & (same | ~double)
            return [select(double, k + 2, k + 1), select(fine, 1, w.whole(0))]

        return ~w.repeat([w.whole(0), w.whole(1)], goes_on, look)[1].eq(0)
