"""The kernels of convolutions of images whose channels lie innermost, for wide registers.

Note [pixels]
    out[p, m] = sum over taps t and channels c of w[t, c, m] x[pixel[p, t], c]

    as in Note [strips], but the input's channels are neighbours: so a tile has some pixels for its
    rows, each read along its channels, and some vectors of output channels for its columns.
    Nothing is copied to have zeros around it: where a tap lies beyond the image's edge, a row of
    zeros is read instead. Which pixel each tap reads is written down once for all strips of a
    piece. A tile's sums go to memory as they are, whole vectors of channels, and what follows a
    convolution is done with them on their way (Note [epilogues]).

    Weights lie in strips [tap][channel][output channel], of which a part that stays in the nearest
    cache meets all tiles of a piece before the next part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adjoint.engine.backends.llvm.ir.masked import gathered
from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.product.ending import Ending, EndingWriter
from adjoint.engine.backends.llvm.templates.product.tiles import Tile, outer_tile
from adjoint.engine.backends.registers.vector import V, mad, width

POSITIONS = 96  # of a piece, at most
FILLED = POSITIONS + 16  # with those after the last, up to whole tiles and vectors
MOST_TAPS = 32
PART_BYTES = 20 * 1024  # of a strip, that meet all tiles of a piece before the next
CHAIN = 256  # terms that are summed one after another, at most (Note [winograd])
TURNS = 4  # channels of a turn, where there are multiples of it
AT_ONCE = 8  # positions whose pixels are looked up together
LOW = (1 << 32) - 1  # coordinates of a position are one number, its lower half that along the row
# Rows of a tile of so many vectors, the best first.
HEIGHTS = {4: (6, 5, 4), 3: (8, 7, 6), 2: (10, 8), 1: (10, 8)}


def pixel_tile(kind: str, vectors: int, rows: int) -> Tile:
    """The tile of so many pixels and vectors of output channels."""
    return replace(outer_tile(kind), rows=rows, vectors=vectors)


# -- weights ------------------------------------------------------------------------------------


@dataclass(slots=True)
class PixelWeightWords(LaunchWords):
    """Weights into strips, and a row of zeros; offsets of the taps in the weights follow."""

    source: Any
    target: Any
    zeros: Any
    rows: Any  # output channels of a group
    channels: Any
    taps: Any
    strips: Any  # of a group
    pieces: Any  # strips of all groups
    row_step: Any
    channel_step: Any
    group_step: Any


def weights_text(name: str, kind: str, vectors: int) -> Text:
    """Strips [group][strip][tap][channel][output channel]: beyond the last one, it again."""
    w = CodeWriter()
    word = PixelWeightWords.read_by(w)
    source, target, zeros = map(w.pointer, (word.source, word.target, word.zeros))
    taps = w.at("%args", "i64", w.whole(PixelWeightWords.word_count()))
    tile, item = pixel_tile(kind, vectors, 1), width(kind) // 8
    lanes = tile.lanes

    def piece(number: V) -> None:
        group, strip = w.split(number, word.strips)
        base = w.at(source, kind, group * word.group_step)
        to = w.at(target, kind, number * word.taps * word.channels * tile.columns)

        def vector(v: V) -> None:
            row = w.code.splat((strip * vectors + v) * lanes, lanes) + w.code.iota("i64", lanes)
            last = w.code.splat(word.rows - 1, lanes)
            places = w.code.select(row < last, row, last) * w.code.splat(word.row_step, lanes)

            def tap(t: V) -> None:
                begin = w.load(taps, "i64", t)

                def channel(c: V) -> None:
                    at = w.code.splat(begin + c * word.channel_step, lanes)
                    place = (t * word.channels + c) * tile.columns + v * lanes
                    w.store(gathered((places + at) * item, base, kind), to, place)

                w.loop(0, word.channels, channel)

            w.loop(0, word.taps, tap)

        w.loop(0, w.whole(vectors), vector)

    w.pieces(word.pieces, piece)
    nothing = w.code.const(0, kind)
    first = w.code.value("%worker", "i64", 1).eq(0)
    w.when(first, lambda: w.loop(0, word.channels, lambda c: w.store(nothing, zeros, c)))
    return w.finish(name)


# -- sums ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class PixelWords(LaunchWords):
    """Pixels times strips; for each tap its coordinates and its offset in the input follow."""

    source: Any
    strips: Any
    zeros: Any
    target: Any
    m: Any  # output channels of a group
    channels: Any
    taps: Any
    positions: Any
    pieces: Any
    part: Any  # positions of a piece
    position_parts: Any
    strip_part: Any  # strips of a piece
    strip_parts: Any
    strip_count: Any  # of a group
    tap_block: Any  # taps that are summed before sums are put down
    channel_block: Any  # channels, all of them unless it is one tap
    group_source: Any  # from one group to the next
    group_target: Any
    height: Any  # of the input
    width: Any
    starts: Sequence[Any] = field(metadata=several(2))  # of the positions in the input
    steps: Sequence[Any] = field(metadata=several(2))
    sizes: Sequence[Any] = field(metadata=several(RANK))  # of the positions' coordinates
    # In the input: example, coordinates.
    source_steps: Sequence[Any] = field(metadata=several(RANK + 1))
    target_steps: Sequence[Any] = field(metadata=several(RANK + 1))  # in the result


TAP = 3  # words of each


@dataclass(frozen=True, slots=True)
class PixelForm:
    """What the text of a kernel depends on."""

    kind: str
    vectors: int
    rows: int
    turns: int  # channels of a turn of the innermost loop
    masked: bool  # whether the last vector of a group's channels is not full
    ending: Ending | None = None

    @property
    def name(self) -> str:
        end = "" if self.ending is None else f"_{self.ending.epilogue.key()}"
        return f"{self.vectors}x{self.rows}_{self.turns}_{int(self.masked)}{end}"


class PixelsKernel:
    """Writes the kernel of Note [pixels]."""

    def __init__(self, form: PixelForm) -> None:
        self.form, self.kind, self.item = form, form.kind, width(form.kind) // 8
        self.tile = tile = pixel_tile(form.kind, form.vectors, form.rows)
        self.w = w = CodeWriter()
        self.word = word = PixelWords.read_by(w)
        self.source, self.strips, self.target = map(
            w.pointer, (word.source, word.strips, word.target)
        )
        end, count = form.ending, PixelWords.word_count()
        self.ending = None if end is None else EndingWriter(w, end.epilogue, count)
        more = 0 if end is None else len(end.words)
        self.taps = w.at("%args", "i64", w.whole(count + more))
        self.sums = w.reserve(self.kind, FILLED * tile.columns)
        self.pixels = w.reserve("i64", MOST_TAPS * FILLED)  # of each tap, addresses
        self.places, self.outs, self.at = (w.reserve("i64", FILLED) for _ in range(3))
        coordinates = [w.whole(0), w.whole(0), w.whole(LOW + 1), w.whole(1)]
        steps = (word.source_steps, word.target_steps, coordinates)
        self.walk = PositionWalk(w, word.sizes, steps)

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some positions, some strips, one group."""
        w, word, tile = self.w, self.word, self.tile
        rest, part = w.split(p, word.position_parts)
        group, strip_part = w.split(rest, word.strip_parts)
        first = part * word.part
        count = w.least(word.positions - first, word.part)
        # Whole vectors, and then whole tiles, which may end behind those.
        filled = (count + (AT_ONCE + tile.rows - 1)).quotient(w.whole(AT_ONCE)) * AT_ONCE
        self.walk.fill((self.places, self.outs, self.at), first, filled, first + count)
        source = word.source + group * word.group_source * self.item
        w.loop(0, filled, lambda j: self.look_up(source, j), step=AT_ONCE)
        target = w.at(self.target, self.kind, group * word.group_target)
        begin = strip_part * word.strip_part
        stop = w.least(begin + word.strip_part, word.strip_count)

        def strip(number: V) -> None:
            which = group * word.strip_count + number
            weights = w.at(self.strips, self.kind, which * word.taps * word.channels * tile.columns)
            m = number * tile.columns

            def taps(t: V) -> None:
                some = w.least(word.taps - t, word.tap_block)

                def channels(c: V) -> None:
                    depth = w.least(word.channels - c, word.channel_block)
                    later = (t > 0) | (c > 0)
                    last = (t + some >= word.taps) & (c + depth >= word.channels)
                    here = w.at(weights, self.kind, (t * word.channels + c) * tile.columns)

                    def some_rows(j: V) -> None:
                        sums = self.add(here, j, (t, some), (c, depth))
                        self.put(sums, target, (j, count), (first, group * word.m, m), later, last)

                    w.loop(0, count, some_rows, step=tile.rows)

                w.loop_by(w.whole(0), word.channels, word.channel_block, channels)

            w.loop_by(w.whole(0), word.taps, word.tap_block, taps)

        w.loop(begin, stop, strip)

    def look_up(self, source: V, j: V) -> None:
        """The addresses of the pixels that each tap of some positions reads."""
        w, word, lanes = self.w, self.word, AT_ONCE

        def all_of(x: V) -> V:
            return w.code.splat(x, lanes)

        at, places = (w.load(table, "i64", j, lanes) for table in (self.at, self.places))
        y = (at >> 32) * all_of(word.steps[0]) + all_of(word.starts[0])
        x = (at & LOW) * all_of(word.steps[1]) + all_of(word.starts[1])
        begin = places * self.item + all_of(source)
        zeros = all_of(word.zeros)

        def tap(t: V) -> None:
            down, across, offset = (w.load(self.taps, "i64", t * TAP + n) for n in range(TAP))
            row, column = (y + all_of(down)).bitcast("u64"), (x + all_of(across)).bitcast("u64")
            inside = (row < all_of(word.height).bitcast("u64")) & (
                column < all_of(word.width).bitcast("u64")
            )
            here = begin + all_of(offset * self.item)
            w.store(w.code.select(inside, here, zeros), self.pixels, t * FILLED + j)

        w.loop(0, word.taps, tap)

    def add(self, weights: str, j: V, taps: tuple[V, V], channels: tuple[V, V]) -> list[V]:
        """Sums at the positions of a tile, over some taps and channels."""
        w, kind, tile, turns = self.w, self.kind, self.tile, self.form.turns
        (first, some), (c, depth) = taps, channels
        zero = w.code.const(0, kind, tile.lanes)

        def tap(t: V, *sums: V) -> list[V]:
            begin = c * self.item
            places = [
                w.pointer(w.load(self.pixels, "i64", (first + t) * FILLED + j + r) + begin)
                for r in range(tile.rows)
            ]
            here = w.at(weights, kind, t * self.word.channels * tile.columns)

            def term(k: V, *before: V) -> list[V]:
                after = list(before)
                line = w.at(here, kind, k * tile.columns)
                for turn in range(turns):
                    start = turn * tile.columns
                    factors = [
                        w.load(line, kind, w.whole(start + v * tile.lanes), tile.lanes)
                        for v in range(tile.vectors)
                    ]
                    for r, place in enumerate(places):
                        pixel = w.at(place, kind, k)
                        x = w.code.splat(w.load(pixel, kind, w.whole(turn)), tile.lanes)
                        for v, factor in enumerate(factors):
                            n = r * tile.vectors + v
                            after[n] = mad(factor, x, after[n])
                return after

            return w.loop(0, depth, term, sums, step=turns)

        return w.loop(0, some, tap, [zero] * (tile.rows * tile.vectors))

    def put(
        self,
        sums: Sequence[V],
        target: str,
        rows: tuple[V, V],
        starts: tuple[V, V, V],
        later: V,
        last: V,
    ) -> None:
        """Sums to where they are added up, or to the result."""
        w, kind, tile = self.w, self.kind, self.tile
        (j, count), (first, group, m) = rows, starts
        places = [j * tile.columns + n * tile.lanes for n in range(len(sums))]

        def added() -> list[V]:
            return [
                x + w.load(self.sums, kind, place, tile.lanes)
                for x, place in zip(sums, places, strict=True)
            ]

        totals = w.choose(later, added, lambda: sums)

        def keep() -> None:
            for x, place in zip(totals, places, strict=True):
                w.store(x, self.sums, place)

        def finish() -> None:
            for r in range(tile.rows):
                some = totals[r * tile.vectors : (r + 1) * tile.vectors]
                w.when(j + r < count, lambda r=r, some=some: self.row(
                    some, target, j + r, first, group, m))  # fmt: skip

        w.either(last, finish, keep)

    def row(self, sums: Sequence[V], target: str, j: V, first: V, group: V, m: V) -> None:
        """The sums of a position to the result."""
        w, tile = self.w, self.tile
        start = w.load(self.outs, "i64", j) if self.ending is None else None
        for v, x in enumerate(sums):
            channel = m + v * tile.lanes
            mask = None
            if self.form.masked:
                mask = w.lanes_below(self.word.m - channel, tile.lanes)
            if self.ending is not None:
                self.ending.write(x, first + j, group + channel, mask)
            elif mask is None:
                w.store(x, target, start + channel)
            else:
                w.store_some(mask, x, target, start + channel)


def pixels_text(name: str, form: PixelForm) -> Text:
    """The kernel of Note [pixels]; the words of an epilogue follow its own, then the taps'."""
    return PixelsKernel(form).text(name)
