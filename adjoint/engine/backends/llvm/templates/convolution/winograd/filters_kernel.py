"""The kernels of gradients by filters of three by three, by Winograd's points (Note [winograd]).

Note [winograd filters]
    At each of sixteen points the gradient is a product of matrices, in which tiles are the depth:

        dU[row, channel] = sum over tiles of (A dy A')[tile, row] * (B d B')[tile, channel]

    A piece of work is a part of the tiles, of the output channels and of the channels; it
    transforms some tiles at a time, channels along the lanes, into panels of both operands. Parts
    of the tiles have results of their own. A second kernel adds them up in order and makes
    filters of them, G' dU G; one that is not finite it computes anew from the operands themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import LINE, CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.filters_kernel import (
    filter_piece,
    in_blocks,
)
from adjoint.engine.backends.llvm.templates.convolution.kernel import store_sums
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.convolution.winograd.images_kernel import (
    OUT,
    POINTS,
    SIDE,
    TAPS,
    Square,
    by_both,
    input_line,
    joined,
    load_square,
)
from adjoint.engine.backends.llvm.templates.product.tiles import multiply, outer_tile
from adjoint.engine.backends.registers.vector import V, any_of, mad, select, width

ROWS = 64  # output channels of a piece, at most
COLUMNS = 64  # channels of a piece, at most
TILES = 64  # that are transformed together, at most


# -- transforms ---------------------------------------------------------------------------------


def gradient_line(g: Sequence[V]) -> list[V]:
    """Four points of two elements of the gradient; the last is the negative of A's."""
    return [g[0], g[0] + g[1], g[0] - g[1], g[1]]


def taps_line(u: Sequence[V]) -> list[V]:
    """Three taps of four points; the last has the sign that `gradient_line` gives it."""
    near, far = (u[1] + u[2]) * 0.5, (u[1] - u[2]) * 0.5
    return [u[0] + near, far, near - u[3]]


def load_results(w: CodeWriter, kind: str, corners: Sequence[str], line: V) -> Square:
    """Two by two elements from each of these places on, one place in each lane."""
    lanes = len(corners)
    square = []
    for r in range(OUT):
        pairs = joined(w, [w.load(p, kind, line * r, OUT) for p in corners])
        square.append([w.pick(pairs, pairs, range(s, OUT * lanes, OUT)) for s in range(OUT)])
    return square


# -- products -----------------------------------------------------------------------------------


@dataclass(slots=True)
class WinogradFilterWords(LaunchWords):
    """Products at all points: results [part][group][point][row][channel]."""

    source: Any
    gradient: Any
    target: Any
    m: Any
    k: Any
    padded_columns: Any  # of results
    matrix: Any  # from a point's results to the next
    tiles: Any
    part: Any  # tiles of a piece
    block: Any  # that are transformed together
    pieces: Any
    row_parts: Any
    column_parts: Any
    groups: Any
    group_source: Any  # from one group to the next
    group_gradient: Any
    channel_source: Any
    channel_gradient: Any
    line_source: Any  # from a row of an image to the next
    line_gradient: Any
    sizes: Sequence[Any] = field(metadata=several(RANK))  # of the tiles' coordinates
    source_steps: Sequence[Any] = field(metadata=several(RANK + 1))  # example, coordinates
    gradient_steps: Sequence[Any] = field(metadata=several(RANK + 1))


class WinogradFiltersKernel:
    """Writes the first kernel of Note [winograd filters]."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.tile = outer_tile(kind)
        self.w = w = CodeWriter()
        self.word = word = WinogradFilterWords.read_by(w)
        self.source, self.gradient, self.target = map(
            w.pointer, (word.source, word.gradient, word.target)
        )
        tile = self.tile
        self.row_room = -(-ROWS // tile.rows) * tile.rows + tile.lanes  # vectors may reach beyond
        self.column_room = -(-COLUMNS // tile.columns) * tile.columns
        self.left = w.reserve(kind, POINTS * TILES * self.row_room)
        self.right = w.reserve(kind, POINTS * TILES * self.column_room)
        self.places, self.outs = w.reserve("i64", TILES), w.reserve("i64", TILES)
        self.walk = PositionWalk(w, word.sizes, (word.source_steps, word.gradient_steps))

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """A part of the tiles, output channels and channels of one group."""
        w, word, kind = self.w, self.word, self.kind
        part, group, row_part, column_part = filter_piece(w, word, p)
        row, column = row_part * ROWS, column_part * COLUMNS
        rows, columns = w.least(word.m - row, ROWS), w.least(word.k - column, COLUMNS)
        source = group * word.group_source + column * word.channel_source
        gradient = group * word.group_gradient + row * word.channel_gradient
        member = (part * word.groups + group) * POINTS * word.matrix
        target = w.at(self.target, kind, member + row * word.padded_columns + column)
        first = part * word.part
        stop = w.least(first + word.part, word.tiles)

        def block(number: V) -> None:
            begin = first + number * word.block
            depth = w.least(stop - begin, word.block)
            self.walk.fill((self.places, self.outs), begin, depth, stop)
            self.transform_gradient(w.at(self.gradient, kind, gradient), rows, depth)
            self.transform_input(w.at(self.source, kind, source), columns, depth)
            self.multiply(target, rows, columns, depth, number > 0)

        in_blocks(w, first, stop, word.block, block)

    def transform_gradient(self, gradient: str, rows: V, depth: V) -> None:
        """Output channels side by side: [point][tile][row]; beyond the last, like it."""
        w, word, tile, kind = self.w, self.word, self.tile, self.kind

        def some(m: V) -> None:
            lines = [
                w.at(gradient, kind, w.least(m + i, rows - 1) * word.channel_gradient)
                for i in range(tile.lanes)
            ]

            def one(t: V) -> None:
                place = w.load(self.outs, "i64", t)
                corners = [w.at(line, kind, place) for line in lines]
                results = load_results(w, kind, corners, word.line_gradient)
                to = w.at(self.left, kind, t * self.row_room + m)
                for p, point in enumerate(chain(*by_both(results, gradient_line))):
                    w.store(point, to, w.whole(p * TILES * self.row_room))

            w.loop(0, depth, one)

        w.loop(0, rows, some, step=tile.lanes)

    def transform_input(self, source: str, columns: V, depth: V) -> None:
        """Channels in panels: [point][panel][tile][channel]; beyond the last, like it."""
        w, word, tile, kind = self.w, self.word, self.tile, self.kind
        padded = (columns + (tile.columns - 1)).quotient(tile.columns) * tile.columns

        def some(c: V) -> None:
            planes = [
                w.at(source, kind, w.least(c + i, columns - 1) * word.channel_source)
                for i in range(tile.lanes)
            ]
            panel, inside = w.split(c, w.whole(tile.columns))
            start = panel * (TILES * tile.columns) + inside

            def one(t: V) -> None:
                place = w.load(self.places, "i64", t)
                corners = [w.at(plane, kind, place) for plane in planes]
                square = load_square(w, kind, corners, word.line_source)
                to = w.at(self.right, kind, start + t * tile.columns)
                for p, point in enumerate(chain(*by_both(square, input_line))):
                    w.store(point, to, w.whole(p * TILES * self.column_room))

            w.loop(0, depth, one)

        w.loop(0, padded, some, step=tile.lanes)

    def multiply(self, target: str, rows: V, columns: V, depth: V, later: V) -> None:
        """Products of all points, in their place or added to what is there."""
        w, word, tile, kind = self.w, self.word, self.tile, self.kind

        def point(p: V) -> None:
            mine = w.at(self.left, kind, p * (TILES * self.row_room))
            theirs = w.at(self.right, kind, p * (TILES * self.column_room))
            to = w.at(target, kind, p * word.matrix)

            def panel(c: V) -> None:
                packed = w.at(theirs, kind, c * TILES)

                def some(r: V) -> None:
                    lines = [w.at(mine, kind, r + i) for i in range(tile.rows)]
                    apart, step = w.whole(self.row_room), w.whole(tile.columns)
                    sums = multiply(w, kind, tile, lines, packed, step, depth, apart)
                    places = [
                        (r + i) * word.padded_columns + c + v * tile.lanes
                        for i in range(tile.rows)
                        for v in range(tile.vectors)
                    ]
                    store_sums(w, sums, to, kind, places, later)

                w.loop(0, rows, some, step=tile.rows)

            w.loop(0, columns, panel, step=tile.columns)

        w.loop(0, w.whole(POINTS), point)


def winograd_filters_text(name: str, kind: str) -> Text:
    """The first kernel of Note [winograd filters]."""
    return WinogradFiltersKernel(kind).text(name)


# -- filters of points --------------------------------------------------------------------------


@dataclass(slots=True)
class TapWords(LaunchWords):
    """Parts of products at all points, and what they were made of."""

    source: Any
    gradient: Any
    parts_at: Any
    target: Any
    m: Any
    k: Any
    padded_columns: Any
    matrix: Any
    parts: Any
    groups: Any
    examples: Any
    height: Any
    width: Any
    group_source: Any  # from one group to the next
    group_gradient: Any
    source_steps: Sequence[Any] = field(metadata=several(4))  # example, channel, row, element
    gradient_steps: Sequence[Any] = field(metadata=several(4))
    target_steps: Sequence[Any] = field(metadata=several(4))  # output channel, channel, taps


class TapsKernel:
    """Writes the second kernel of Note [winograd filters]."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.w = w = CodeWriter()
        self.word = word = TapWords.read_by(w)
        self.source, self.gradient, self.parts, self.target = map(
            w.pointer, (word.source, word.gradient, word.parts_at, word.target)
        )
        tile = outer_tile(kind)
        self.lanes = tile.lanes
        # Parts are far apart: as much of each is read as is near.
        self.wide = min(tile.columns, max(tile.lanes, LINE * 8 // width(kind)))
        self.room = COLUMNS + tile.columns  # vectors may reach beyond
        self.points = w.reserve(kind, POINTS * self.room)
        self.result = w.reserve(kind, self.lanes)

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.groups * self.word.m, self.row)
        return self.w.finish(name)

    def row(self, number: V) -> None:
        """The filters of one output channel, some channels at a time."""
        w, word, kind, lanes = self.w, self.word, self.kind, self.lanes
        group, m = w.split(number, word.m)
        matrix = word.matrix
        begin = group * matrix * POINTS + m * word.padded_columns

        def some(c: V) -> None:
            count = w.least(word.k - c, COLUMNS)

            def point(p: V) -> None:
                to = w.at(self.points, kind, p * self.room)

                def part(n: V) -> None:
                    of = begin + (n * word.groups * POINTS + p) * matrix + c
                    here = w.at(self.parts, kind, of)
                    later = w.at(here, kind, word.groups * POINTS * matrix)

                    def add(i: V) -> None:
                        w.prefetch(w.at(later, kind, i), 0)
                        x = w.load(here, kind, i, self.wide)
                        sums = w.load(to, kind, i, self.wide)
                        w.store(select(w.code.splat(n > 0, self.wide), sums + x, x), to, i)

                    w.loop(0, count, add, step=self.wide)

                w.loop(0, word.parts, part)

            w.loop(0, w.whole(POINTS), point)
            w.loop(0, count, lambda i: self.put(number, group, m, c + i, i), step=lanes)

        w.loop(0, word.k, some, step=COLUMNS)

    def put(self, number: V, group: V, m: V, c: V, i: V) -> None:
        """The filters of some channels, whose points are there from the i-th on."""
        w, word, kind, lanes = self.w, self.word, self.kind, self.lanes
        points = [w.load(self.points, kind, i + p * self.room, lanes) for p in range(POINTS)]
        square = [points[n : n + SIDE] for n in range(0, POINTS, SIDE)]
        taps = [*chain(*by_both(square, taps_line))]
        strange = w.code.const(0, kind, lanes)
        for tap in taps:
            strange = mad(tap, 0, strange)
        count = w.least(word.k - c, lanes)
        row, channel, *_ = word.target_steps
        to = w.at(self.target, kind, number * row + c * channel)
        places = [self.place(w.whole(t // TAPS), w.whole(t % TAPS)) for t in range(TAPS * TAPS)]

        def together() -> None:
            for tap, place in zip(taps, places, strict=True):
                w.store(tap, to, place)

        def singly() -> None:
            for tap, place in zip(taps, places, strict=True):
                for lane in range(lanes):
                    w.store(w.lane(tap, lane), to, channel * lane + place)

        def some() -> None:
            for tap, place in zip(taps, places, strict=True):
                w.store(tap, self.result, w.whole(0))
                one = lambda n, place=place: w.store(
                    w.load(self.result, kind, n), to, n * channel + place
                )
                w.loop(0, count, one)

        whole, near = count.eq(lanes), channel.eq(1)
        w.when(whole & near, together)
        w.when(whole & ~near, singly)
        w.when(~whole, some)
        w.when(any_of(strange.ne(0)), lambda: self.put_exactly(to, group, m, c, count))

    def place(self, tap_y: V, tap_x: V) -> V:
        """Where a tap lies in a filter."""
        return tap_y * self.word.target_steps[2] + tap_x * self.word.target_steps[3]

    def put_exactly(self, to: str, group: V, m: V, c: V, count: V) -> None:
        """Filters as sums of their own terms, so that infinities and NaN reach no others."""
        w, word, kind = self.w, self.word, self.kind
        of_x, of_g = word.source_steps, word.gradient_steps
        gradient = w.at(self.gradient, kind, group * word.group_gradient + m * of_g[1])

        def channel(i: V) -> None:
            source = w.at(self.source, kind, group * word.group_source + (c + i) * of_x[1])

            def down(tap_y: V) -> None:
                def across(tap_x: V) -> None:
                    corner = tap_y * of_x[2] + tap_x * of_x[3]

                    def example(n: V, total: V) -> list[V]:
                        def line(y: V, total: V) -> list[V]:
                            x_row = corner + n * of_x[0] + y * of_x[2]
                            g_row = n * of_g[0] + y * of_g[2]

                            def element(x: V, total: V) -> list[V]:
                                there = w.load(source, kind, x_row + x * of_x[3])
                                here = w.load(gradient, kind, g_row + x * of_g[3])
                                return [mad(there, here, total)]

                            return w.loop(0, word.width, element, [total])

                        return w.loop(0, word.height, line, [total])

                    total = w.loop(0, word.examples, example, [w.code.const(0, kind)])[0]
                    there = i * word.target_steps[1] + self.place(tap_y, tap_x)
                    w.store(total, to, there)

                w.loop(0, w.whole(TAPS), across)

            w.loop(0, w.whole(TAPS), down)

        w.loop(0, count, channel)


def taps_text(name: str, kind: str) -> Text:
    """The second kernel of Note [winograd filters]."""
    return TapsKernel(kind).text(name)
