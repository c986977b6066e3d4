"""Depthwise sums over windows of whole images, with zeros around these that nobody has written.

Note [image planes]
    Where each output channel is made of one channel of the input, its image is read from as many
    windows as there are taps, and is small. So all taps are written out: their weights stay in
    registers for all of an image. Some lines of the result are made at once, a vector of each; a
    vector of the input is loaded once for all of them, in an order by which each element has its
    terms in that of the taps (Note [lines]). What lies outside of the image is lanes that are
    not read, or a line of zeros instead of one that does not exist. So images are read where they
    lie: to copy them with zeros around takes as long as the sums.

    Vectors are as many as a line of the result is long, their last lanes perhaps not written; the
    last lines begin within those before them. With masks only, that is on wide registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.vector import V, mad, select

TALL = (1, 2, 3, 4, 5, 6, 8)  # lines of the result at once: few, as each number is another text
WEIGHTS = 12  # up to which there is room for TALL lines beside them; else for half as many
MOST = 25  # taps, at most
WIDEST = 64  # elements from the first tap of a line to its last, at most
LONGEST = 1 << 30  # elements of a line, at most: they are counted in 32 bits
STEPS = (1, 2)  # of windows along a line


@dataclass(frozen=True, slots=True)
class TapWindow:
    """What is written out: offsets of taps from the lowest, in their order, and windows' steps."""

    down: tuple[int, ...]
    across: tuple[int, ...]
    steps: tuple[int, int]

    @property
    def name(self) -> str:
        """Of kernels."""
        listed = ("_".join(map(str, part)) for part in (self.down, self.across, self.steps))
        return "x".join(listed)

    def lines(self, tall: int) -> list[int]:
        """Lines of the input that so many of the result want, each result's in its taps' order."""
        found = {r * self.steps[0] + d for r in range(tall) for d in self.down}
        return sorted(found, reverse=self.down[0] > self.down[-1])


def is_written_out(window: TapWindow) -> bool:
    """Whether there are few taps, in one direction each."""
    ordered = all(
        list(part) in (sorted(part), sorted(part, reverse=True))
        for part in (window.down, window.across)
    )
    few = 0 < len(window.down) * len(window.across) <= MOST
    return few and ordered and max(window.across) < WIDEST and window.steps[1] in STEPS


def lines_at_once(window: TapWindow, height: int) -> int:
    """Lines that are made at once, of so many: as many as leave the fewest to do twice."""
    most = max(TALL) if len(window.down) * len(window.across) <= WEIGHTS else max(TALL) // 2
    fit = [tall for tall in TALL if tall <= min(most, height)]
    return min(fit, key=lambda tall: (-(-height // tall) * (tall + 1), -tall))


@dataclass(slots=True)
class ImagePlaneWords(LaunchWords):
    """Images and their windows; for each tap the offset of its weight follows."""

    source: Any
    weights: Any
    target: Any
    groups: Any
    rows: Any  # output channels of a group, whose input is one
    group_block: Any  # groups of a piece
    group_parts: Any
    pieces: Any
    height: Any  # of the input
    width: Any
    top: Any  # its line, and its element of one, at the first result's lowest taps
    left: Any
    lines: Any  # of the result
    line: Any  # elements of one
    example_source: Any  # from one to the next
    group_source: Any
    line_source: Any
    group_weights: Any
    row_weights: Any
    example_target: Any
    group_target: Any
    row_target: Any
    line_target: Any


class PlaneSums:
    """Writes the kernel of Note [image planes]."""

    def __init__(self, kind: str, window: TapWindow, tall: int) -> None:
        self.kind, self.window, self.tall = kind, window, tall
        self.lanes = outer_tile(kind).lanes
        self.w = w = CodeWriter()
        self.word = word = ImagePlaneWords.read_by(w)
        self.source, self.weights, self.target = map(
            w.pointer, (word.source, word.weights, word.target)
        )
        self.room = max(window.across) + 2 * self.lanes
        self.zeros = w.reserve(kind, self.room)

    def text(self, name: str) -> Text:
        w, word, kind = self.w, self.word, self.kind
        none = w.code.const(0, kind)
        w.loop(0, w.whole(self.room), lambda i: w.store(none, self.zeros, i))

        def piece(p: V) -> None:
            example, part = w.split(p, word.group_parts)
            first = part * word.group_block

            def group(g: V) -> None:
                at = example * word.example_source + g * word.group_source
                source = w.at(self.source, kind, at)

                def row(m: V) -> None:
                    by = w.at(self.weights, kind, g * word.group_weights + m * word.row_weights)
                    to = g * word.group_target + m * word.row_target
                    to = to + example * word.example_target
                    self.plane(source, self.factors(by), w.at(self.target, kind, to))

                w.loop(0, word.rows, row)

            w.loop(first, w.least(first + word.group_block, word.groups), group)

        w.pieces(word.pieces, piece)
        return w.finish(name)

    def factors(self, weights: str) -> list[list[V]]:
        """The weights of a channel in all lanes, by lines of taps."""
        w, across = self.w, len(self.window.across)
        every = [
            w.load(weights, self.kind, w.word(ImagePlaneWords.word_count() + k))
            for k in range(len(self.window.down) * across)
        ]
        spread = [w.code.splat(x, self.lanes) for x in every]
        return [spread[k : k + across] for k in range(0, len(spread), across)]

    def plane(self, source: str, factors: list[list[V]], target: str) -> None:
        """One channel of the result."""
        w, word = self.w, self.word

        def lines(y: V) -> None:
            first = w.least(y, word.lines - self.tall)
            top = first * self.window.steps[0] + word.top

            def run(x: V) -> None:
                column = x * self.window.steps[1] + word.left
                kept = w.lanes_below(word.line - x, self.lanes)
                for r, total in enumerate(self.sums(source, factors, top, column)):
                    w.store_some(kept, total, target, (first + r) * word.line_target + x)

            w.loop(0, word.line, run, step=self.lanes)

        w.loop(0, word.lines, lines, step=self.tall)

    def starts(self, tap: int) -> list[int]:
        """Where vectors begin that hold the elements of a tap (Note [lines])."""
        return [tap] if self.window.steps[1] == 1 else [tap, tap + self.lanes - 1]

    def inside(self, column: V) -> V:
        """Which lanes of a vector that begins there exist; places before the first wrap around."""
        code, lanes = self.w.code, self.lanes
        at = code.iota("u32", lanes) + code.splat(column.convert("u32"), lanes)
        return at < code.splat(self.word.width.convert("u32"), lanes)

    def sums(self, source: str, factors: list[list[V]], top: V, column: V) -> list[V]:
        """The sums of a vector of each of some lines."""
        w, word, window = self.w, self.word, self.window
        masks = [[self.inside(column + n) for n in self.starts(tap)] for tap in window.across]
        totals = [w.code.const(0, self.kind, self.lanes)] * self.tall
        zeros = w.address(self.zeros)
        for line in window.lines(self.tall):
            y = top + line
            there = w.address(w.at(source, self.kind, y * word.line_source + column))
            here = w.pointer(select((y >= 0) & (y < word.height), there, zeros))
            for k, tap in enumerate(window.across):
                x = self.elements(here, tap, masks[k])
                for r in range(self.tall):
                    for d, offset in enumerate(window.down):
                        if r * window.steps[0] + offset == line:
                            totals[r] = mad(x, factors[d][k], totals[r])
        return totals

    def elements(self, line: str, tap: int, masks: list[V]) -> V:
        """The elements of a tap."""
        w, lanes = self.w, self.lanes
        loaded = [
            w.load_some(mask, self.kind, line, w.whole(start))
            for mask, start in zip(masks, self.starts(tap), strict=True)
        ]
        if len(loaded) == 1:
            return loaded[0]
        chosen = [n if n < lanes else n + 1 for n in range(0, 2 * lanes, 2)]
        return w.pick(loaded[0], loaded[1], chosen)


def plane_sums_text(name: str, kind: str, window: TapWindow, tall: int) -> Text:
    """The kernel of Note [image planes]; so many lines are made at once."""
    return PlaneSums(kind, window, tall).text(name)
