"""The kernel of Fourier transforms along one dimension, of any length.

Elements are seen as (before, length, after), in row-major order; complex numbers are pairs. Each
group of lines is read into the worker's own memory (`lines.py`), transformed (`stages.py`) and
written. An inverse transform is one with both parts exchanged before and after.

Note [chirps]
    A length with a large prime factor is transformed by Bluestein's way: the transform of x is c
    times the convolution of c x with 1 / c, where c[k] = exp(-i pi k^2 / n), and transforms of a
    length with small factors convolve. Roots are of double precision before they are rounded.

Note [folded lines]
    Reals of an even number n are n / 2 complex ones, each of two neighbours, whose transform Z has
    half the work. What n reals come to is E[k] + w^k O[k], where E and O, the transforms of the
    even and the odd ones, are (Z[k] + conj Z[n/2 - k]) / 2 and (Z[k] - conj Z[n/2 - k]) / 2i. Back
    from half a spectrum X it is Z[k] = X[k] + conj X[n/2 - k] + i w^-k (X[k] - conj X[n/2 - k]).

Note [sheets]
    A line of r c numbers is a sheet of r rows: what its columns come to, each number times a root
    of the line's order, and then what its rows come to, read by columns, is its transform.
    Columns lie next to each other, so that vectors have an element of each, of one line alone; and
    the memory of a worker has some lines of the root of the length, not as many of its whole.
    The root for row k and column q + j is w^(k q) w^(k j): a number, and a vector from a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.llvm.templates.spectra.lines import Lines
from adjoint.engine.backends.llvm.templates.spectra.stages import (
    Pair,
    Roots,
    both_parts,
    loaded_pair,
    put_parts,
    stages_name,
    times,
    write_stages,
)
from adjoint.engine.backends.registers.vector import V, select


@dataclass(frozen=True, slots=True)
class Spectrum:
    """What decides a kernel's text."""

    kind: str
    way: str  # "whole": pairs to pairs; "half": reals to pairs; "back": pairs to reals
    inverse: bool
    chirps: bool
    near: bool  # lines that are transformed at once lie next to each other
    folded: bool = False  # Note [folded lines]
    in_one: bool = False  # elements of a line lie next to each other
    sheet: str = ""  # what is transformed of one: "columns", which are then turned, or "rows"

    @property
    def lanes(self) -> int:
        return outer_tile(self.kind).lanes

    @property
    def function(self) -> str:
        """The name of the kernel."""
        flags = ("inverse", "chirps", "near", "folded", "in_one")
        ways = [self.way, *[flag for flag in flags if getattr(self, flag)], *self.sheet.split()]
        return f"spectrum_{'_'.join(ways)}_{self.kind}_{self.lanes}"


def room_of(what: Spectrum, padded: int) -> int:
    """Elements of a worker's memory: two places of both parts, with one more each; roots; the
    filter and chirps, or the roots of the unfolded length."""
    return 4 * (padded + 1) * what.lanes + (6 if what.chirps or what.folded else 2) * (padded + 1)


@dataclass(slots=True)
class SpectrumWords(LaunchWords):
    """Lines of numbers, `after` apart. Stages and tables follow."""

    out: Any
    source: Any
    work: Any  # memory of the pieces
    room: Any  # elements of it for each
    lines: Any
    after: Any
    read: Any  # elements of a line
    written: Any
    length: Any  # of the transform
    padded: Any  # to what radices there are for
    stages: Any  # how many
    scale: Any  # the bits of a double
    table: Any  # where among the words roots begin
    chirps: Any  # and chirps, or the roots of the unfolded length, or those of a sheet's
    across: Any  # columns of the sheet that rows are written to
    turns: Any  # where among the words vectors of roots of a sheet begin
    pieces: Any


class SpectrumKernel:
    """Writes one kernel."""

    def __init__(self, what: Spectrum) -> None:
        self.what, self.w = what, CodeWriter()
        self.word = SpectrumWords.read_by(self.w)
        self.kind = what.kind
        for lanes in {1, what.lanes}:
            write_stages(self.w, self.kind, lanes)

    def text(self, name: str) -> Text:
        w, word = self.w, self.word
        low, high = w.share(word.pieces)
        w.when(high > low, lambda: self.share(low, high))
        return w.finish(name)

    def share(self, low: V, high: V) -> None:
        """A worker's pieces, in the memory of the first of them."""
        w, word, lanes = self.w, self.word, self.what.lanes
        room, groups = low * word.room, (word.lines + (lanes - 1)).quotient(lanes)
        starts = [0, 2 * lanes, 4 * lanes, 4 * lanes + 2, 4 * lanes + 4]
        self.places, self.roots, self.filter, self.chirps = [], "", "", ""
        *self.places, self.roots, self.filter, self.chirps = [
            w.at(w.pointer(word.work), self.kind, room + (word.padded + 1) * k) for k in starts
        ]
        all_roots = lambda: self.write_roots(word.table, self.roots, word.padded)
        w.when(word.stages > 0, all_roots)
        if self.what.chirps:
            self.make_filter()
        if self.what.folded:
            self.write_roots(word.chirps, self.filter, word.padded + 1)
        first = (groups * low).quotient(word.pieces) * lanes
        last = w.least((groups * high).quotient(word.pieces) * lanes, word.lines)
        middle = last - (last - first).modulo(lanes)
        w.loop(first, middle, lambda line: self.lines(line, lanes), step=lanes)
        w.loop(middle, last, lambda line: self.lines(line, 1))

    def lines(self, first: V, lanes: int) -> None:
        """Lines side by side."""
        what = self.what
        lines = Lines(self.w, what, self.word, first, lanes)
        if what.folded:
            (self.read_back if what.way == "back" else self.read_folded)(lines)
        else:
            self.read(lines)
        self.transform(self.places, lanes)
        if what.chirps:
            self.convolve(lanes)
        if what.folded:
            (self.write_back if what.way == "back" else self.write_folded)(lines)
        else:
            self.write(lines)

    # -- the transform --------------------------------------------------------------------------

    def transform(self, places: list[str], lanes: int) -> None:
        """All stages; the result lies at the first place, or the second if they are odd."""
        w, word = self.w, self.word
        words = w.address("%args")
        numbers = [words, w.whole(SpectrumWords.word_count()), word.stages, w.address(self.roots)]
        w.call(stages_name(self.kind, lanes), [*numbers, *map(w.address, places)])

    def settled(self) -> str:
        """Where the last transform has left its result."""
        # Twice as many stages: back where they began.
        return self.places[0] if self.what.chirps else self.result()

    def result(self) -> str:
        """Where the first transform leaves it."""
        return self.either_place(*self.places)

    def either_place(self, even: str, odd: str) -> str:
        w, is_odd = self.w, self.word.stages.modulo(2).eq(1)
        return w.pointer(select(is_odd, w.address(odd), w.address(even)))

    def element(self, place: str, k: V, lanes: int) -> Pair:
        return both_parts(self.w, place, self.kind, k, lanes)

    def put(self, place: str, k: V, value: Pair, lanes: int) -> None:
        put_parts(self.w, place, value, k, lanes)

    def write_roots(self, table: V, place: str, count: V) -> None:
        """Write down the first roots of unity of a table's order."""
        roots = Roots(self.w, "%args", table)
        self.w.loop(0, count, lambda k: self.put(place, k, roots(k, self.kind), 1))

    def scale(self, lanes: int, by: float = 1.0) -> V:
        """What results are multiplied with."""
        scale = (self.word.scale.bitcast("f64") * by).convert(self.kind)
        return self.w.code.splat(scale, lanes) if lanes > 1 else scale

    # -- chirps ---------------------------------------------------------------------------------

    def chirp(self, k: V, lanes: int) -> Pair:
        return loaded_pair(self.w, self.chirps, self.kind, k * 2, lanes)

    def clear(self, start: Any, stop: V, lanes: int) -> None:
        """Zeros in a part of the first place."""
        zero = self.w.code.const(0, self.kind, lanes)
        self.w.loop(start, stop, lambda k: self.put(self.places[0], k, (zero, zero), lanes))

    def make_filter(self) -> None:
        """Write down the chirps, and the transform of what they are divided by."""
        w, n, padded, place = self.w, self.word.length, self.word.padded, self.places[0]
        order, roots = n * 2, Roots(w, "%args", self.word.chirps)
        self.clear(0, padded, 1)

        def put(k: V, square: V) -> list[V]:
            x, y = roots(square, self.kind)
            self.put(self.chirps, k, (x, y), 1)
            for at in (k, select(k.eq(0), 0, padded - k)):
                self.put(place, at, (x, -y), 1)
            after = square + k * 2 + 1  # of the next number, in a circle of twice the length
            return [select(after >= order, after - order, after)]

        w.loop(0, n, put, [w.whole(0)])
        self.transform(self.places, 1)
        result = self.result()
        w.loop(0, padded, lambda k: self.put(self.filter, k, self.element(result, k, 1), 1))

    def convolve(self, lanes: int) -> None:
        """Multiply with the filter and transform back, parts exchanged."""
        w, place, other = self.w, self.result(), self.either_place(*reversed(self.places))

        def one(k: V) -> None:
            by = loaded_pair(w, self.filter, self.kind, k * 2, lanes)
            x, y = times(self.element(place, k, lanes), by)
            self.put(place, k, (y, x), lanes)

        w.loop(0, self.word.padded, one)
        self.transform([place, other], lanes)

    # -- lines ----------------------------------------------------------------------------------

    def read(self, lines: Lines) -> None:
        """The operand's lines, completed and multiplied as the transform needs them."""
        what, lanes = self.what, lines.lanes
        if what.chirps:
            self.clear(self.word.length, self.word.padded, lanes)

        def put(k: V, value: Pair, c: Pair | None) -> None:
            value = (value[1], value[0]) if what.inverse else value
            self.put(self.places[0], k, value if c is None else times(value, c), lanes)

        def one(k: V, value: Pair) -> None:
            c = self.chirp(k, lanes) if what.chirps else None
            if what.way == "back":
                value = self.completed(k, value, c, put)
            put(k, value, c)

        lines.each(one, reals=what.way == "half")

    def completed(self, k: V, value: Pair, c: Pair | None, put: Callable[..., None]) -> Pair:
        """An element of half a spectrum, whose conjugate is put where the other half has it."""
        w, n = self.w, self.word.length
        alone = k.eq(0) | (k * 2).eq(n)
        lanes = value[0].lanes
        mask = w.code.splat(alone, lanes) if lanes > 1 else alone
        x, y = value[0], select(mask, w.code.const(0, self.kind, lanes), value[1])
        if c is not None:  # c[n - k] is c[k], or minus that where n is odd
            odd = n.modulo(2).eq(1)
            odd = w.code.splat(odd, lanes) if lanes > 1 else odd
            c = select(odd, -c[0], c[0]), select(odd, -c[1], c[1])
        w.when(~alone, lambda: put(n - k, (x, -y), c))
        return x, y

    def sheet_turns(self, lines: Lines) -> Callable[[V], Pair]:
        """The roots that go with each element of a sheet's columns."""
        w, word, lanes = self.w, self.word, lines.lanes
        roots, (_, column) = Roots(w, "%args", word.chirps), w.split(lines.first, word.after)
        table = w.at(w.pointer(w.address("%args") + word.turns * 8), self.kind, w.whole(0))

        def turn(k: V) -> Pair:
            x, y = roots(k * column, self.kind)
            if lanes == 1:
                return x, y
            one = w.code.splat(x, lanes), w.code.splat(y, lanes)
            return times(one, both_parts(w, table, self.kind, k, lanes))

        return turn

    def write(self, lines: Lines) -> None:
        """The result's lines."""
        what, lanes = self.what, lines.lanes
        place, scale = self.settled(), self.scale(lanes)
        turn = self.sheet_turns(lines) if what.sheet == "columns" else None
        if what.sheet == "rows":
            lines.turned()

        def one(k: V) -> Pair:
            x, y = self.element(place, k, lanes)
            # The second transform had its parts exchanged.
            x, y = times((y, x), self.chirp(k, lanes)) if what.chirps else (x, y)
            x, y = (x, y) if turn is None else times((x, y), turn(k))
            x, y = (y, x) if what.inverse else (x, y)
            return x * scale, y * scale

        lines.fill(one, reals=what.way == "back")

    # -- folded lines ---------------------------------------------------------------------------

    def read_folded(self, lines: Lines) -> None:
        """Neighbours as the two parts of a number."""
        lines.each_two(lambda k, value: self.put(self.places[0], k, value, lines.lanes))

    def opposite(self, place: str, k: V, lanes: int) -> tuple[Pair, Pair, Pair]:
        """An element, the one as far from the end, and the root that goes with them."""
        half = self.word.padded
        there, back = self.element(place, k, lanes), self.element(place, half - k, lanes)
        return there, back, loaded_pair(self.w, self.filter, self.kind, k * 2, lanes)

    def write_folded(self, lines: Lines) -> None:
        """What the transform of half as many numbers comes to."""
        lanes, half = lines.lanes, self.word.padded
        place, scale = self.settled(), self.scale(lanes, 0.5)
        self.put(place, half, self.element(place, self.w.whole(0), lanes), lanes)

        def one(k: V) -> Pair:
            (x, y), (u, v), turn = self.opposite(place, k, lanes)
            odd = times((y + v, u - x), turn)
            real, imaginary = (x + u) + odd[0], (y - v) + odd[1]
            return real * scale, (-imaginary if self.what.inverse else imaginary) * scale

        lines.fill(one, reals=False)

    def read_back(self, lines: Lines) -> None:
        """Half a spectrum as the transform of half as many numbers, parts exchanged."""
        w, lanes, half = self.w, lines.lanes, self.word.padded
        first, second = self.places
        lines.each(lambda k, value: self.put(second, k, value, lanes), reals=False)
        # Those two are their own conjugates.
        zero = w.code.const(0, self.kind, lanes)
        for k in (w.whole(0), half):
            self.put(second, k, (self.element(second, k, lanes)[0], zero), lanes)

        def one(k: V) -> None:
            (x, y), (u, v), (c, s) = self.opposite(second, k, lanes)
            p, q = times((x - u, y + v), (c, -s))
            real, imaginary = (x + u) - q, (y - v) + p
            self.put(first, k, (imaginary, real), lanes)

        w.loop(0, half, one)

    def write_back(self, lines: Lines) -> None:
        """The two parts of a number as neighbours."""
        place, scale = self.settled(), self.scale(lines.lanes)

        def one(k: V) -> Pair:
            y, x = self.element(place, k, lines.lanes)
            return x * scale, y * scale

        lines.fill_two(one)
