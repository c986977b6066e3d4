"""Kernels of a row of floats times a weight of 4 or 8 bits, by dots of bytes.

Note [planes]
    Where a processor has dots (Note [dots]), a group of the input is first written as whole numbers
    of 24 bits times a power of two: three planes of signed bytes. Each plane is multiplied with the
    weight's bytes exactly, in int32, the zero point's share is taken off there, and only then are
    the sums floats. Rounding to that power of two is an error of at most 2**-22 of the group's
    largest number, less than what summing floats adds; in a group of which that is not true, as its
    largest number is far beyond the others (`WIDE`), or is no number, floats are multiplied
    (Note [grouped products]): its step is written as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.groups.kernel import (
    LANES,
    GroupedForm,
    GroupedProduct,
    GroupedWords,
)
from adjoint.engine.backends.llvm.templates.integers.dots import DOTS, OFFSET, Dot
from adjoint.engine.backends.registers.vector import V, int_max, mad

ACROSS = 4  # rows of the weight at a time
DIGITS = 3  # planes
RECORD = 4  # words about a group: its step, and the sum of each plane, the lowest first
WHOLE_BITS = 21  # of the largest number of a group; the planes hold 23 and a sign
WIDE = 32  # times the mean of a group that its largest number may be
EXPONENT = 0x7F800000
SMALLEST, LARGEST = (27 << 23), (227 << 23)  # bits of 2**-100 and 2**100


def by_dots(form: GroupedForm, group: int, dot: Dot) -> bool:
    """Whether a product goes by dots: whole vectors of them, and whole zero points."""
    quick = dot.name in ("sdot", "vnni256", "vnni512", "unsigned")
    return quick and form.exact and group % chunk_of(form.bits, dot) == 0 and group <= 1 << 15


def chunk_of(bits: int, dot: Dot) -> int:
    """Numbers whose bytes are one load."""
    return dot.size * (8 // bits)


def _with_feature(text: Text, dot: Dot) -> Text:
    head = "i64 %workers)"
    body, declared = text
    if dot.feature:
        body = body.replace(head, f'{head} "target-features"="{dot.feature}"', 1)
    return body, declared


def _halved(w: CodeWriter, x: V, join: Callable[[V, V], V], lanes: int) -> V:
    """Lanes joined by halves until so many are left."""
    while x.lanes > lanes:
        half = x.lanes // 2
        x = join(w.pick(x, x, range(half)), w.pick(x, x, range(half, x.lanes)))
    return x


# -- planes -------------------------------------------------------------------------------------


@dataclass(slots=True)
class PlaneWords(LaunchWords):
    """Rows of floats as planes of bytes, group by group."""

    source: Any
    planes: Any
    records: Any
    rows: Any
    count: Any  # of groups in a row
    size: Any  # elements of each
    source_row: Any
    pieces: Any


@dataclass(slots=True)
class MadeWords(LaunchWords):
    """What the product reads of them, behind the words of Note [grouped products]."""

    planes: Any
    records: Any


class PlaneWriter:
    """Writes the kernel that makes planes of rows of floats; workers share the groups."""

    def __init__(self, bits: int, dot: Dot) -> None:
        self.bits, self.dot = bits, dot
        self.w = w = CodeWriter()
        self.word = PlaneWords.read_by(w)

    def text(self, name: str) -> Text:
        w, word = self.w, self.word
        low, high = w.share(word.pieces)
        self.source, self.planes, self.records = (
            w.pointer(start) for start in (word.source, word.planes, word.records)
        )
        w.loop(low, high, self.group)
        return w.finish(name)

    def group(self, p: V) -> None:
        """One group of one row."""
        w, word = self.w, self.word
        row, number = w.split(p, word.count)
        begin = number * word.size
        source = w.at(self.source, "f32", row * word.source_row + begin)
        largest, mean = self.range(source)
        records = w.at(self.records, "i32", p * RECORD)
        step = (largest & EXPONENT) - (WHOLE_BITS << 23)
        whole_steps = (largest >= SMALLEST) & (largest < LARGEST)
        whole_steps = whole_steps & (largest.bitcast("f32") <= mean * WIDE)

        def split() -> None:
            w.store(step, records, w.whole(0))
            inverse = (w.code.const(254 << 23, "i32") - step).bitcast("f32")
            depth = word.count * word.size
            planes = [
                w.at(self.planes, "i8", (row * DIGITS + k) * depth + begin) for k in range(DIGITS)
            ]
            for k, total in enumerate(self.split(source, inverse, planes)):
                w.store(total, records, w.whole(k + 1))

        w.either(whole_steps, split, lambda: w.store(w.code.const(0, "i32"), records, w.whole(0)))

    def range(self, source: str) -> tuple[V, V]:
        """The bits of the largest number's size, which order as the numbers do; the mean size."""
        w, word = self.w, self.word
        zeros = [w.code.const(0, "i32", LANES), w.code.const(0, "f32", LANES)]

        def turn(k: V, largest: V, total: V) -> list[V]:
            size = w.load(source, "i32", k, LANES) & 0x7FFFFFFF
            return [int_max(largest, size), total + size.bitcast("f32")]

        largest, total = w.loop(0, word.size, turn, zeros, step=LANES)
        pair = _halved(w, largest, int_max, 2)
        return int_max(w.lane(pair, 0), w.lane(pair, 1)), w.total(total) / word.size.convert("f32")

    def split(self, source: str, inverse: V, planes: list[str]) -> list[V]:
        """Write a group's planes; the sum of each."""
        w, chunk = self.w, chunk_of(self.bits, self.dot)
        order = list(range(chunk))
        if self.bits == 4:  # lower halves of bytes hold even numbers, upper ones the odd
            order = [*order[::2], *order[1::2]]

        def turn(k: V, *before: V) -> list[V]:
            floats = w.load(source, "f32", k, chunk) * w.code.splat(inverse, chunk)
            rest = w.pick(floats, floats, order).rint().convert("i32")
            after = []
            for plane, total in zip(planes, before, strict=True):
                digits = rest.convert("i8")
                w.store(digits, plane, k)
                wide = digits.convert("i32")
                after.append(total + wide)
                rest = (rest - wide) >> 8
            return after

        zeros = [w.code.const(0, "i32", chunk)] * DIGITS
        return [w.total(total) for total in w.loop(0, self.word.size, turn, zeros, step=chunk)]


# -- the product --------------------------------------------------------------------------------


class DottedProduct(GroupedProduct):
    """Writes the product of Note [planes]: of one row at a time with four of the weight."""

    def __init__(self, form: GroupedForm, dot: Dot) -> None:
        super().__init__(form)
        self.dot = dot
        first = GroupedWords.word_count()
        self.made = MadeWords(self.w.word(first), self.w.word(first + 1))

    def piece(self, p: V) -> None:
        w, word = self.w, self.word
        self.point_at()
        self.planes, self.records = w.pointer(self.made.planes), w.pointer(self.made.records)
        first = p * word.part
        stop = w.least(first + word.part, word.n)

        def some(j: V) -> None:
            # The last row stands in for those beyond, which give its result again.
            columns = [w.least(j + c, stop - 1) for c in range(ACROSS)]

            def row(i: V) -> None:
                sums = self.row_sums(columns, i)
                for lane, column in enumerate(columns):
                    out = w.lane(sums, lane)
                    if self.form.bias:
                        out = out + w.load(self.bias, "f32", column)
                    w.store(out, self.c, i * word.c_row + column)

            w.loop(0, word.m, row)

        w.loop(first, stop, some, step=ACROSS)

    def row_sums(self, columns: list[V], i: V) -> V:
        """The sums of a row of the input with some of the weight, side by side."""
        w, word = self.w, self.word
        depth = word.groups * word.group
        planes = [w.at(self.planes, "i8", (i * DIGITS + k) * depth) for k in range(DIGITS)]
        source = w.at(self.x, "f32", i * depth)

        def group(g: V, before: V) -> list[V]:
            record = w.at(self.records, "i32", (i * word.groups + g) * RECORD)
            step = w.load(record, "f32", w.whole(0))
            begin = g * word.group
            places = [column * word.groups + g for column in columns]
            starts = [column * depth + begin for column in columns]
            (sums,) = w.choose(
                step.ne(0),
                lambda: [
                    self.dots([w.at(x, "i8", begin) for x in planes], starts, places, record)
                    * w.code.splat(step, ACROSS)
                ],
                lambda: [self.floats(w.at(source, "f32", begin), starts, places)],
            )
            scales = w.join([w.load(self.scale, "f32", place) for place in places])
            return [mad(sums, scales, before)]

        (sums,) = w.loop(0, word.groups, group, [w.code.const(0, "f32", ACROSS)])
        return sums

    def dots(self, planes: list[str], starts: list[V], places: list[V], record: str) -> V:
        """A group's sums in steps of the input, from its planes."""
        w, form, dot = self.w, self.form, self.dot
        per_byte = 8 // form.bits
        bases = [w.at(self.weight, "u8", start.quotient(per_byte)) for start in starts]
        zeros = [w.code.const(0, "i32", dot.lanes)] * (DIGITS * ACROSS)

        def turn(k: V, *before: V) -> list[V]:
            sums = list(before)
            digits = [
                [w.load(plane, "i8", k + part * dot.size, dot.size) for part in range(per_byte)]
                for plane in planes
            ]
            for c, base in enumerate(bases):
                for part, numbers in enumerate(self.bytes_of(base, k.quotient(per_byte))):
                    for d in range(DIGITS):
                        at = d * ACROSS + c
                        sums[at] = dot.add(w, numbers, digits[d][part], sums[at])
            return sums

        sums = w.loop(0, self.word.group, turn, zeros, step=chunk_of(form.bits, dot))
        points = self.points(places)
        total: V | None = None
        for d in reversed(range(DIGITS)):
            mine = [
                _halved(w, x, lambda a, b: a + b, ACROSS)
                for x in sums[d * ACROSS : (d + 1) * ACROSS]
            ]
            exact = w.totals(mine)
            if points is not None:
                share = w.load(record, "i32", w.whole(d + 1))
                exact = exact - points * w.code.splat(share, ACROSS)
            real = exact.convert("f32")
            total = real if total is None else mad(total, w.code.const(256, "f32", ACROSS), real)
        assert total is not None
        return total

    def points(self, places: list[V]) -> V | None:
        """What stands for zero among `bytes_of` in each column's group; None: zero does."""
        w, form = self.w, self.form
        moved = OFFSET if form.bits == 8 and self.dot.moved else 0
        if not form.zero:
            return w.code.const(moved, "i32", ACROSS) if moved else None
        points = w.join([w.load(self.zero, form.zero, place) for place in places]).convert("i32")
        return points + moved if moved else points

    def bytes_of(self, base: str, at: V) -> list[V]:
        """Numbers of the weight as a dot takes them, in the order of the planes."""
        w, size = self.w, self.dot.size
        if self.form.bits == 8:
            numbers = w.load(base, "i8", at, size)
            return [numbers ^ -OFFSET if self.dot.moved else numbers]
        both = w.load(base, "u8", at, size)
        return [(both & 15).bitcast("i8"), (both >> 4).bitcast("i8")]

    def floats(self, source: str, starts: list[V], places: list[V]) -> V:
        """A group's sums by floats."""
        w = self.w
        points = [w.code.splat(self.point(place), LANES) for place in places]
        zeros = [w.code.const(0, "f32", LANES)] * ACROSS

        def turn(k: V, *before: V) -> list[V]:
            row = w.load(source, "f32", k, LANES)
            return [
                mad(self.numbers(start + k) - point, row, total)
                for start, point, total in zip(starts, points, before, strict=True)
            ]

        return w.join([w.total(x) for x in w.loop(0, self.word.group, turn, zeros, step=LANES)])


def planes_text(name: str, bits: int, dot: str) -> Text:
    """The kernel that writes planes."""
    return PlaneWriter(bits, DOTS[dot]).text(name)


def dotted_text(name: str, form: GroupedForm, dot: str) -> Text:
    """The product of Note [planes]."""
    return _with_feature(DottedProduct(form, DOTS[dot]).text(name), DOTS[dot])
