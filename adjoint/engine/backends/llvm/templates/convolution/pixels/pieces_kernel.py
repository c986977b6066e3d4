"""What kernels of convolutions of pixels share (Note [pixels]): pieces, and where taps read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.product.ending import Ending, EndingWriter
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.vector import V, width

POSITIONS = 96  # of a piece, at most
FILLED = POSITIONS + 16  # with those after the last, up to whole tiles and vectors
MOST_TAPS = 32
AT_ONCE = 8  # positions whose pixels are looked up together
LOW = (1 << 32) - 1  # coordinates of a position are one number, its lower half that along the row
TAP = 3  # words of each


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


@dataclass(frozen=True, slots=True)
class PixelForm:
    """What the text of a kernel depends on."""

    kind: str
    vectors: int  # of a strip
    rows: int  # positions of a tile
    turns: int  # channels of a turn of the innermost loop, or taps
    masked: bool  # whether the last strip of a group's channels is not full
    ending: Ending | None = None
    ahead: bool = False  # whether weights are asked for before they are needed

    @property
    def name(self) -> str:
        end = "" if self.ending is None else f"_{self.ending.epilogue.key()}"
        return f"{self.vectors}x{self.rows}_{self.turns}_{int(self.masked)}{int(self.ahead)}{end}"


class PixelKernel(ABC):
    """Writes a kernel whose pieces are some positions, some strips and one group."""

    words: ClassVar[type[PixelWords]] = PixelWords
    word: PixelWords

    def __init__(self, form: PixelForm) -> None:
        self.form, self.kind, self.item = form, form.kind, width(form.kind) // 8
        self.lanes = outer_tile(form.kind).lanes
        self.columns = form.vectors * self.lanes  # of a strip
        self.w = w = CodeWriter(as_written=True)
        self.word = word = self.words.read_by(w)
        self.source, self.strips, self.target = map(
            w.pointer, (word.source, word.strips, word.target)
        )
        end, count = form.ending, self.words.word_count()
        self.ending = None if end is None else EndingWriter(w, end.epilogue, count)
        more = 0 if end is None else len(end.words)
        self.taps = w.at("%args", "i64", w.whole(count + more))
        self.pixels = w.reserve("i64", MOST_TAPS * FILLED)  # of each tap, addresses
        self.places, self.outs, self.at = (w.reserve("i64", FILLED) for _ in range(3))
        coordinates = [w.whole(0), w.whole(0), w.whole(LOW + 1), w.whole(1)]
        tables = [
            (self.places, word.source_steps), (self.outs, word.target_steps),
            (self.at, coordinates), *self.tables(),
        ]  # fmt: skip
        self.filled = [table for table, _ in tables]
        self.walk = PositionWalk(w, word.sizes, [steps for _, steps in tables])

    def tables(self) -> list[tuple[str, Sequence[V]]]:
        """Further tables of positions, and their steps: of examples, of coordinates."""
        return []

    def begin(self, count: V) -> object:
        """Before the strips of a piece."""
        return None

    @abstractmethod
    def strip(self, weights: str, m: V, count: V, put: Put) -> None:
        """The sums of a strip, which begins at an output channel, of all positions of a piece."""

    def text(self, name: str) -> Text:
        self.w.pieces(self.word.pieces, self.piece)
        return self.w.finish(name)

    def piece(self, p: V) -> None:
        """Some positions, some strips, one group."""
        w, word = self.w, self.word
        rest, part = w.split(p, word.position_parts)
        group, strip_part = w.split(rest, word.strip_parts)
        first = part * word.part
        count = w.least(word.positions - first, word.part)
        # Whole vectors, and then whole tiles, which may end behind those.
        filled = (count + (AT_ONCE + self.form.rows - 1)).quotient(w.whole(AT_ONCE)) * AT_ONCE
        self.walk.fill(self.filled, first, filled, first + count)
        source = word.source + group * word.group_source * self.item
        w.loop(0, filled, lambda j: self.look_up(source, j), step=AT_ONCE)
        self.begin(count)
        target = w.at(self.target, self.kind, group * word.group_target)
        begin = strip_part * word.strip_part
        stop = w.least(begin + word.strip_part, word.strip_count)

        def strip(number: V) -> None:
            size = word.taps * word.channels * self.columns
            which = group * word.strip_count + number
            m = number * self.columns
            put = Put(self, target, first, group * word.m, m)
            self.strip(w.at(self.strips, self.kind, which * size), m, count, put)

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

    def pixel(self, tap: V, j: V, shift: V) -> str:
        """Where a tap of a position reads, so many bytes into its pixel."""
        return self.w.pointer(self.w.load(self.pixels, "i64", tap * FILLED + j) + shift)


@dataclass(frozen=True, slots=True)
class Put:
    """Where sums of a strip of a piece go."""

    kernel: PixelKernel
    target: str
    first: V  # position of the piece
    group: V  # output channel of the group
    m: V  # output channel of the strip, in its group

    def row(self, sums: Sequence[V], j: V) -> None:
        """The sums of a position."""
        start = self.kernel.w.load(self.kernel.outs, "i64", j)
        self.at(sums, start, self.first + j)

    def at(self, sums: Sequence[V], start: V, number: V) -> None:
        """Sums of a position that has this number, and lies there in the result."""
        kernel = self.kernel
        w, ending = kernel.w, kernel.ending
        for v, x in enumerate(sums):
            channel = self.m + v * kernel.lanes
            mask = None
            if kernel.form.masked:
                mask = w.lanes_below(kernel.word.m - channel, kernel.lanes)
            if ending is not None:
                ending.write(x, number, self.group + channel, mask)
            elif mask is None:
                w.store(x, self.target, start + channel)
            else:
                w.store_some(mask, x, self.target, start + channel)
