"""The kernel that lays images down with zeros around them.

Note [zeros around]
    A plane of the result is one row of numbers: zeros above, then each row of the image and the
    zeros between it and the next, then zeros below. Where registers are wide, which lanes are
    written is known once for all rows: those of an image's row that fill vectors, then one vector
    of what is left of it and of the zeros behind. Only the last row of a plane ends elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK
from adjoint.engine.backends.llvm.templates.product.tiles import has_wide_registers, outer_tile
from adjoint.engine.backends.registers.vector import V, select

PAD_LANES = 8
TURNED = 4  # channels that lie innermost, read at once


@dataclass(slots=True)
class PaddingWords(LaunchWords):
    """An input with zeros around it."""

    source: Any
    target: Any
    channels: Any
    planes: Any
    sizes: Sequence[Any] = field(metadata=several(RANK))  # with the zeros
    given: Sequence[Any] = field(metadata=several(RANK))  # without
    starts: Sequence[Any] = field(metadata=several(RANK))  # where the source begins
    # Of the source: example, channel, coordinates.
    steps: Sequence[Any] = field(metadata=several(2 + RANK))


def seen(w: CodeWriter, start: V, count: V, size: V) -> tuple[V, V]:
    """Between which positions an image is that begins at one, perhaps outside: none if it is."""
    first = w.least(w.most(start, 0), size)
    return first, w.most(w.least(start + count, size), first)


class _Vectors:
    """Writes planes of images whose rows are neighbours (Note [zeros around])."""

    def __init__(
        self, w: CodeWriter, kind: str, word: PaddingWords, arrays: tuple[str, str]
    ) -> None:
        self.w, self.kind, self.word = w, kind, word
        self.source, self.target = arrays
        self.lanes = outer_tile(kind).lanes
        high, wide = word.sizes[1], word.sizes[2]
        self.left, self.right = seen(w, word.starts[2], word.given[2], wide)
        self.top, bottom = seen(w, word.starts[1], word.given[1], high)
        count = self.right - self.left
        # Without an element of the image that is seen, zeros above are all there is.
        self.bottom = select(count > 0, bottom, self.top)
        self.whole = count.quotient(w.whole(self.lanes)) * self.lanes
        self.rest = count - self.whole
        self.read = w.lanes_below(self.rest, self.lanes)
        self.between = wide - count  # zeros from a row to the next
        self.written = w.lanes_below(self.rest + self.between, self.lanes)

    def zeros(self, start: V, count: V) -> None:
        """So many zeros, if there are to be any."""
        w, zero = self.w, self.w.code.const(0, self.kind, self.lanes)

        def some(x: V) -> None:
            w.store_some(w.lanes_below(count - x, self.lanes), zero, self.target, start + x)

        w.loop(0, count, some, step=self.lanes)

    def row(self, at: V, to: V, written: V, behind: V) -> None:
        """A row of an image, and so many zeros behind it."""
        w, lanes = self.w, self.lanes

        def copy(x: V) -> None:
            w.store(w.load(self.source, self.kind, at + x, lanes), self.target, to + x)

        w.loop(0, self.whole, copy, step=lanes)
        value = w.load_some(self.read, self.kind, self.source, at + self.whole)
        w.store_some(written, value, self.target, to + self.whole)
        beyond = self.rest + behind - lanes
        w.when(beyond > 0, lambda: self.zeros(to + self.whole + lanes, beyond))

    def plane(self, start: V, base: V, deep: V) -> None:
        """One plane, from an element of the target on; zeros unless it is `deep` in the image."""
        w, word = self.w, self.word
        wide, size = word.sizes[2], word.sizes[1] * word.sizes[2]
        bottom = select(deep, self.bottom, self.top)
        some = bottom > self.top
        above = select(some, self.top * wide + self.left, size)
        self.zeros(start, above)
        first = base - word.starts[1] * word.steps[3] + self.left

        def row(y: V) -> None:
            at, to = first + y * word.steps[3], start + y * wide + self.left
            self.row(at, to, self.written, self.between)

        w.loop(self.top, bottom - 1, row)

        def last() -> None:
            y, behind = bottom - 1, wide - self.right
            written = w.lanes_below(self.rest + behind, self.lanes)
            at, to = first + y * word.steps[3], start + y * wide + self.left
            self.row(at, to, written, behind)
            self.zeros(start + bottom * wide, size - bottom * wide)

        w.when(some, last)


def pad_text(name: str, kind: str) -> Text:
    """The input with zeros around it, in row-major order; parts may also be cut off.

    Where channels lie innermost, rows of some of them are read together and turned in registers.
    """
    w = CodeWriter(as_written=True)
    word = PaddingWords.read_by(w)
    source, target = w.pointer(word.source), w.pointer(word.target)
    sizes, given, starts, steps = word.sizes, word.given, word.starts, word.steps
    left, right = seen(w, starts[2], given[2], sizes[2])
    zero = {n: w.code.const(0, kind, n) for n in (1, PAD_LANES)}
    vectors = _Vectors(w, kind, word, (source, target)) if has_wide_registers() else None

    def run(start: V, stop: V, move: Callable[[V, int], None]) -> None:
        """Vectors while there are, then single elements."""
        whole = start + (stop - start).quotient(w.whole(PAD_LANES)) * PAD_LANES
        w.loop(start, w.most(whole, start), lambda x: move(x, PAD_LANES), step=PAD_LANES)
        w.loop(w.most(whole, start), stop, lambda x: move(x, 1))

    def plane(p: V) -> None:
        which, z = w.split(p, sizes[0])
        example, channel = w.split(which, word.channels)
        z_in = z - starts[0]
        base = example * steps[0] + channel * steps[1] + z_in * steps[2] - starts[2] * steps[4]
        deep = (z_in >= 0) & (z_in < given[0])

        def row(y: V) -> None:
            to = (p * sizes[1] + y) * sizes[2]
            y_in = y - starts[1]
            inside = deep & (y_in >= 0) & (y_in < given[1])
            at = base + y_in * steps[3]

            def zeros(x: V, lanes: int) -> None:
                w.store(zero[lanes], target, to + x)

            def copy(x: V, lanes: int) -> None:
                w.store(w.load(source, kind, at + x, lanes), target, to + x)

            def single(x: V) -> None:
                w.store(w.load(source, kind, at + x * steps[4]), target, to + x)

            def side_by_side() -> None:
                """Vectors, the last of which has elements that are copied already."""
                last = right - PAD_LANES
                w.loop(left, last, lambda x: copy(x, PAD_LANES), step=PAD_LANES)
                copy(last, PAD_LANES)

            def short() -> None:
                w.loop(left, right, lambda x: copy(x, 1))

            run(w.whole(0), select(inside, left, sizes[2]), zeros)
            long = right - left >= PAD_LANES
            if vectors is None:
                w.when(inside & steps[4].eq(1), lambda: w.either(long, side_by_side, short))
            w.when(inside & steps[4].ne(1), lambda: w.loop(left, right, single))
            w.when(inside, lambda: run(right, sizes[2], zeros))

        def by_rows() -> None:
            w.loop(0, sizes[1], row)

        if vectors is None:
            by_rows()
        else:
            start = p * sizes[1] * sizes[2]
            w.either(steps[4].eq(1), lambda: vectors.plane(start, base, deep), by_rows)

    def turned(number: V) -> None:
        """One row of all channels of an example."""
        deep, y = w.split(number, sizes[1])
        example, z = w.split(deep, sizes[0])
        z_in, y_in = z - starts[0], y - starts[1]
        inside = (z_in >= 0) & (z_in < given[0]) & (y_in >= 0) & (y_in < given[1])
        base = example * steps[0] + z_in * steps[2] + y_in * steps[3] - starts[2] * steps[4]
        channel_size = sizes[0] * sizes[1] * sizes[2]
        start = example * word.channels * channel_size + (z * sizes[1] + y) * sizes[2]

        def some(block: V) -> None:
            # The last channels may begin within those before them.
            c = w.least(block * TURNED, word.channels - TURNED)
            places = [start + (c + i) * channel_size for i in range(TURNED)]

            def zeros(x: V, lanes: int) -> None:
                for to in places:
                    w.store(zero[lanes], target, to + x)

            def load(x: V) -> V:
                return w.load(source, kind, base + x * steps[4] + c, TURNED)

            def square(x: V) -> None:
                columns = w.transposed([load(x + i) for i in range(TURNED)])
                for to, column in zip(places, columns, strict=True):
                    w.store(column, target, to + x)

            def single(x: V) -> None:
                channels = load(x)
                for i, to in enumerate(places):
                    w.store(w.lane(channels, i), target, to + x)

            def middle() -> None:
                whole = left + (right - left).quotient(w.whole(TURNED)) * TURNED
                w.loop(left, whole, square, step=TURNED)
                w.loop(whole, right, single)

            run(w.whole(0), select(inside, left, sizes[2]), zeros)
            w.when(inside, middle)
            w.when(inside, lambda: run(right, sizes[2], zeros))

        w.loop(0, (word.channels + (TURNED - 1)).quotient(w.whole(TURNED)), some)

    innermost = steps[1].eq(1) & steps[4].ne(1) & (word.channels >= TURNED)
    examples = word.planes.quotient(w.most(word.channels, 1))
    w.either(
        innermost,
        lambda: w.pieces(examples * sizes[0] * sizes[1], turned),
        lambda: w.pieces(word.planes * sizes[0], plane),
    )
    return w.finish(name)
