"""The kernels that call routines of LAPACK, a matrix of a batch after another.

Note [routines]
    Complex matrices, and real ones too large for the plain algorithms (Note [small factors]), go
    to LAPACK, which SciPy brings and eager mode calls through Python; programs call its routines by
    their addresses. Matrices of a batch are dealt out among the workers, each on one thread; a
    single large one has as many threads of the library's own as there are workers.

    LAPACK reads matrices by columns: it sees the transpose of what lies by rows. Where only a
    triangle is read (Cholesky's factor, systems with one), that is as good: A^T = U^H U is
    A = L L^H with L = U^T, and A X = B is X^T A^T = B^T. Elimination, whose choice of rows would
    become one of columns, gets a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.faults import store_fault
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.borrowed.kernel import with_threads
from adjoint.engine.backends.registers.vector import V, select
from adjoint.engine.ops.common.checks import PLACE_BITS

TILE = 16  # rows and columns of a square that is transposed at once


@dataclass(slots=True)
class RoutineWords(LaunchWords):
    """The matrices of a batch; zero for what a kernel has none of."""

    a: Any
    b: Any = 0
    c: Any = 0  # a third operand
    out: Any = 0
    second: Any = 0
    third: Any = 0
    rows: Any = 0
    columns: Any = 0
    wide: Any = 0  # columns of a right side, or of an orthogonal factor
    room: Any = 0  # memory to work in, and how many numbers of it each matrix has
    stride: Any = 0
    pieces: Any = 0
    status: Any = 0
    fault: Any = 0  # what is said of a matrix that cannot be treated
    threads: Any = 0  # what sets the number of the library's threads, where that is wanted
    chunk: Any = 0  # columns of a right side that are a piece, and how many such there are
    chunks: Any = 0
    first: Any = 0  # routines
    then: Any = 0


class RoutineWriter:
    """Writes a kernel; numbers are `parts` reals of a kind each."""

    def __init__(self, kind: str, parts: int) -> None:
        self.kind, self.parts = kind, parts
        self.w = w = CodeWriter()
        self.word = RoutineWords.read_by(w)
        self.rows, self.columns, self.wide = self.word.rows, self.word.columns, self.word.wide
        self.info = w.reserve("i32", 1)
        self.which: V  # of the matrices is at hand

    def text(self, name: str) -> Text:
        w = self.w

        def one(p: V) -> None:
            self.which = p
            self.matrix(p)

        low, high = w.share(self.word.pieces)
        with_threads(w, self.word.threads, high > low, lambda: w.loop(low, high, one))
        return w.finish(name)

    def matrix(self, p: V) -> None:
        """What is done with one matrix of the batch."""
        raise NotImplementedError

    # -- calls ----------------------------------------------------------------------------------

    def call(self, routine: V, *arguments: str | V) -> None:
        """Call a routine: a letter, a whole number or a pointer for each argument."""
        w = self.w
        places = []
        for x in arguments:
            if isinstance(x, V):
                place = w.reserve("i32", 1)
                w.store(x.convert("i32"), place, w.whole(0))
            elif x.startswith(("%", "@")):
                place = x
            else:
                place = w.reserve("i8", 1)
                w.store(w.code.const(ord(x), "i8"), place, w.whole(0))
            places.append(f"ptr {place}")
        function = w.pointer(routine)
        w.code.lines.append(f"call void {function}({', '.join(places)})")

    def told(self) -> V:
        """What a routine says at its end."""
        return self.w.load(self.info, "i32", self.w.whole(0))

    def one(self) -> str:
        """The number 1, in memory."""
        w = self.w
        place = w.reserve(self.kind, self.parts)
        for k in range(self.parts):
            w.store(w.code.const(1 - k, self.kind), place, w.whole(k))
        return place

    def fail(self, at: V) -> None:
        """Tell of a failure at a place, counted from 1, of the matrix at hand."""
        w = self.w
        where = (self.which << PLACE_BITS) + at.convert("i64")
        store_fault(w.code, w.pointer(self.word.status), self.word.fault.ref, at=where)

    def refuse(self, at: V) -> None:
        """The same, where a status is there to tell of it."""
        bad = ~at.eq(0) & ~self.word.status.eq(0)
        self.w.when(bad, lambda: self.fail(at))

    def columns_of(self, piece: V) -> tuple[V, V, V]:
        """Which matrix a piece is of, its first column of the right side and how many it has."""
        which, chunk = self.w.split(piece, self.word.chunks)
        start = chunk * self.word.chunk
        return which, start, self.w.least(self.word.chunk, self.wide - start)

    # -- memory ---------------------------------------------------------------------------------

    def place(self, start: V, count: V) -> str:
        """A pointer so many numbers behind an address."""
        return self.w.at(self.w.pointer(start), self.kind, count * self.parts)

    def behind(self, start: str, count: V) -> str:
        """A pointer so many numbers behind another."""
        return self.w.at(start, self.kind, count * self.parts)

    def load(self, start: str, index: V) -> V:
        """A number, its parts side by side."""
        return self.w.load(start, self.kind, index * self.parts, self.parts)

    def store(self, value: V, start: str, index: V) -> None:
        self.w.store(value, start, index * self.parts)

    def number(self, value: float) -> V:
        """A real number, its parts side by side."""
        w = self.w
        return w.join([w.code.const(0.0 if k else value, self.kind) for k in range(self.parts)])

    def copy(self, source: str, target: str, count: V) -> None:
        self.w.loop(0, count, lambda i: self.store(self.load(source, i), target, i))

    def turned(self, source: str, target: str, rows: V, columns: V) -> None:
        """Copy a matrix transposed."""
        self.turned_part(source, target, rows, columns, columns, rows)

    def turned_part(
        self, source: str, target: str, rows: V, columns: V, apart: V, between: V
    ) -> None:
        """Copy some columns transposed: rows are `apart` in the source, `between` in the target.

        A square at a time, whose lines stay in the cache.
        """
        w = self.w

        def square(i0: V, j0: V) -> None:
            i1, j1 = w.least(i0 + TILE, rows), w.least(j0 + TILE, columns)

            def row(i: V) -> None:
                line, out = self.behind(source, i * apart), self.behind(target, i)
                w.loop(j0, j1, lambda j: self.store(self.load(line, j), out, j * between))

            w.loop(i0, i1, row)

        w.loop(0, rows, lambda i: w.loop(0, columns, lambda j: square(i, j), step=TILE), step=TILE)

    def copy_part(self, source: str, target: str, rows: V, columns: V, apart: V) -> None:
        """Copy some columns; rows are `apart` in both."""
        w = self.w

        def row(i: V) -> None:
            self.copy(self.behind(source, i * apart), self.behind(target, i * apart), columns)

        w.loop(0, rows, row)

    def fill(self, target: str, value: V, count: V) -> None:
        self.w.loop(0, count, lambda i: self.store(value, target, i))

    def clear_triangle(self, matrix: str, n: V, *, above: bool) -> None:
        """Zeros above the diagonal, or below it."""
        w, zero = self.w, self.number(0.0)

        def row(i: V) -> None:
            start, stop = (i + 1, n) if above else (w.whole(0), i)
            w.loop(start, stop, lambda j: self.store(zero, matrix, i * n + j))

        w.loop(0, n, row)

    def settle(self, start: V, p: V, value: V) -> None:
        """Put a whole number of 32 bits where a result has one for each matrix."""
        self.w.store(value, self.w.pointer(start), p)


class CholeskyRoutine(RoutineWriter):
    """`out` = L with A = L L^H, of the lower triangle; or L^H, of the upper one.

    What is left of a matrix that has no factor, which `checked` ones tell nobody, is what eager
    mode leaves: of the lower triangle LAPACK's other way has made it.
    """

    def __init__(self, kind: str, parts: int, upper: bool, checked: bool) -> None:
        super().__init__(kind, parts)
        self.upper, self.checked = upper, checked

    def matrix(self, p: V) -> None:
        n = self.rows
        source = self.place(self.word.a, p * n * n)
        out = self.place(self.word.out, p * n * n)
        self.copy(source, out, n * n)
        self.call(self.word.first, "L" if self.upper else "U", n, out, n, self.info)
        if not self.upper and not self.checked:
            self.w.when(~self.told().eq(0), lambda: self.by_columns(p, source, out))
        self.clear_triangle(out, n, above=not self.upper)
        self.w.when(self.told().eq(0), lambda: self.note_nan(out, n))
        self.settle(self.word.second, p, self.told())
        self.refuse(self.told())

    def note_nan(self, out: str, n: V) -> None:
        """The first NaN on the diagonal, which not every library takes for a failure."""
        w = self.w

        def element(back: V) -> None:
            i = n - 1 - back
            value = w.load(out, self.kind, (i * n + i) * self.parts)
            found = (i + 1).convert("i32")
            w.when(~value.eq(value), lambda: w.store(found, self.info, w.whole(0)))

        w.loop(0, n, element)

    def by_columns(self, p: V, source: str, out: str) -> None:
        """The lower triangle as such."""
        n = self.rows
        room = self.place(self.word.room, p * self.word.stride)
        self.turned(source, room, n, n)
        self.call(self.word.first, "L", n, room, n, self.info)
        self.turned(room, out, n, n)


class TriangularRoutine(RoutineWriter):
    """`out` = A^-1 B, of one triangle of A; a piece is some columns of B."""

    ways: tuple[str, ...] = ("N",)

    def __init__(self, kind: str, parts: int, upper: bool, unit: bool) -> None:
        super().__init__(kind, parts)
        self.upper, self.unit = upper, unit

    def matrix(self, p: V) -> None:
        n, m = self.rows, self.wide
        which, start, count = self.columns_of(p)
        matrix = self.place(self.word.a, which * n * n)
        out = self.place(self.word.out, which * n * m + start)
        self.copy_part(self.place(self.word.b, which * n * m + start), out, n, count, m)
        for way in self.ways:
            self.solve(matrix, out, way, count)

    def solve(self, matrix: str, out: str, way: str, count: V) -> None:
        """In place, with the matrix ("N") or its adjoint ("C")."""
        side, diagonal = "L" if self.upper else "U", "U" if self.unit else "N"
        n, m = self.rows, self.wide
        self.call(
            self.word.first, "R", side, way, diagonal, count, n, self.one(), matrix, n, out, m
        )


class DefiniteRoutine(TriangularRoutine):
    """`out` = A^-1 B, of the lower or upper factor of A."""

    def __init__(self, kind: str, parts: int, upper: bool) -> None:
        super().__init__(kind, parts, upper, unit=False)
        self.ways = ("C", "N") if upper else ("N", "C")


class OrthogonalRoutine(RoutineWriter):
    """`out` = Q, `second` = R with A = Q R; Q has as many columns, and R rows, as `wide` says."""

    def matrix(self, p: V) -> None:
        w, m, n, wide = self.w, self.rows, self.columns, self.wide
        count = w.least(m, n)
        factors = self.place(self.word.room, p * self.word.stride)
        # Reflections are as long as a column; Q is made where they are.
        rates = self.behind(factors, m * w.most(n, wide))
        work = self.behind(rates, count)
        length = self.word.stride - m * w.most(n, wide) - count
        self.turned(self.place(self.word.a, p * m * n), factors, m, n)
        self.call(self.word.first, m, n, factors, m, rates, work, length, self.info)
        self.put_triangle(factors, self.place(self.word.second, p * wide * n), count)
        self.call(self.word.then, m, wide, count, factors, m, rates, work, length, self.info)
        self.turned(factors, self.place(self.word.out, p * m * wide), wide, m)

    def put_triangle(self, factors: str, out: str, count: V) -> None:
        """The upper triangle, zeros elsewhere."""
        w, zero = self.w, self.number(0.0)

        def row(i: V) -> None:
            def element(j: V) -> None:
                inside = (j >= i) & (i < count)
                at = select(inside, j * self.rows + i, 0)
                value = self.load(factors, at)
                inside = w.code.splat(inside, self.parts)
                self.store(select(inside, value, zero), out, i * self.columns + j)

            w.loop(0, self.columns, element)

        w.loop(0, self.wide, row)
