"""The kernels of convolutions: implicit matrix products over packed panels.

Note [implicit product]
    out[m, p] = sum over k of w[m, k] x[place[p] + tap[k]]

    for output channels m, positions p (Note [walks]) and k = (channel, tap). Weights are rows of
    one output channel each, copied if they do not lie so; a piece of work packs the columns of some
    positions into panels of `columns` of them, as much of k at a time as stays in the cache, and
    multiplies all panels by the microkernel of Note [tiles]. Taps are offsets (in bytes) in a
    table, so strides, dilations and the phases of transposed convolutions are all the same to it.
    Sizes are words: the code is one for all convolutions of a dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.product.tiles import multiply, outer_tile
from adjoint.engine.backends.registers.vector import V, select, width

PANELS = 3  # of columns in a piece
AHEAD = 128  # bytes of a row of the input asked for before they are needed
# Of k, packed at a time: errors of sums grow with the length of a chain (Note [winograd]).
DEPTH = 128


def piece_columns(kind: str) -> int:
    """Positions in a piece of work."""
    return outer_tile(kind).columns * PANELS


def store_sums(
    w: CodeWriter, sums: Sequence[V], base: str, kind: str, places: Sequence[V], later: V
) -> None:
    """Vectors of sums to their places; `later`, added to what is there."""

    def added() -> list[V]:
        return [
            x + w.load(base, kind, place, x.lanes) for x, place in zip(sums, places, strict=True)
        ]

    for x, place in zip(w.choose(later, added, lambda: sums), places, strict=True):
        w.store(x, base, place)


def turned(w: CodeWriter, rows: Sequence[V]) -> list[V]:
    """The columns of some vectors, which may be fewer than they have lanes."""
    lanes = rows[0].lanes
    if len(rows) == lanes:
        return w.transposed(rows)
    return [w.join([w.lane(row, lane) for row in rows]) for lane in range(lanes)]


# -- weights into rows ------------------------------------------------------------------------


@dataclass(slots=True)
class WeightWords(LaunchWords):
    """Weights as rows; for each tap its offset in the weights and in the input follow."""

    source: Any
    target: Any
    table: Any  # of taps
    rows: Any
    channels: Any
    taps: Any
    count: Any  # rows that are copied, of all groups
    row_step: Any
    channel_step: Any
    group_step: Any
    channel: Any  # from one of the input to the next


def weights_text(name: str, kind: str) -> Text:
    """Rows [group][m][k] of weights; the table of taps."""
    w = CodeWriter()
    word = WeightWords.read_by(w)
    source, target, table = map(w.pointer, (word.source, word.target, word.table))
    taps = w.at("%args", "i64", w.whole(WeightWords.word_count()))
    depth = word.channels * word.taps

    def row(number: V) -> None:
        group, m = w.split(number, word.rows)
        base = group * word.group_step + m * word.row_step

        def channel(c: V) -> None:
            here = base + c * word.channel_step
            to = w.at(target, kind, number * depth + c * word.taps)

            def tap(t: V) -> None:
                w.store(w.load(source, kind, here + w.load(taps, "i64", t * 2)), to, t)

            w.loop(0, word.taps, tap)

        w.loop(0, word.channels, channel)

    w.pieces(word.count, row)

    def offsets() -> None:
        def channel(c: V) -> None:
            def tap(t: V) -> None:
                offset = c * word.channel + w.load(taps, "i64", t * 2 + 1)
                w.store(offset * (width(kind) // 8), table, c * word.taps + t)

            w.loop(0, word.taps, tap)

        w.loop(0, word.channels, channel)

    w.when(w.code.value("%worker", "i64", 1).eq(0), offsets)
    return w.finish(name)


# -- the product --------------------------------------------------------------------------------


@dataclass(slots=True)
class ConvolutionWords(LaunchWords):
    """Rows of weights times windows of the input."""

    source: Any
    weights: Any
    table: Any  # of taps
    target: Any
    m: Any
    k: Any
    positions: Any
    pieces: Any
    rows: Any  # of a piece
    row_parts: Any
    column_parts: Any
    group_source: Any  # from one group to the next
    group_target: Any
    channel_target: Any
    block: Any  # of the depth
    sizes: Sequence[Any] = field(metadata=several(RANK))  # of the positions' coordinates
    # In the input: example, coordinates.
    source_steps: Sequence[Any] = field(metadata=several(RANK + 1))
    target_steps: Sequence[Any] = field(metadata=several(RANK + 1))  # in the result


class ImplicitProductKernel:
    """Writes the kernel of Note [implicit product]."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.tile = outer_tile(kind)
        self.w = w = CodeWriter()
        self.word = word = ConvolutionWords.read_by(w)
        self.source, self.weights, self.taps, self.target = map(
            w.pointer, (word.source, word.weights, word.table, word.target)
        )
        width_ = piece_columns(kind)
        self.packed = w.reserve(kind, DEPTH * width_)
        self.result = w.reserve(kind, self.tile.rows * self.tile.columns)
        self.places, self.outs = w.reserve("i64", width_), w.reserve("i64", width_)
        vectors = width_ // self.tile.lanes
        self.near, self.near_outs = w.reserve("i64", vectors), w.reserve("i64", vectors)
        self.walk = PositionWalk(w, word.sizes, (word.source_steps, word.target_steps))

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some positions, some output channels, one group."""
        w, word, tile = self.w, self.word, self.tile
        size = piece_columns(self.kind)
        group_part, part = w.split(p, word.column_parts)
        group, row_part = w.split(group_part, word.row_parts)
        first = part * size
        count = w.least(word.positions - first, size)
        panels = (count + (tile.columns - 1)).quotient(w.whole(tile.columns))
        self.walk.fill((self.places, self.outs), first, panels * tile.columns, word.positions)
        vectors = panels * tile.vectors
        self.walk.flag(self.places, self.near, vectors, tile.lanes, vectors * tile.lanes)
        self.walk.flag(self.outs, self.near_outs, vectors, tile.lanes, count)
        source = w.at(self.source, self.kind, group * word.group_source)
        target = w.at(self.target, self.kind, group * word.group_target)
        row = row_part * word.rows
        stop = w.least(row + word.rows, word.m)
        weights = w.at(self.weights, self.kind, group * word.m * word.k)

        def block(number: V) -> None:
            k = number * word.block
            depth = w.least(word.k - k, word.block)
            self.pack(source, panels, k, depth)

            def rows(m: V) -> None:
                mine = [
                    w.at(weights, self.kind, w.least(m + r, stop - 1) * word.k + k)
                    for r in range(tile.rows)
                ]

                def columns(panel: V) -> None:
                    packed = w.at(self.packed, self.kind, panel * (DEPTH * tile.columns))
                    apart = w.whole(tile.columns)
                    sums = multiply(w, self.kind, tile, mine, packed, apart, depth)
                    self.put(sums, target, m, w.least(stop - m, tile.rows), panel, count, k)

                w.loop(0, panels, columns)

            w.loop(row, stop, rows, step=tile.rows)

        blocks = (word.k + word.block - 1).quotient(word.block)
        w.loop(0, w.most(blocks, 1), block)

    def pack(self, source: str, panels: V, k: V, depth: V) -> None:
        """The columns of a piece, for `depth` values of k: panels [k][columns]."""
        w, tile = self.w, self.tile

        def panel(p: V) -> None:
            first = p * tile.vectors
            to = w.at(self.packed, self.kind, p * (DEPTH * tile.columns))
            near = w.load(self.near, "i64", first)
            for v in range(1, tile.vectors):
                near = near & w.load(self.near, "i64", first + v)

            def vector(v: V) -> None:
                here = w.at(to, self.kind, v * tile.lanes)
                w.either(
                    w.load(self.near, "i64", first + v).ne(0),
                    lambda: self.pack_near(source, [first + v], here, k, depth),
                    lambda: self.pack_far(source, first + v, here, k, depth),
                )

            some = [first + v for v in range(tile.vectors)]
            w.either(
                near.ne(0),
                lambda: self.pack_near(source, some, to, k, depth),
                lambda: w.loop(0, w.whole(tile.vectors), vector),
            )

        w.loop(0, panels, panel)

    def pack_near(self, source: str, vectors: list[V], to: str, k: V, depth: V) -> None:
        """Vectors of a panel that are each of neighbours."""
        w, tile, kind = self.w, self.tile, self.kind
        places = [w.at(source, kind, w.load(self.places, "i64", v * tile.lanes)) for v in vectors]

        def turn(i: V) -> None:
            tap = w.load(self.taps, "i64", k + i)
            # There are too many rows of channels for the processor to see what comes next.
            w.prefetch(w.behind(places[0], tap), AHEAD)
            for n, place in enumerate(places):
                x = w.load(w.behind(place, tap), kind, w.whole(0), tile.lanes)
                w.store(x, to, i * tile.columns + n * tile.lanes)

        w.loop(0, depth, turn)

    def pack_far(self, source: str, vector: V, to: str, k: V, depth: V) -> None:
        """One vector of a panel, of elements from anywhere."""
        w, kind, lanes = self.w, self.kind, self.tile.lanes
        places = [
            w.at(source, kind, w.load(self.places, "i64", vector * lanes + lane))
            for lane in range(lanes)
        ]

        def turn(i: V) -> None:
            tap = w.load(self.taps, "i64", k + i)
            x = w.join([w.load(w.behind(p, tap), kind, w.whole(0)) for p in places])
            w.store(x, to, i * self.tile.columns)

        w.loop(0, depth, turn)

    def put(self, sums: list[V], target: str, m: V, rows: V, panel: V, count: V, k: V) -> None:
        """The tile into the result: in its place for the first k, added to it for later ones."""
        w, tile = self.w, self.tile
        whole = rows.eq(tile.rows)
        for v in range(tile.vectors):
            flag = w.load(self.near_outs, "i64", panel * tile.vectors + v)
            whole = whole & flag.ne(0)
        first = panel * tile.columns
        turned = rows.eq(tile.rows) & self.word.channel_target.eq(1) & ~whole
        turned = turned & (first + tile.columns <= count)
        w.when(whole & k.eq(0), lambda: self.put_whole(sums, target, m, first, added=False))
        w.when(whole & k.ne(0), lambda: self.put_whole(sums, target, m, first, added=True))
        w.when(turned, lambda: self.put_turned(sums, target, m, first, k > 0))
        w.when(~whole & ~turned, lambda: self.put_edge(sums, target, m, rows, panel, count, k))

    def put_whole(self, sums: list[V], target: str, m: V, j: V, added: bool) -> None:
        """A whole tile, its vectors each in one piece."""
        w, tile = self.w, self.tile
        starts = [w.load(self.outs, "i64", j + v * tile.lanes) for v in range(tile.vectors)]
        row = m * self.word.channel_target
        for r in range(tile.rows):
            for v, start in enumerate(starts):
                x, at = sums[r * tile.vectors + v], row + start
                old = w.load(target, self.kind, at, tile.lanes) if added else None
                w.store(x if old is None else x + old, target, at)
            row = row + self.word.channel_target

    def put_turned(self, sums: list[V], target: str, m: V, first: V, later: V) -> None:
        """A whole tile whose output channels lie innermost: those of each position together."""
        w, tile = self.w, self.tile
        columns = [
            column
            for v in range(tile.vectors)
            for column in turned(w, [sums[r * tile.vectors + v] for r in range(tile.rows)])
        ]
        places = [w.load(self.outs, "i64", first + j) + m for j in range(tile.columns)]
        store_sums(w, columns, target, self.kind, places, later)

    def put_edge(self, sums: list[V], target: str, m: V, rows: V, panel: V, count: V, k: V) -> None:
        """A tile at an edge, or whose positions are scattered."""
        w, tile, kind = self.w, self.tile, self.kind
        later = k > 0
        for n, total in enumerate(sums):
            w.store(total, self.result, w.whole(n * tile.lanes))

        def vector(v: V) -> None:
            j = panel * tile.columns + v * tile.lanes

            def scatter(added: bool) -> None:
                """All lanes at once."""
                places = [w.load(self.outs, "i64", j + lane) for lane in range(tile.lanes)]

                def row(r: V) -> None:
                    x = w.load(self.result, kind, r * tile.columns + v * tile.lanes, tile.lanes)
                    channel = (m + r) * self.word.channel_target
                    for lane, place in enumerate(places):
                        at, total = place + channel, w.lane(x, lane)
                        w.store(total + w.load(target, kind, at) if added else total, target, at)

                w.loop(0, rows, row)

            def write(lane: V, lanes: int) -> None:
                at = w.load(self.outs, "i64", j + lane) + m * self.word.channel_target

                def row(r: V) -> None:
                    to = at + r * self.word.channel_target
                    place = r * tile.columns + v * tile.lanes + lane
                    x = w.load(self.result, kind, place, lanes)
                    old = w.load(target, kind, to, lanes)
                    w.store(select(later, x + old, x), target, to)

                w.loop(0, rows, row)

            def singly() -> None:
                several = j + tile.lanes <= count
                w.when(several & ~later, lambda: scatter(added=False))
                w.when(several & later, lambda: scatter(added=True))
                rest = w.least(count - j, tile.lanes)
                w.when(~several, lambda: w.loop(0, rest, lambda lane: write(lane, 1)))

            w.either(
                w.load(self.near_outs, "i64", panel * tile.vectors + v).ne(0),
                lambda: write(w.whole(0), tile.lanes),
                singly,
            )

        w.loop(0, w.whole(tile.vectors), vector)


def product_text(name: str, kind: str) -> Text:
    """The kernel of Note [implicit product]."""
    return ImplicitProductKernel(kind).text(name)
