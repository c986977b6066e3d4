"""The kernels of convolutions whose output channels lie along the lanes, for wide registers.

Note [strips]
    out[m, p] = sum over k of w[m, k] x[place[p] + tap[k]]

    as in Note [implicit product], but a tile has some positions for its rows and some vectors of
    output channels for its columns. Elements of the input are then loaded into all lanes one by one
    wherever they lie, so nothing of it is packed: small images, strides and dilations cost nothing.
    Weights are turned beforehand, into strips: of some vectors of channels those of one k together.
    Where there are many weights and few positions, each is used by one piece or two, which then
    turn some at a time themselves, rather than have all of them go through far memory twice.
    Weights of a transposed convolution lie in blocks of all taps, of which each of its phases (Note
    [phases]) wants some: blocks are read once, for all phases, and turned as squares.

    A piece of work is some positions and some strips of one group. Sums of a piece are kept side by
    side by position; they are turned, a square of lanes at a time, when they are written, unless it
    is channels that lie innermost in the result. With registers of 512 bits only: turning and
    writing squares, with masks at their edges, is what costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adjoint.engine.backends.llvm.ir.masked import gathered, scatter
from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.kernel import store_sums
from adjoint.engine.backends.llvm.templates.convolution.squares import Square, turn_square
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.product.tiles import Tile, outer_tile
from adjoint.engine.backends.registers.vector import V, any_of, mad, select, width

POSITIONS = 96  # of a piece, at most: a multiple of the rows of every tile and of the lanes
STRIP_BYTES = 24 * 1024  # of a strip, that are multiplied together
CHAIN = 192  # terms that are summed one after another, at most (Note [winograd])
DEPTH_PIECE = 128  # of k, of one vector of channels, that a piece puts in a strip
MOST_TAPS = 128  # of weights that are turned for several phases at once
ENTRY = 5  # words of a tap: its number, where its strip begins, steps of channels, strips, groups


def strip_tile(kind: str, vectors: int) -> Tile:
    """The tile of strips of so many vectors."""
    return replace(outer_tile(kind), vectors=vectors)


def block_most(tile: Tile, kind: str) -> int:
    """Terms that are summed one after another, at most."""
    return min(CHAIN, STRIP_BYTES // (tile.columns * width(kind) // 8))


# -- weights into strips ------------------------------------------------------------------------


@dataclass(slots=True)
class StripWords(LaunchWords):
    """Weights as strips; for each tap its offset in the weights and in the input follow."""

    source: Any
    target: Any
    table: Any  # of taps
    rows: Any  # output channels of a group
    channels: Any
    taps: Any
    vectors: Any  # of channels in all strips of a group
    depth_parts: Any
    pieces: Any
    strip: Any  # from a strip to the next
    row_step: Any
    channel_step: Any
    group_step: Any
    channel: Any  # from one of the input to the next
    near: Any  # whether weights of one output channel are neighbours


def turn(
    w: CodeWriter,
    kind: str,
    tile: Tile,
    source: str,
    step: V,
    rows: tuple[V, V],
    k: tuple[V, V],
    to: str,
) -> None:
    """One vector of output channels of a strip: weights that lie in rows, squares at a time.

    `rows` are the first channel and the last that there is, which stands for those beyond it; `k`
    are the first and the end.
    """
    (m, last), (first, stop), lanes = rows, k, tile.lanes

    def square(j: V) -> None:
        begin = w.address(w.at(source, kind, m * step + j))
        end = w.address(w.at(to, kind, (j - first) * tile.columns))
        along, all_of = w.whole(tile.columns), w.whole(lanes)
        given = Square(begin, step, last - m + 1, stop - j, end, along, all_of)
        turn_square(w, kind, lanes, given)

    w.loop(first, stop, square, step=lanes)


def strips_text(name: str, kind: str, vectors: int) -> Text:
    """Strips [group][strip][k][channel] of weights; the table of taps, in bytes."""
    w = CodeWriter()
    word = StripWords.read_by(w)
    source, target, table = map(w.pointer, (word.source, word.target, word.table))
    taps = w.at("%args", "i64", w.whole(StripWords.word_count()))
    tile = strip_tile(kind, vectors)
    lanes, depth = tile.lanes, word.channels * word.taps
    item = width(kind) // 8

    def piece(number: V) -> None:
        rest, part = w.split(number, word.depth_parts)
        group, vector = w.split(rest, word.vectors)
        strip, v = w.split(group * word.vectors + vector, w.whole(vectors))
        m = vector * lanes
        base = w.at(source, kind, group * word.group_step)
        first = part * DEPTH_PIECE
        to = w.at(target, kind, strip * word.strip + first * tile.columns + v * lanes)
        stop = w.least(first + DEPTH_PIECE, depth)

        def one(k: V) -> None:
            channel, tap = w.split(k, word.taps)
            at = channel * word.channel_step + w.load(taps, "i64", tap * 2)
            last = w.code.splat(word.rows - 1, lanes)
            row = w.code.splat(m, lanes) + w.code.iota("i64", lanes)
            row = w.code.select(row < last, row, last)
            offsets = (row * w.code.splat(word.row_step, lanes) + w.code.splat(at, lanes)) * item
            w.store(gathered(offsets, base, kind), to, (k - first) * tile.columns)

        w.either(
            word.near.ne(0),
            lambda: turn(w, kind, tile, base, word.row_step, (m, word.rows - 1), (first, stop), to),
            lambda: w.loop(first, stop, one),
        )

    w.pieces(word.pieces, piece)

    def offsets() -> None:
        def channel(c: V) -> None:
            def tap(t: V) -> None:
                offset = c * word.channel + w.load(taps, "i64", t * 2 + 1)
                w.store(offset * item, table, c * word.taps + t)

            w.loop(0, word.taps, tap)

        w.loop(0, word.channels, channel)

    w.when(w.code.value("%worker", "i64", 1).eq(0), offsets)
    return w.finish(name)


@dataclass(slots=True)
class BlockWords(LaunchWords):
    """Blocks of all taps, one after another, of output channels; entries of taps follow."""

    source: Any
    rows: Any  # output channels of a group
    channels: Any
    taps: Any  # of a block
    entries: Any
    vectors: Any  # of output channels in all strips of a group
    channel_part: Any  # of a piece
    channel_parts: Any
    pieces: Any
    channel_step: Any
    group_step: Any


def turn_blocks_text(name: str, kind: str, vectors: int) -> Text:
    """Strips of several phases, from weights that are read once, along memory."""
    w = CodeWriter()
    word = BlockWords.read_by(w)
    source = w.pointer(word.source)
    entries = w.at("%args", "i64", w.whole(BlockWords.word_count()))
    tile = strip_tile(kind, vectors)
    lanes = tile.lanes
    turned = w.reserve(kind, MOST_TAPS * lanes)

    def piece(number: V) -> None:
        group, part = w.split(number, word.channel_parts)
        first = part * word.channel_part

        def vector(c: V, v: V) -> None:
            m, (strip, inner) = v * lanes, w.split(v, w.whole(vectors))
            # Of vectors beyond the last channel, the last is taken again.
            begin = group * word.group_step + c * word.channel_step
            here = w.at(source, kind, begin + w.least(m, word.rows - 1) * word.taps)

            def square(t: V) -> None:
                given = Square(
                    w.address(w.at(here, kind, t)), word.taps, w.most(word.rows - m, 1),
                    word.taps - t, w.address(w.at(turned, kind, t * lanes)), w.whole(lanes),
                    w.whole(lanes),
                )  # fmt: skip
                turn_square(w, kind, lanes, given)

            def put(entry: V) -> None:
                at = w.at(entries, "i64", entry * ENTRY)
                tap, start, by_channel, by_strip, by_group = (
                    w.load(at, "i64", w.whole(n)) for n in range(ENTRY)
                )
                to = group * by_group + strip * by_strip + c * by_channel + inner * lanes
                w.store(w.load(turned, kind, tap * lanes, lanes), w.pointer(start), to)

            w.loop(0, word.taps, square, step=lanes)
            w.loop(0, word.entries, put)

        def channel(c: V) -> None:
            w.loop(0, word.vectors, lambda v: vector(c, v))

        w.loop(first, w.least(first + word.channel_part, word.channels), channel)

    w.pieces(word.pieces, piece)
    return w.finish(name)


# -- sums ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class StripSumWords(LaunchWords):
    """Windows of the input times strips of weights."""

    source: Any
    strips: Any
    table: Any  # of taps
    target: Any
    m: Any
    k: Any
    positions: Any
    pieces: Any
    part: Any  # positions of a piece
    position_parts: Any
    strip_part: Any  # strips of a piece
    strip_parts: Any
    strip_count: Any  # of a group
    strip: Any  # from one to the next
    # Where weights are not in strips yet: from an output channel to the next, else 0.
    row_step: Any
    group_weights: Any  # from one group to the next
    group_source: Any
    group_target: Any
    channel_target: Any
    block: Any  # of k
    sizes: Sequence[Any] = field(metadata=several(RANK))  # of the positions' coordinates
    # In the input: example, coordinates.
    source_steps: Sequence[Any] = field(metadata=several(RANK + 1))
    target_steps: Sequence[Any] = field(metadata=several(RANK + 1))  # in the result


class StripsKernel:
    """Writes the kernel of Note [strips]."""

    def __init__(self, kind: str, vectors: int) -> None:
        self.kind, self.item = kind, width(kind) // 8
        self.tile = tile = strip_tile(kind, vectors)
        self.w = w = CodeWriter()
        self.word = word = StripSumWords.read_by(w)
        self.source, self.strips, self.taps, self.target = map(
            w.pointer, (word.source, word.strips, word.table, word.target)
        )
        self.sums = w.reserve(kind, POSITIONS * tile.columns)
        most = -(-block_most(tile, kind) // tile.lanes) * tile.lanes
        self.turned = w.reserve(kind, most * tile.columns)
        self.square = w.reserve(kind, tile.lanes * tile.lanes)
        self.places, self.outs = w.reserve("i64", POSITIONS), w.reserve("i64", POSITIONS)
        self.walk = PositionWalk(w, word.sizes, (word.source_steps, word.target_steps))

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some positions, some strips, one group."""
        w, word, kind, tile = self.w, self.word, self.kind, self.tile
        rest, part = w.split(p, word.position_parts)
        group, strip_part = w.split(rest, word.strip_parts)
        first = part * word.part
        count = w.least(word.positions - first, word.part)
        squares = (count + (tile.lanes - 1)).quotient(w.whole(tile.lanes))
        some = max(tile.rows, tile.lanes)
        filled = (count + (some - 1)).quotient(w.whole(some)) * some
        self.walk.fill((self.places, self.outs), first, filled, first + count)
        source = w.at(self.source, kind, group * word.group_source)
        target = w.at(self.target, kind, group * word.group_target)
        turns = word.row_step.ne(0)
        begin = strip_part * word.strip_part
        stop = w.least(begin + word.strip_part, word.strip_count)

        def strip(number: V) -> None:
            start = group * word.group_weights + number * word.strip

            def block(k: V) -> None:
                depth = w.least(word.k - k, word.block)
                w.when(turns, lambda: self.turn(group, number * tile.columns, k, k + depth))
                ready = self.address(self.strips, start + k * tile.columns)
                here = w.pointer(select(turns, w.address(self.turned), ready))
                taps = w.at(self.taps, "i64", k)
                w.loop(
                    0, count, lambda j: self.add(source, here, taps, j, depth, k > 0),
                    step=tile.rows,
                )  # fmt: skip

            w.loop_by(w.whole(0), w.most(word.k, 1), word.block, block)
            self.put(target, number * tile.columns, squares, count)

        w.loop(begin, stop, strip)

    def address(self, base: str, index: V) -> V:
        """Where an element lies, as a number."""
        return self.w.address(self.w.at(base, self.kind, index))

    def turn(self, group: V, m: V, k: V, stop: V) -> None:
        """Some of k of a strip's weights, from where they lie."""
        w, word, tile = self.w, self.word, self.tile
        source = w.at(self.strips, self.kind, group * word.group_weights)

        def vector(v: V) -> None:
            to = w.at(self.turned, self.kind, v * tile.lanes)
            rows = m + v * tile.lanes, word.m - 1
            turn(w, self.kind, tile, source, word.row_step, rows, (k, stop), to)

        w.loop(0, w.whole(tile.vectors), vector)

    def add(self, source: str, weights: str, taps: str, j: V, depth: V, later: V) -> None:
        """Sums at the positions of a tile, over some of k."""
        w, kind, tile = self.w, self.kind, self.tile
        places = [w.at(source, kind, w.load(self.places, "i64", j + r)) for r in range(tile.rows)]

        def term(k: V, *before: V) -> list[V]:
            tap = w.load(taps, "i64", k)
            here = w.at(weights, kind, k * tile.columns)
            factors = [
                w.load(here, kind, w.whole(v * tile.lanes), tile.lanes) for v in range(tile.vectors)
            ]
            sums = iter(before)
            after: list[V] = []
            for place in places:
                x = w.code.splat(w.load(w.behind(place, tap), kind, w.whole(0)), tile.lanes)
                after += [mad(factor, x, next(sums)) for factor in factors]
            return after

        zero = w.code.const(0, kind, tile.lanes)
        sums = w.loop(0, depth, term, [zero] * (tile.rows * tile.vectors))
        to = [j * tile.columns + n * tile.lanes for n in range(len(sums))]
        store_sums(w, sums, self.sums, kind, to, later)

    def put(self, target: str, m: V, squares: V, count: V) -> None:
        """The sums of a strip into the result, from output channel `m` on."""
        w, word, kind, tile = self.w, self.word, self.kind, self.tile
        lanes = tile.lanes

        def vector(v: V) -> None:
            channel = m + v * lanes
            here = w.at(self.sums, kind, v * lanes)
            to = w.at(target, kind, channel * word.channel_target)
            rest = word.m - channel

            def near(j: V) -> None:
                x = w.load(here, kind, j * tile.columns, lanes)
                w.store_some(w.lanes_below(rest, lanes), x, to, w.load(self.outs, "i64", j))

            w.either(
                word.channel_target.eq(1),
                lambda: w.loop(0, count, near),
                lambda: w.loop(0, squares, lambda s: self.put_square(here, to, s, rest, count)),
            )

        filled = (word.m - m + (lanes - 1)).quotient(w.whole(lanes))
        w.loop(0, w.least(filled, tile.vectors), vector)

    def put_square(self, sums: str, target: str, square: V, rest: V, count: V) -> None:
        """As many positions of as many channels as there are lanes, turned."""
        w, word, kind, lanes = self.w, self.word, self.kind, self.tile.lanes
        j = square * lanes
        some = w.lanes_below(count - j, lanes)
        outs = w.load(self.outs, "i64", j, lanes)
        start = w.load(self.outs, "i64", j)
        wanted = w.code.splat(start, lanes) + w.code.iota("i64", lanes)
        near = ~any_of(outs.ne(wanted) & some)

        begin = self.address(sums, j * self.tile.columns)

        def put(to: V, step: V, wanted: V) -> None:
            along, all_of = w.whole(self.tile.columns), w.whole(lanes)
            turn_square(w, kind, lanes, Square(begin, along, all_of, rest, to, step, wanted))

        def singly() -> None:
            put(w.address(self.square), w.whole(lanes), w.whole(lanes))

            def row(i: V) -> None:
                x = w.load(self.square, kind, i * lanes, lanes)
                scatter(some, x, w.at(target, kind, i * word.channel_target), outs * self.item)

            w.loop(0, w.least(rest, lanes), row)

        w.either(
            near,
            lambda: put(self.address(target, start), word.channel_target, count - j),
            singly,
        )


def strip_sums_text(name: str, kind: str, vectors: int) -> Text:
    """The kernel of Note [strips]."""
    return StripsKernel(kind, vectors).text(name)
