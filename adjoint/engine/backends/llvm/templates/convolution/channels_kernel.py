"""Depthwise convolutions of images whose channels lie innermost: channels lie along the lanes.

Note [sums by channels]
    out[p, c] = sum over k of w[k, c] x[place[p] + tap[k], c]

    Weights are rows of all channels, one for each tap. Some positions (Note [walks]) are summed at
    once by taps whose weights are read once for all of them. The last channels begin within those
    before them where they do not fill a vector, and positions beyond the last are the last: both
    get the same sums again. Each element has the sum that the kernels of positions would give it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.lines_kernel import vectors_together
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.vector import V, mad

CHUNK = 256  # positions in a piece, at most
VECTORS = 4  # of channels that are summed at once, where there are as many


@dataclass(slots=True)
class ChannelWords(LaunchWords):
    """Sums over taps, of which for each its offset in the weights and in the input follow."""

    source: Any
    weights: Any
    target: Any
    channels: Any
    taps: Any
    positions: Any
    part: Any  # positions of a piece
    pieces: Any
    sizes: Sequence[Any] = field(metadata=several(RANK))  # of the positions' coordinates
    # In the input: example, coordinates.
    source_steps: Sequence[Any] = field(metadata=several(RANK + 1))
    target_steps: Sequence[Any] = field(metadata=several(RANK + 1))


def vectors_of(kind: str, channels: int) -> int:
    """Vectors of channels that are summed at once; 0 where there are fewer than one has lanes."""
    return min(VECTORS, channels // outer_tile(kind).lanes)


def positions_together(vectors: int) -> int:
    """Positions that are summed at once."""
    return vectors_together() // vectors


def channel_sums_text(name: str, kind: str, vectors: int) -> Text:
    """The kernel of Note [sums by channels]."""
    w = CodeWriter()
    word = ChannelWords.read_by(w)
    source, weights, target = map(w.pointer, (word.source, word.weights, word.target))
    taps = w.at("%args", "i64", w.whole(ChannelWords.word_count()))
    lanes, together = outer_tile(kind).lanes, positions_together(vectors)
    places, outs = (w.reserve("i64", CHUNK + together) for _ in range(2))
    walk = PositionWalk(w, word.sizes, (word.source_steps, word.target_steps))
    zero = w.code.const(0, kind, lanes)
    parts = [w.whole(v * lanes) for v in range(vectors)]

    def piece(p: V) -> None:
        first = p * word.part
        count = w.least(word.positions - first, word.part)
        some = (count + (together - 1)).quotient(w.whole(together)) * together
        walk.fill((places, outs), first, some, first + count)

        def sums(j: V) -> None:
            begins, ends = (
                [w.load(table, "i64", j + n) for n in range(together)] for table in (places, outs)
            )

            def channels(block: V) -> None:
                c = w.least(block, word.channels - vectors * lanes)
                by = w.at(weights, kind, c)
                here = [w.at(source, kind, begin + c) for begin in begins]

                def term(k: V, *totals: V) -> list[V]:
                    row = w.at(by, kind, w.load(taps, "i64", k * 2))
                    tap = w.load(taps, "i64", k * 2 + 1)
                    factors = [w.load(row, kind, part, lanes) for part in parts]
                    loaded = [
                        w.load(w.at(place, kind, tap), kind, part, lanes)
                        for place in here
                        for part in parts
                    ]
                    return [
                        mad(x, factors[n % vectors], total)
                        for n, (x, total) in enumerate(zip(loaded, totals, strict=True))
                    ]

                totals = iter(w.loop(0, word.taps, term, [zero] * (together * vectors)))
                for end in ends:
                    for part in parts:
                        w.store(next(totals), target, end + c + part)

            w.loop(0, word.channels, channels, step=vectors * lanes)

        w.loop(0, count, sums, step=together)

    w.pieces(word.pieces, piece)
    return w.finish(name)
