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
from functools import partial
from typing import final

from adjoint.engine.backends.llvm.ir.writer import LINE
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.pixels.pieces_kernel import (
    FILLED,
    PixelForm,
    PixelKernel,
    Put,
)
from adjoint.engine.backends.registers.vector import V, mad

PART_BYTES = 20 * 1024  # of a strip, that meet all tiles of a piece before the next
CHAIN = 256  # terms that are summed one after another, at most (Note [winograd])
TURNS = 4  # channels of a turn, where there are multiples of it
# Rows of a tile of so many vectors, the best first.
HEIGHTS = {4: (6, 5, 4), 3: (8, 7, 6), 2: (10, 8), 1: (10, 8)}


@final
class SumsKernel(PixelKernel):
    """Writes the kernel of Note [pixels]."""

    def __init__(self, form: PixelForm) -> None:
        super().__init__(form)
        self.sums = self.w.reserve(self.kind, FILLED * self.columns)

    def strip(self, weights: str, m: V, count: V, put: Put) -> None:
        w, word = self.w, self.word

        def taps(t: V) -> None:
            some = w.least(word.taps - t, word.tap_block)

            def channels(c: V) -> None:
                depth = w.least(word.channels - c, word.channel_block)
                later = (t > 0) | (c > 0)
                last = (t + some >= word.taps) & (c + depth >= word.channels)
                here = w.at(weights, self.kind, (t * word.channels + c) * self.columns)

                def some_rows(j: V) -> None:
                    sums = self.add(here, j, (t, some), (c, depth))
                    self.put(sums, put, (j, count), later, last)

                w.loop(0, count, some_rows, step=self.form.rows)

            w.loop_by(w.whole(0), word.channels, word.channel_block, channels)

        w.loop_by(w.whole(0), word.taps, word.tap_block, taps)

    def add(self, weights: str, j: V, taps: tuple[V, V], channels: tuple[V, V]) -> list[V]:
        """Sums at the positions of a tile, over some taps and channels."""
        w, kind, form, lanes = self.w, self.kind, self.form, self.lanes
        (first, some), (c, depth) = taps, channels
        zero = w.code.const(0, kind, lanes)
        begin = c * self.item
        # Each tile asks for one of the weights' rows of a turn, in the next part.
        tile = j.quotient(w.whole(form.rows))
        ahead = (some * depth + tile.modulo(w.whole(form.turns))) * self.columns

        def tap(t: V, *sums: V) -> list[V]:
            places = [self.pixel(first + t, j + r, begin) for r in range(form.rows)]
            here = w.at(weights, kind, t * self.word.channels * self.columns)

            def term(k: V, *before: V) -> list[V]:
                after = list(before)
                line = w.at(here, kind, k * self.columns)
                if form.ahead:
                    later = w.at(line, kind, ahead)
                    for start in range(0, self.columns * self.item, LINE):
                        w.prefetch(later, start, near=2)
                for turn in range(form.turns):
                    starts = [turn * self.columns + v * lanes for v in range(form.vectors)]
                    factors = [w.load(line, kind, w.whole(start), lanes) for start in starts]
                    for r, place in enumerate(places):
                        pixel = w.at(place, kind, k)
                        x = w.code.splat(w.load(pixel, kind, w.whole(turn)), lanes)
                        for v, factor in enumerate(factors):
                            n = r * form.vectors + v
                            after[n] = mad(factor, x, after[n])
                return after

            return w.loop(0, depth, term, sums, step=form.turns)

        return w.loop(0, some, tap, [zero] * (form.rows * form.vectors))

    def put(self, sums: Sequence[V], put: Put, rows: tuple[V, V], later: V, last: V) -> None:
        """Sums to where they are added up, or to the result."""
        w, form, (j, count) = self.w, self.form, rows
        places = [j * self.columns + n * self.lanes for n in range(len(sums))]

        def added() -> list[V]:
            return [
                x + w.load(self.sums, self.kind, place, self.lanes)
                for x, place in zip(sums, places, strict=True)
            ]

        totals = w.choose(later, added, lambda: sums)

        def keep() -> None:
            for x, place in zip(totals, places, strict=True):
                w.store(x, self.sums, place)

        def finish() -> None:
            for r in range(form.rows):
                some = totals[r * form.vectors : (r + 1) * form.vectors]
                w.when(j + r < count, partial(put.row, some, j + r))

        w.either(last, finish, keep)


def pixels_text(name: str, form: PixelForm) -> Text:
    """The kernel of Note [pixels]; the words of an epilogue follow its own, then the taps'."""
    return SumsKernel(form).text(name)
