"""The kernel of Fourier transforms along one dimension, of any length.

Elements are seen as (before, length, after), in row-major order; complex numbers are pairs. Each
group of lines is read into the worker's own memory, transformed (`stages.py`) and written. An
inverse transform is one with both parts exchanged before and after.

Note [chirps]
    A length with a large prime factor is transformed by Bluestein's way: the transform of x is c
    times the convolution of c x with 1 / c, where c[k] = exp(-i pi k^2 / n), and transforms of a
    power of two convolve. That is done in doubles, also for float32, whose digits it would cost.

Note [folded lines]
    Reals of an even number n are n / 2 complex ones, each of two neighbours, whose transform Z has
    half the work. What n reals come to is E[k] + w^k O[k], where E and O, the transforms of the
    even and the odd ones, are (Z[k] + conj Z[n/2 - k]) / 2 and (Z[k] - conj Z[n/2 - k]) / 2i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.llvm.templates.spectra.stages import (
    Pair,
    Roots,
    loaded_pair,
    stages_name,
    times,
    write_stages,
)
from adjoint.engine.backends.registers.vector import V, select

# The result, the operand, the workers' memory and how many elements of it a piece has; lines,
# elements after the dimension, of it in the operand and in the result; the length, that of the
# stages, their number, the scale (a double), where their table and that of chirps lie, pieces.


@dataclass(frozen=True, slots=True)
class Spectrum:
    """What decides a kernel's text."""

    kind: str
    way: str  # "whole": pairs to pairs; "half": reals to pairs; "back": pairs to reals
    inverse: bool
    chirps: bool
    near: bool  # lines that are transformed at once lie next to each other
    folded: bool = False  # Note [folded lines]

    @property
    def worked(self) -> str:
        """What is computed in."""
        return "f64" if self.chirps else self.kind

    @property
    def lanes(self) -> int:
        return outer_tile(self.worked).lanes

    @property
    def function(self) -> str:
        """The name of the kernel."""
        ways = [self.way, *["inverse"] * self.inverse]
        ways += [*["chirps"] * self.chirps, *["near"] * self.near]
        ways += ["folded"] * self.folded
        return f"spectrum_{'_'.join(ways)}_{self.kind}_{self.lanes}"


def room_of(what: Spectrum, padded: int) -> int:
    """Elements of a worker's memory: two places of both parts, roots; the filter and chirps."""
    return 4 * padded * what.lanes + (6 if what.chirps or what.folded else 2) * padded


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
    chirps: Any  # and chirps, or the roots of the unfolded length
    pieces: Any


class SpectrumKernel:
    """Writes one kernel."""

    def __init__(self, what: Spectrum) -> None:
        self.what, self.w = what, CodeWriter()
        self.word = SpectrumWords.read_by(self.w)
        self.kind = what.worked
        for lanes in {1, what.lanes}:
            write_stages(self.w, self.kind, lanes)

    def text(self, name: str) -> Text:
        w, word, lanes = self.w, self.word, self.what.lanes
        low, high = w.share(word.pieces)
        groups = (word.lines + (lanes - 1)).quotient(lanes)

        def piece(p: V) -> None:
            room = p * word.room
            *self.places, self.roots, self.filter, self.chirps = [
                w.at(w.pointer(word.work), self.kind, room + word.padded * k)
                for k in (*range(0, 4 * lanes, lanes), *range(4 * lanes, 4 * lanes + 6, 2))
            ]
            self.make_roots()
            if self.what.chirps:
                self.make_filter()
            if self.what.folded:
                roots = Roots(w, "%args", word.chirps)
                put = lambda k: self.put_pair(roots(k, self.kind), self.filter, k)
                w.loop(0, word.padded + 1, put)
            first = (groups * p).quotient(word.pieces) * lanes
            last = (groups * (p + 1)).quotient(word.pieces) * lanes
            last = w.least(last, word.lines)
            middle = last - (last - first).modulo(lanes)
            w.loop(first, middle, lambda line: self.lines(line, lanes), step=lanes)
            w.loop(middle, last, lambda line: self.lines(line, 1))

        w.loop(low, high, piece)
        return w.finish(name)

    def lines(self, first: V, lanes: int) -> None:
        """Lines side by side."""
        self.read(first, lanes)
        self.transform(self.places[:4], lanes)
        if self.what.chirps:
            self.convolve(lanes)
        self.write(first, lanes)

    # -- the transform --------------------------------------------------------------------------

    def transform(self, places: list[str], lanes: int) -> None:
        """All stages; the result lies at the first place, or the second if they are odd."""
        w, word = self.w, self.word
        words = w.address("%args")
        numbers = [words, w.whole(SpectrumWords.word_count()), word.stages, w.address(self.roots)]
        w.call(stages_name(self.kind, lanes), [*numbers, *map(w.address, places)])

    def result(self, places: list[str]) -> list[str]:
        """Where a transform's result lies."""
        w, odd = self.w, self.word.stages.modulo(2).eq(1)
        addresses = [*map(w.address, places)]
        return [
            w.pointer(select(odd, b, a)) for a, b in zip(addresses[:2], addresses[2:4], strict=True)
        ]

    def other(self, places: list[str]) -> list[str]:
        """The place where it does not."""
        return self.result([*places[2:4], *places[:2]])

    # -- chirps ---------------------------------------------------------------------------------

    def make_roots(self) -> None:
        """Write down all roots of unity of the stages' length."""
        w, roots = self.w, Roots(self.w, "%args", self.word.table)
        w.loop(0, self.word.padded, lambda k: self.put_pair(roots(k, self.kind), self.roots, k))

    def put_pair(self, pair: Pair, place: str, k: V) -> None:
        for number, part in enumerate(pair):
            self.w.store(part, place, k * 2 + number)

    def chirp(self, k: V, lanes: int) -> Pair:
        return loaded_pair(self.w, self.chirps, self.kind, k * 2, lanes)

    def make_filter(self) -> None:
        """Write down the chirps, and the transform of what they are divided by."""
        w, n, padded = self.w, self.word.length, self.word.padded
        zero, order = w.code.const(0, self.kind), n * 2
        roots = Roots(w, "%args", self.word.chirps)
        for place in self.places[:2]:
            w.loop(0, padded, lambda k, place=place: w.store(zero, place, k))

        def put(k: V, square: V) -> list[V]:
            x, y = roots(square, self.kind)
            self.put_pair((x, y), self.chirps, k)
            back = select(k.eq(0), 0, padded - k)
            for place, part in zip(self.places, (x, -y), strict=False):
                w.store(part, place, k)
                w.store(part, place, back)
            after = square + k * 2 + 1  # of the next number, in a circle of twice the length
            return [select(after >= order, after - order, after)]

        w.loop(0, n, put, [w.whole(0)])
        self.transform(self.places[:4], 1)
        for number, place in enumerate(self.result(self.places)):
            start = padded * number
            w.loop(
                0, padded,
                lambda k, place=place, start=start: w.store(
                    w.load(place, self.kind, k), self.filter, start + k
                ),
            )  # fmt: skip

    def convolve(self, lanes: int) -> None:
        """Multiply with the filter and transform back, parts exchanged."""
        w, padded = self.w, self.word.padded
        places, others = self.result(self.places), self.other(self.places)

        def one(k: V) -> None:
            parts = [w.load(self.filter, self.kind, padded * number + k) for number in (0, 1)]
            if lanes > 1:
                parts = [w.code.splat(part, lanes) for part in parts]
            x, y = (w.load(place, self.kind, k * lanes, lanes) for place in places)
            product = times((x, y), (parts[0], parts[1]))
            for place, part in zip(places, product, strict=True):
                w.store(part, place, k * lanes)

        w.loop(0, padded, one)
        # From where the result lies, imaginary part first; once more an even or odd way.
        self.transform([places[1], places[0], others[1], others[0]], lanes)

    def settled(self) -> list[str]:
        """Where the last transform has left both parts."""
        if not self.what.chirps:
            return self.result(self.places)
        return self.places[:2]  # twice as many stages: back where they began

    # -- memory ---------------------------------------------------------------------------------

    def bases(self, first: V, lanes: int, count: V) -> list[V]:
        """Where the lines begin; of those that are neighbours, the first one."""
        starts = []
        for lane in range(1 if self.what.near else lanes):
            before, after = self.w.split(first + lane, self.word.after)
            starts.append(before * count * self.word.after + after)
        return starts

    def loaded(self, at: list[V], lanes: int) -> Pair:
        """Elements of the operand, a lane each."""
        w, kind, source = self.w, self.what.kind, self.w.pointer(self.word.source)
        if self.what.way == "half":
            near = self.what.near
            x = w.load(source, kind, at[0], lanes) if near else w.gather(source, kind, at)
            return x.convert(self.kind), w.code.const(0, self.kind, lanes)
        if self.what.near and lanes > 1:
            first, second = (w.load(source, kind, at[0] * 2 + k, lanes) for k in (0, lanes))
            parts = [w.pick(first, second, range(k, 2 * lanes, 2)) for k in (0, 1)]
        else:
            parts = [w.gather(source, kind, [x * 2 + k for x in at]) for k in (0, 1)]
        return parts[0].convert(self.kind), parts[1].convert(self.kind)

    def stored(self, parts: list[V], at: list[V], lanes: int) -> None:
        """Elements of the result, of each lane both parts or the first."""
        w, target = self.w, self.w.pointer(self.word.out)
        alone = self.what.way == "back"
        if self.what.near and (alone or lanes > 1):
            if alone:
                w.store(parts[0], target, at[0])
                return
            turns = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
            for k in (0, lanes):
                w.store(w.pick(parts[0], parts[1], turns[k : k + lanes]), target, at[0] * 2 + k)
            return
        for lane, place in enumerate(at):
            for number, part in enumerate(parts[:1] if alone else parts):
                value = part if lanes == 1 else w.lane(part, lane)
                w.store(value, target, place if alone else place * 2 + number)

    def read_folded(self, first: V, lanes: int) -> None:
        """Neighbours as the two parts of a number."""
        w, word = self.w, self.word
        bases = self.bases(first, lanes, word.read)

        def one(k: V) -> None:
            for number in (0, 1):
                at = [base + (k * 2 + number) * word.after for base in bases]
                w.store(self.loaded(at, lanes)[0], self.places[number], k * lanes)

        w.loop(0, word.padded, one)

    def write_folded(self, first: V, lanes: int) -> None:
        """What the transform of half as many numbers comes to."""
        w, word, half = self.w, self.word, self.word.padded
        bases = self.bases(first, lanes, word.written)
        places = self.settled()
        scale = word.scale.bitcast("f64").convert(self.kind) * 0.5
        scale = w.code.splat(scale, lanes) if lanes > 1 else scale

        def one(k: V) -> None:
            there, back = select(k.eq(half), 0, k), select(k.eq(0), 0, half - k)
            (x, u), (y, v) = (
                [w.load(place, self.kind, at * lanes, lanes) for at in (there, back)]
                for place in places
            )
            turn = loaded_pair(w, self.filter, self.kind, k * 2, lanes)
            odd = times((y + v, u - x), turn)
            real, imaginary = (x + u) + odd[0], (y - v) + odd[1]
            imaginary = -imaginary if self.what.inverse else imaginary
            parts = [part * scale for part in (real, imaginary)]
            self.stored(parts, [base + k * word.after for base in bases], lanes)

        w.loop(0, word.written, one)

    def read(self, first: V, lanes: int) -> None:
        """The operand's lines, completed and multiplied as the transform needs them."""
        if self.what.folded:
            self.read_folded(first, lanes)
            return
        w, word, what = self.w, self.word, self.what
        bases, n = self.bases(first, lanes, word.read), word.length
        zero = w.code.const(0, self.kind, lanes)
        if what.chirps:
            for place in self.places[:2]:
                w.loop(
                    n, word.padded,
                    lambda k, place=place: w.store(zero, place, k * lanes),
                )  # fmt: skip

        def put(k: V, value: Pair, c: Pair | None) -> None:
            value = (value[1], value[0]) if what.inverse else value
            value = times(value, c) if c is not None else value
            for place, part in zip(self.places, value, strict=False):
                w.store(part, place, k * lanes)

        def one(k: V) -> None:
            at = [base + k * word.after for base in bases]
            value = self.loaded(at, lanes)
            c = self.chirp(k, lanes) if what.chirps else None
            if what.way == "back":
                value = self.completed(k, value, c, put)
            put(k, value, c)

        w.loop(0, word.read, one)

    def completed(self, k: V, value: Pair, c: Pair | None, put: object) -> Pair:
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
        w.when(~alone, lambda: put(n - k, (x, -y), c))  # type: ignore[operator]
        return x, y

    def write(self, first: V, lanes: int) -> None:
        """The result's lines."""
        if self.what.folded:
            self.write_folded(first, lanes)
            return
        w, word, what = self.w, self.word, self.what
        bases = self.bases(first, lanes, word.written)
        places = self.settled()
        scale = word.scale.bitcast("f64").convert(self.kind)
        scale = w.code.splat(scale, lanes) if lanes > 1 else scale

        def one(k: V) -> None:
            x, y = (w.load(place, self.kind, k * lanes, lanes) for place in places)
            if what.chirps:
                x, y = times((x, y), self.chirp(k, lanes))
            both = (y, x) if what.inverse else (x, y)
            parts = [(part * scale).convert(what.kind) for part in both]
            self.stored(parts, [base + k * word.after for base in bases], lanes)

        w.loop(0, word.written, one)
