"""Winograd's convolutions of pixels (Note [winograd]).

Note [winograd pixels]
    A piece of work is some tiles of two by two results, and some strips of output channels. Each
    tile's four by four pixels are transformed to sixteen points along their channels, whole vectors
    at a time, so that nothing is turned; beyond an image's edge a row of zeros is read (Note
    [pixels]). At each point the tiles' rows of channels meet that point's strip of weights. Sixteen
    products of a tile then become its four results, on which what follows is done as well.

    Where one of these is no finite number, the tile's are made again, term by term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, final

from adjoint.engine.backends.llvm.ir.masked import gathered
from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import LINE, CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.kernel import store_sums
from adjoint.engine.backends.llvm.templates.convolution.pixels.pieces_kernel import (
    FILLED,
    PixelForm,
    PixelKernel,
    PixelWords,
    Put,
)
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK
from adjoint.engine.backends.llvm.templates.convolution.winograd.images_kernel import (
    OUT,
    POINTS,
    SIDE,
    SKEW,
    TAPS,
    by_both,
    filter_line,
    input_line,
    output_line,
)
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.vector import V, any_of, mad, width

TILES = 56  # of a piece, at most
ROOM = 1 << 14  # tiles times channels of a piece, at most
CHAIN = 128  # channels that are summed one after another, at most


# -- weights ------------------------------------------------------------------------------------


@dataclass(slots=True)
class PixelPointWords(LaunchWords):
    """Filters at points, in strips, and a row of zeros; offsets of the nine taps follow."""

    source: Any
    target: Any
    zeros: Any
    rows: Any  # output channels of a group
    channels: Any
    strips: Any  # of a group
    pieces: Any  # strips of all groups
    zero_count: Any
    row_step: Any
    channel_step: Any
    group_step: Any


def points_text(name: str, kind: str, vectors: int) -> Text:
    """Strips [group][strip][point][channel][output channel]: beyond the last one, it again."""
    w = CodeWriter()
    word = PixelPointWords.read_by(w)
    source, target, zeros = map(w.pointer, (word.source, word.target, word.zeros))
    taps = [w.word(PixelPointWords.word_count() + t) for t in range(TAPS * TAPS)]
    lanes, item = outer_tile(kind).lanes, width(kind) // 8
    columns = vectors * lanes

    def piece(number: V) -> None:
        group, strip = w.split(number, word.strips)
        base = w.at(source, kind, group * word.group_step)
        to = w.at(target, kind, number * POINTS * word.channels * columns)

        def vector(v: V) -> None:
            row = w.code.splat((strip * vectors + v) * lanes, lanes) + w.code.iota("i64", lanes)
            last = w.code.splat(word.rows - 1, lanes)
            places = w.code.select(row < last, row, last) * w.code.splat(word.row_step, lanes)

            def channel(c: V) -> None:
                starts = [w.code.splat(c * word.channel_step + tap, lanes) for tap in taps]
                g = [gathered((places + start) * item, base, kind) for start in starts]
                points = by_both([g[i : i + TAPS] for i in range(0, len(g), TAPS)], filter_line)
                for p, point in enumerate(chain(*points)):
                    w.store(point, to, (word.channels * p + c) * columns + v * lanes)

            w.loop(0, word.channels, channel)

        w.loop(0, w.whole(vectors), vector)

    w.pieces(word.pieces, piece)
    nothing = w.code.const(0, kind)
    first = w.code.value("%worker", "i64", 1).eq(0)
    w.when(first, lambda: w.loop(0, word.zero_count, lambda c: w.store(nothing, zeros, c)))
    return w.finish(name)


# -- the convolution ----------------------------------------------------------------------------


@dataclass(slots=True)
class WinogradPixelWords(PixelWords):
    """Tiles for positions; offsets of the nine taps in the given weights follow those of taps."""

    weights: Any  # as they were given
    group_weights: Any
    row_weights: Any
    channel_weights: Any
    line_target: Any  # from a row of an image to the next
    step_target: Any  # from a pixel to the next
    high: Any  # of results
    wide: Any
    numbers: Sequence[Any] = field(metadata=several(RANK + 1))  # of results: a tile's first


@final
class WinogradPixelKernel(PixelKernel):
    """Writes the kernel of Note [winograd pixels]."""

    words: ClassVar[type[PixelWords]] = WinogradPixelWords
    word: WinogradPixelWords

    def __init__(self, form: PixelForm) -> None:
        super().__init__(form)
        w, word = self.w, self.word
        self.given = w.pointer(word.weights)
        self.exact_taps = w.at(self.taps, "i64", w.whole(POINTS * 3))
        self.transformed = w.reserve(self.kind, POINTS * (ROOM + SKEW))
        room = (TILES + 16) * self.columns
        self.products = w.reserve(self.kind, POINTS * (room + SKEW))
        self.product = w.whole(room + SKEW)  # from a point's to the next
        self.point = w.whole(ROOM + SKEW)

    def tables(self) -> list[tuple[str, Sequence[V]]]:
        self.numbers = self.w.reserve("i64", FILLED)
        return [(self.numbers, self.word.numbers)]

    def begin(self, count: V) -> object:
        """The tiles' pixels transformed: for each point rows [tile][channel]."""
        w, word, kind, lanes = self.w, self.word, self.kind, self.lanes

        def tile(j: V) -> None:
            def vector(c: V) -> None:
                some = w.lanes_below(word.channels - c, lanes)
                square = [
                    [
                        w.load_some(
                            some, kind, self.pixel(w.whole(y * SIDE + x), j, c * self.item),
                            w.whole(0),
                        )
                        for x in range(SIDE)
                    ]
                    for y in range(SIDE)
                ]  # fmt: skip
                to = j * word.channels + c
                for p, point in enumerate(chain(*by_both(square, input_line))):
                    w.store_some(some, point, self.transformed, self.point * p + to)

            w.loop(0, word.channels, vector, step=lanes)

        return w.loop(0, count, tile)

    def strip(self, weights: str, m: V, count: V, put: Put) -> None:
        w, word, kind, form = self.w, self.word, self.kind, self.form

        def point(p: V) -> None:
            mine = w.at(self.transformed, kind, p * self.point)
            theirs = w.at(weights, kind, p * word.channels * self.columns)
            to = w.at(self.products, kind, p * self.product)

            def some_rows(j: V) -> None:
                # Tiles beyond the last are like it: nobody reads their products.
                rows = [w.least(j + r, count - 1) * word.channels for r in range(form.rows)]
                places = [
                    (j + r) * self.columns + v * self.lanes
                    for r in range(form.rows)
                    for v in range(form.vectors)
                ]

                def chain_from(c: V) -> None:
                    lines = [w.at(mine, kind, row + c) for row in rows]
                    columns = w.at(theirs, kind, c * self.columns)
                    sums = self.multiply(lines, columns, w.least(word.channels - c, CHAIN), j)
                    store_sums(w, sums, to, kind, places, c > 0)

                w.loop(0, word.channels, chain_from, step=CHAIN)

            w.loop(0, count, some_rows, step=form.rows)

        w.loop(0, w.whole(POINTS), point)
        w.loop(0, count, lambda j: self.results(j, m, put))

    def multiply(self, lines: Sequence[str], columns: str, depth: V, j: V) -> list[V]:
        """Sums of rows of points times a strip's, at the positions of a tile."""
        w, kind, form, lanes = self.w, self.kind, self.form, self.lanes
        # Each tile asks for one of the weights' rows of a turn, those of the next point.
        tile = j.quotient(w.whole(form.rows)).modulo(w.whole(form.turns))
        ahead = (self.word.channels + tile) * self.columns

        def term(k: V, *before: V) -> list[V]:
            after = list(before)
            here = w.at(columns, kind, k * self.columns)
            if form.ahead:
                later = w.at(here, kind, ahead)
                for start in range(0, self.columns * self.item, LINE):
                    w.prefetch(later, start, near=2)
            for turn in range(form.turns):
                starts = [turn * self.columns + v * lanes for v in range(form.vectors)]
                factors = [w.load(here, kind, w.whole(start), lanes) for start in starts]
                for r, line in enumerate(lines):
                    x = w.code.splat(w.load(w.at(line, kind, k), kind, w.whole(turn)), lanes)
                    for v, factor in enumerate(factors):
                        n = r * form.vectors + v
                        after[n] = mad(factor, x, after[n])
            return after

        zero = w.code.const(0, kind, lanes)
        return w.loop(0, depth, term, [zero] * (form.rows * form.vectors), step=form.turns)

    def results(self, j: V, m: V, put: Put) -> None:
        """The results of a tile."""
        w, word, kind, lanes = self.w, self.word, self.kind, self.lanes
        made: list[V] = []  # of each place, of each vector
        by_vector = []
        for v in range(self.form.vectors):
            start = j * self.columns + v * lanes
            square = [
                [
                    w.load(self.products, kind, self.product * (y * SIDE + x) + start, lanes)
                    for x in range(SIDE)
                ]
                for y in range(SIDE)
            ]
            by_vector.append(list(chain(*by_both(square, output_line))))
        made = [of_vector[n] for n in range(OUT * OUT) for of_vector in by_vector]
        strange = w.code.const(0, kind, lanes)
        for x in made:
            strange = mad(x, 0, strange)
        unusual = any_of(strange.ne(0))
        made = w.choose(unusual, lambda: self.exactly(j, m, put.group), lambda: made)
        at = w.load(self.at, "i64", j)
        y, x = (at >> 32) * OUT, (at & ((1 << 32) - 1)) * OUT
        start, number = w.load(self.outs, "i64", j), w.load(self.numbers, "i64", j)
        for n in range(OUT * OUT):
            down, across = divmod(n, OUT)
            some = made[n * self.form.vectors : (n + 1) * self.form.vectors]
            there = start + word.line_target * down + word.step_target * across
            which = number + word.wide * down + across

            def write(some: Sequence[V] = some, there: V = there, which: V = which) -> None:
                put.at(some, there, which)

            if n == 0:
                write()
            else:
                w.when((y + down < word.high) & (x + across < word.wide), write)

    def exactly(self, j: V, m: V, group: V) -> list[V]:
        """The results of a tile as sums of their own terms, so that infinities and NaN reach no
        others."""
        w, word, kind, lanes, vectors = self.w, self.word, self.kind, self.lanes, self.form.vectors
        base = w.at(self.given, kind, group.quotient(word.m) * word.group_weights)
        last = w.code.splat(word.m - 1, lanes)
        places = []
        for v in range(vectors):
            row = w.code.splat(m + v * lanes, lanes) + w.code.iota("i64", lanes)
            row = w.code.select(row < last, row, last)
            places.append(row * w.code.splat(word.row_weights, lanes))

        def channel(c: V, *before: V) -> list[V]:
            def tap(t: V, *sums: V) -> list[V]:
                down, across = w.split(t, w.whole(TAPS))
                here = c * word.channel_weights + w.load(self.exact_taps, "i64", t)
                factors = [
                    gathered((place + w.code.splat(here, lanes)) * self.item, base, kind)
                    for place in places
                ]
                after = []
                for n in range(OUT * OUT):
                    y, x = divmod(n, OUT)
                    pixel = self.pixel((down + y) * SIDE + across + x, j, c * self.item)
                    element = w.code.splat(w.load(pixel, kind, w.whole(0)), lanes)
                    after += [
                        mad(factor, element, sums[n * vectors + v])
                        for v, factor in enumerate(factors)
                    ]
                return after

            return w.loop(0, w.whole(TAPS * TAPS), tap, before)

        zero = w.code.const(0, kind, lanes)
        return w.loop(0, word.channels, channel, [zero] * (OUT * OUT * vectors))


def winograd_pixels_text(name: str, form: PixelForm) -> Text:
    """The kernel of Note [winograd pixels]; words of an epilogue follow its own, then taps'."""
    return WinogradPixelKernel(form).text(name)
