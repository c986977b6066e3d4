"""The kernels of Winograd's convolutions, forward and by the input (Note [winograd]).

Note [winograd tiles]
    A piece of work is some tiles and some output channels of one group. It transforms the tiles'
    squares of the input, channel by channel, into sixteen matrices of panels; multiplies each by
    its matrix of weights with the microkernel of Note [tiles], as many output channels at a time as
    there is room for; and turns sixteen products of a tile into its two by two results. Where one
    of these is no finite number, results of these channels and tiles are made again, term by term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from adjoint.engine.backends.llvm.ir.masked import scatter
from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.kernel import store_sums, turned
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.product.tiles import (
    has_wide_registers,
    multiply,
    outer_tile,
)
from adjoint.engine.backends.registers.vector import V, any_of, mad, select, width

SIDE = 4  # of a tile's square of the input
POINTS = SIDE * SIDE  # that a square is transformed to
OUT = 2  # the side of a tile's results
TAPS = 3  # the side of a filter
PANELS = 3  # of tiles in a piece, at most
ROOM = 256  # channels times panels that are transformed together, at most
CHAIN = 64  # channels summed one after another, at most: then sums of these are added up
RESULTS = 96  # output channels times panels whose products are kept, at most
SKEW = 16  # elements between matrices: their like shall lie in different sets of a cache
LOW = (1 << 32) - 1  # coordinates of a tile are one number, its lower half that along the row


# -- transforms ---------------------------------------------------------------------------------

Square = list[list[V]]


def by_both(square: Square, line: Callable[[Sequence[V]], list[V]]) -> Square:
    """What `line` makes of columns, then of rows."""
    columns = [line([row[j] for row in square]) for j in range(len(square[0]))]
    return [line([column[i] for column in columns]) for i in range(len(columns[0]))]


def input_line(d: Sequence[V]) -> list[V]:
    """Four points of four elements of the input."""
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def filter_line(g: Sequence[V]) -> list[V]:
    """Four points of three taps."""
    outer, inner = (g[0] + g[2]) * 0.5, g[1] * 0.5
    return [g[0], outer + inner, outer - inner, g[2]]


def output_line(m: Sequence[V]) -> list[V]:
    """Two results of four products."""
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


def load_square(w: CodeWriter, kind: str, corners: Sequence[str], line: V) -> Square:
    """The squares that begin at these places, one in each lane."""
    square = []
    for r in range(SIDE):
        rows = [w.load(p, kind, line * r, SIDE) for p in corners]
        if len(rows) == SIDE:
            square.append(w.transposed(rows))
            continue
        some = len(rows) // SIDE
        quarters = [joined(w, rows[n : n + some]) for n in range(0, len(rows), some)]
        square.append(unfolded(w, quarters))
    return square


def unfolded(w: CodeWriter, quarters: Sequence[V]) -> list[V]:
    """First, second, third and fourth elements of all fours in four vectors, in their order."""
    lanes = quarters[0].lanes
    firsts, seconds = ([n for n in range(2 * lanes) if n % SIDE // 2 == half] for half in range(2))
    pairs = list(zip(quarters[::2], quarters[1::2], strict=True))
    columns = []
    for order in (firsts, seconds):
        first, last = (w.pick(a, b, order) for a, b in pairs)
        columns += [w.pick(first, last, range(odd, 2 * lanes, 2)) for odd in range(2)]
    return columns


def joined(w: CodeWriter, vectors: Sequence[V]) -> V:
    """Vectors one after another, as one."""
    many = list(vectors)
    while len(many) > 1:
        many = [
            w.pick(a, b, range(2 * a.lanes)) for a, b in zip(many[::2], many[1::2], strict=True)
        ]
    return many[0]


# -- weights ------------------------------------------------------------------------------------


@dataclass(slots=True)
class FilterPointWords(LaunchWords):
    """Filters as sixteen matrices; offsets of their nine taps follow."""

    source: Any
    target: Any
    rows: Any
    padded_rows: Any  # with those beyond the last, which are like it
    matrix: Any  # from a point's matrix to the next
    channels: Any
    groups: Any
    row_step: Any
    channel_step: Any
    group_step: Any


def filter_points_text(name: str, kind: str) -> Text:
    """Matrices [group][point][row][channel]; there are SIDE channels at least."""
    w = CodeWriter()
    word = FilterPointWords.read_by(w)
    source, target = w.pointer(word.source), w.pointer(word.target)
    taps = [w.word(FilterPointWords.word_count() + t) for t in range(TAPS * TAPS)]
    blocks, row_blocks = (
        (n + (SIDE - 1)).quotient(w.whole(SIDE)) for n in (word.channels, word.padded_rows)
    )

    def first_of(number: V) -> V:
        """The first channel of a block; the last block may begin within the one before it."""
        return w.least(number * SIDE, word.channels - SIDE)

    def put(group: V, m: V, c: V, g: list[V]) -> None:
        """The points of some channels' filters, of which the taps are given."""
        to = w.at(target, kind, group * word.matrix * POINTS + m * word.channels)
        points = by_both([g[i : i + TAPS] for i in range(0, len(g), TAPS)], filter_line)
        for p, point in enumerate(chain(*points)):
            w.store(point, to, word.matrix * p + c)

    def row(number: V) -> None:
        group, m = w.split(number, word.padded_rows)
        base = group * word.group_step + w.least(m, word.rows - 1) * word.row_step

        def some(number: V) -> None:
            c = first_of(number)
            here = w.at(source, kind, base + c * word.channel_step)
            steps = [word.channel_step * i for i in range(SIDE)]
            put(group, m, c, [w.gather(here, kind, [tap + step for step in steps]) for tap in taps])

        w.loop(0, blocks, some)

    def rows(number: V) -> None:
        """Rows that are neighbours: weights of all of them are read together."""
        group, block = w.split(number, row_blocks)
        m = block * SIDE

        def together() -> None:
            base = group * word.group_step + m

            def some(number: V) -> None:
                c = first_of(number)
                steps = [(c + i) * word.channel_step for i in range(SIDE)]
                squares = [
                    w.transposed([w.load(source, kind, base + step + tap, SIDE) for step in steps])
                    for tap in taps
                ]
                for i in range(SIDE):
                    put(group, m + i, c, [square[i] for square in squares])

            w.loop(0, blocks, some)

        def singly() -> None:
            stop = w.least(m + SIDE, word.padded_rows)
            w.loop(m, stop, lambda n: row(group * word.padded_rows + n))

        w.either(m + SIDE <= word.rows, together, singly)

    w.either(
        word.row_step.eq(1),
        lambda: w.pieces(row_blocks * word.groups, rows),
        lambda: w.pieces(word.padded_rows * word.groups, row),
    )
    return w.finish(name)


# -- the convolution ----------------------------------------------------------------------------


@dataclass(slots=True)
class WinogradWords(LaunchWords):
    """Transformed weights times tiles; offsets of the nine taps in the given weights follow."""

    source: Any
    points: Any  # matrices of transformed weights
    weights: Any  # as they were given
    target: Any
    m: Any
    matrix: Any  # from a point's weights to the next
    k: Any
    tiles: Any
    pieces: Any
    panels: Any  # of tiles, of a piece
    rows: Any  # of a piece
    row_parts: Any
    column_parts: Any
    row_block: Any  # rows whose products are kept together
    block: Any  # channels that are transformed together
    group_source: Any  # from one group to the next
    group_weights: Any
    group_target: Any
    row_weights: Any
    channel_weights: Any
    channel_source: Any
    channel_target: Any
    line_source: Any  # from a row of an image to the next
    line_target: Any
    step_target: Any  # from an element of such a row to the next
    height: Any  # of results
    width: Any
    sizes: Sequence[Any] = field(metadata=several(RANK))  # of the tiles' coordinates
    source_steps: Sequence[Any] = field(metadata=several(RANK + 1))  # example, coordinates
    target_steps: Sequence[Any] = field(metadata=several(RANK + 1))


class WinogradKernel:
    """Writes the kernel of Note [winograd tiles]."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.tile = tile = outer_tile(kind)
        self.w = w = CodeWriter()
        self.word = word = WinogradWords.read_by(w)
        self.source, self.points, self.weights, self.target = map(
            w.pointer, (word.source, word.points, word.weights, word.target)
        )
        self.taps = w.at("%args", "i64", w.whole(WinogradWords.word_count()))
        most = PANELS * tile.columns
        self.transformed = w.reserve(kind, POINTS * (ROOM * tile.columns + SKEW))
        self.products = w.reserve(kind, POINTS * (RESULTS * tile.columns + SKEW))
        self.result = w.reserve(kind, OUT * OUT * tile.lanes)
        self.places, self.outs, self.at = (w.reserve("i64", most) for _ in range(3))
        self.near, self.whole = (w.reserve("i64", most // tile.lanes) for _ in range(2))
        coordinates = [w.whole(0), w.whole(0), w.whole(LOW + 1), w.whole(1)]
        steps = (word.source_steps, word.target_steps, coordinates)
        self.walk = PositionWalk(w, word.sizes, steps)
        self.columns = word.panels * tile.columns  # of a piece
        self.point = word.panels * word.block * tile.columns + SKEW  # from a matrix to the next
        self.product = word.row_block * self.columns + SKEW

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some tiles, some output channels, one group."""
        w, word, tile = self.w, self.word, self.tile
        group_part, part = w.split(p, word.column_parts)
        group, row_part = w.split(group_part, word.row_parts)
        first = part * self.columns
        count = w.least(word.tiles - first, self.columns)
        panels = (count + (tile.columns - 1)).quotient(tile.columns)
        tables = (self.places, self.outs, self.at)
        self.walk.fill(tables, first, panels * tile.columns, word.tiles)
        w.loop(0, panels * tile.vectors, lambda v: self.flag(v, count))
        source = w.at(self.source, self.kind, group * word.group_source)
        target = w.at(self.target, self.kind, group * word.group_target)
        weights = w.at(self.weights, self.kind, group * word.group_weights)
        points = w.at(self.points, self.kind, group * word.matrix * POINTS)
        row = row_part * word.rows
        stop = w.least(row + word.rows, word.m)
        blocks = (word.k + (word.block - 1)).quotient(word.block)

        def some_rows(m: V) -> None:
            rows = w.least(stop - m, word.row_block)

            def block(number: V) -> None:
                k = number * word.block
                depth = w.least(word.k - k, word.block)
                anew = m.eq(row) | (blocks > 1)
                w.when(anew, lambda: self.transform(source, panels, k, depth))
                self.multiply(points, m, rows, panels, k, depth)

            w.loop(0, blocks, block)
            strange = self.put(target, m, rows, panels * tile.vectors, count)
            w.when(
                any_of(strange.ne(0)),
                lambda: self.put_exactly(source, weights, target, m, rows, count),
            )

        w.loop_by(row, stop, word.row_block, some_rows)

    def flag(self, v: V, count: V) -> None:
        """Whether a vector of tiles is whole, and whether its results are neighbours."""
        w, word, lanes = self.w, self.word, self.tile.lanes
        j = v * lanes
        at = w.load(self.at, "i64", j, lanes)
        y, x = at >> 32, at & LOW
        beyond = (y * OUT + 1 >= w.code.splat(word.height, lanes)) | (
            x * OUT + 1 >= w.code.splat(word.width, lanes)
        )
        whole = ~any_of(beyond) & (j + lanes <= count)
        outs = w.load(self.outs, "i64", j, lanes)
        line = w.code.splat(w.load(self.outs, "i64", j), lanes)
        apart = outs.ne(line + w.code.iota("i64", lanes) * OUT)
        w.store(whole.convert("i64"), self.whole, v)
        near = whole & word.step_target.eq(1) & ~any_of(apart)
        w.store(near.convert("i64"), self.near, v)

    def transform(self, source: str, panels: V, k: V, depth: V) -> None:
        """Squares of `depth` channels: for each point panels [panel][channel][tile]."""
        w, word, tile, kind = self.w, self.word, self.tile, self.kind

        def channel(c: V) -> None:
            here = w.at(source, kind, (k + c) * word.channel_source)

            def panel(number: V) -> None:
                to = w.at(self.transformed, kind, (number * word.block + c) * tile.columns)

                def vector(v: V) -> None:
                    j = number * tile.columns + v * tile.lanes
                    places = [w.load(self.places, "i64", j + i) for i in range(tile.lanes)]
                    corners = [w.at(here, kind, place) for place in places]
                    square = load_square(w, kind, corners, word.line_source)
                    for p, point in enumerate(chain(*by_both(square, input_line))):
                        w.store(point, to, self.point * p + v * tile.lanes)

                w.loop(0, w.whole(tile.vectors), vector)

            w.loop(0, panels, panel)

        w.loop(0, depth, channel)

    def multiply(self, points: str, m: V, rows: V, panels: V, k: V, depth: V) -> None:
        """Products of all points: matrices [point][row][tile]."""
        w, word, tile, kind = self.w, self.word, self.tile, self.kind

        def point(p: V) -> None:
            mine = w.at(points, kind, p * word.matrix + m * word.k + k)
            theirs = w.at(self.transformed, kind, p * self.point)
            to = w.at(self.products, kind, p * self.product)

            def panel(number: V) -> None:
                packed = w.at(theirs, kind, number * word.block * tile.columns)

                def some(r: V) -> None:
                    start = r * self.columns + number * tile.columns
                    places = [
                        start + self.columns * i + v * tile.lanes
                        for i in range(tile.rows)
                        for v in range(tile.vectors)
                    ]

                    def chain_from(c: V) -> None:
                        lines = [w.at(mine, kind, (r + i) * word.k + c) for i in range(tile.rows)]
                        columns = w.at(packed, kind, c * tile.columns)
                        terms, step = w.least(depth - c, CHAIN), w.whole(tile.columns)
                        sums = multiply(w, kind, tile, lines, columns, step, terms)
                        store_sums(w, sums, to, kind, places, (k + c) > 0)

                    w.loop(0, depth, chain_from, step=CHAIN)

                w.loop(0, rows, some, step=tile.rows)

            w.loop(0, panels, panel)

        w.loop(0, w.whole(POINTS), point)

    def put(self, target: str, m: V, rows: V, vectors: V, count: V) -> V:
        """Results of all products; what is not 0 tells of some that are no finite numbers."""
        w, word, tile, kind = self.w, self.word, self.tile, self.kind
        nothing = w.code.const(0, kind, tile.lanes)

        def of(r: V, v: V, strange: V) -> tuple[Square, V]:
            """The results of a row and a vector of tiles."""
            base = w.at(self.products, kind, r * self.columns)
            products = [
                [
                    w.load(base, kind, self.product * (i * SIDE + s) + v * tile.lanes, tile.lanes)
                    for s in range(SIDE)
                ]
                for i in range(SIDE)
            ]
            results = by_both(products, output_line)
            for y in chain(*results):
                strange = mad(y, 0, strange)
            return results, strange

        def row(r: V, strange: V) -> list[V]:
            to = w.at(target, kind, (m + r) * word.channel_target)

            def vector(v: V, strange: V) -> list[V]:
                j = v * tile.lanes
                results, strange = of(r, v, strange)
                near, whole = (w.load(flags, "i64", v).ne(0) for flags in (self.near, self.whole))
                whole = whole & word.step_target.eq(1)
                w.when(near, lambda: self.put_near(results, to, j))
                w.when(whole & ~near, lambda: self.put_whole(results, to, j))
                w.when(~whole, lambda: self.put_some(results, to, j, count))
                return [strange]

            return w.loop(0, vectors, vector, [strange])

        if has_wide_registers():
            return w.loop(0, rows, row, [nothing])[0]

        def some_rows(r: V, strange: V) -> list[V]:
            """Rows whose channels lie innermost."""
            places = [w.at(target, kind, m + (r + i)) for i in range(SIDE)]

            def vector(v: V, strange: V) -> list[V]:
                j = v * tile.lanes
                results: list[Square] = []
                for i in range(SIDE):
                    of_row, strange = of(r + i, v, strange)
                    results.append(of_row)

                def singly() -> None:
                    for of_row, to in zip(results, places, strict=True):
                        self.put_edge(of_row, to, j, count)

                whole = w.load(self.whole, "i64", v).ne(0)
                w.either(whole, lambda: self.put_turned(results, places[0], j), singly)
                return [strange]

            return w.loop(0, vectors, vector, [strange])

        apart = word.channel_target.ne(1)
        together = select(apart, w.whole(0), rows - rows.modulo(SIDE))
        strange = w.loop(0, together, some_rows, [nothing], step=SIDE)
        return w.loop(together, rows, row, strange)[0]

    def put_turned(self, results: list[Square], to: str, j: V) -> None:
        """Tiles all of whose results are wanted, the channels of each place together."""
        w, word, lanes = self.w, self.word, self.tile.lanes
        starts = [w.load(self.outs, "i64", j + lane) for lane in range(lanes)]
        for y in range(OUT):
            for x in range(OUT):
                there = word.line_target * y + word.step_target * x
                channels = turned(w, [of_row[y][x] for of_row in results])
                for start, some in zip(starts, channels, strict=True):
                    w.store(some, to, start + there)

    def rows_of(self, results: Square) -> list[V]:
        """Results of neighbouring tiles, as they lie in both rows."""
        lanes = self.tile.lanes
        order = [lane + s * lanes for lane in range(lanes) for s in range(OUT)]
        return [self.w.pick(row[0], row[1], order) for row in results]

    def put_near(self, results: Square, to: str, j: V) -> None:
        """Tiles that are neighbours."""
        w = self.w
        start = w.load(self.outs, "i64", j)
        for y, line in enumerate(self.rows_of(results)):
            w.store(line, to, start + self.word.line_target * y)

    def put_whole(self, results: Square, to: str, j: V) -> None:
        """Tiles from anywhere, all of whose results are wanted."""
        w = self.w
        starts = [w.load(self.outs, "i64", j + lane) for lane in range(self.tile.lanes)]
        for y, line in enumerate(self.rows_of(results)):
            for lane, start in enumerate(starts):
                two = w.pick(line, line, range(OUT * lane, OUT * lane + OUT))
                w.store(two, to, start + self.word.line_target * y)

    def put_some(self, results: Square, to: str, j: V, count: V) -> None:
        """Tiles at an edge, or results that are apart, by what the registers allow."""
        put = self.put_scattered if has_wide_registers() else self.put_edge
        put(results, to, j, count)

    def put_scattered(self, results: Square, to: str, j: V, count: V) -> None:
        """The results that are wanted, wherever they lie."""
        w, word, lanes = self.w, self.word, self.tile.lanes
        at, outs = (w.load(table, "i64", j, lanes) for table in (self.at, self.outs))
        down, across = (at >> 32) * OUT, (at & LOW) * OUT
        height, width_ = (w.code.splat(n, lanes) for n in (word.height, word.width))
        for y, line in enumerate(results):
            for x, value in enumerate(line):
                some = w.lanes_below(count - j, lanes) & (down + y < height) & (across + x < width_)
                there = w.code.splat(word.line_target * y + word.step_target * x, lanes)
                scatter(some, value, to, (outs + there) * (width(self.kind) // 8))

    def put_edge(self, results: Square, to: str, j: V, count: V) -> None:
        """Tiles at an edge, or results that are apart."""
        w, tile, kind = self.w, self.tile, self.kind
        for n, x in enumerate(chain(*results)):
            w.store(x, self.result, w.whole(n * tile.lanes))

        def lane(i: V) -> None:
            def put(place: V, y: V, x: V) -> None:
                value = w.load(self.result, kind, (y * OUT + x) * tile.lanes + i)
                w.store(value, to, place)

            self.wanted(j + i, put)

        w.loop(0, w.least(count - j, tile.lanes), lane)

    def wanted(self, tile: V, put: Callable[[V, V, V], None]) -> None:
        """`put(place, y, x)` for the results of a tile that there are."""
        w, word = self.w, self.word
        start, at = w.load(self.outs, "i64", tile), w.load(self.at, "i64", tile)
        rows = w.least(word.height - (at >> 32) * OUT, OUT)
        columns = w.least(word.width - (at & LOW) * OUT, OUT)

        def row(y: V) -> None:
            line = start + y * word.line_target
            w.loop(0, columns, lambda x: put(line + x * word.step_target, y, x))

        w.loop(0, rows, row)

    def put_exactly(self, source: str, weights: str, target: str, m: V, rows: V, count: V) -> None:
        """Results as sums of their own terms, so that infinities and NaN reach no others."""
        w, word, kind = self.w, self.word, self.kind

        def row(r: V) -> None:
            to = w.at(target, kind, (m + r) * word.channel_target)
            filters = w.at(weights, kind, (m + r) * word.row_weights)

            def tile(j: V) -> None:
                place = w.load(self.places, "i64", j)

                def put(at: V, y: V, x: V) -> None:
                    corner = w.at(source, kind, place + y * word.line_source + x)

                    def channel(c: V, total: V) -> list[V]:
                        def tap(t: V, total: V) -> list[V]:
                            down, across = w.split(t, w.whole(TAPS))
                            near = c * word.channel_source + down * word.line_source + across
                            here = c * word.channel_weights + w.load(self.taps, "i64", t)
                            pair = w.load(corner, kind, near), w.load(filters, kind, here)
                            return [mad(*pair, total)]

                        return w.loop(0, w.whole(TAPS * TAPS), tap, [total])

                    zero = w.code.const(0, kind)
                    w.store(w.loop(0, word.k, channel, [zero])[0], to, at)

                self.wanted(j, put)

            w.loop(0, count, tile)

        w.loop(0, rows, row)


def winograd_text(name: str, kind: str) -> Text:
    """The kernel of Note [winograd tiles]."""
    return WinogradKernel(kind).text(name)
