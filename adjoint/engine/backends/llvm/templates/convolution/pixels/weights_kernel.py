"""Kept weights of convolutions of pixels: strips of output channels, and a row of zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.llvm.ir.masked import gathered
from adjoint.engine.backends.llvm.ir.words import LaunchWords
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.vector import V, width


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
    zero_count: Any
    row_step: Any
    channel_step: Any
    group_step: Any


def weights_text(name: str, kind: str, vectors: int) -> Text:
    """Strips [group][strip][tap][channel][output channel]: beyond the last one, it again."""
    w = CodeWriter()
    word = PixelWeightWords.read_by(w)
    source, target, zeros = map(w.pointer, (word.source, word.target, word.zeros))
    taps = w.at("%args", "i64", w.whole(PixelWeightWords.word_count()))
    lanes, item = outer_tile(kind).lanes, width(kind) // 8
    columns = vectors * lanes

    def piece(number: V) -> None:
        group, strip = w.split(number, word.strips)
        base = w.at(source, kind, group * word.group_step)
        to = w.at(target, kind, number * word.taps * word.channels * columns)

        def vector(v: V) -> None:
            row = w.code.splat((strip * vectors + v) * lanes, lanes) + w.code.iota("i64", lanes)
            last = w.code.splat(word.rows - 1, lanes)
            places = w.code.select(row < last, row, last) * w.code.splat(word.row_step, lanes)

            def tap(t: V) -> None:
                begin = w.load(taps, "i64", t)

                def channel(c: V) -> None:
                    at = w.code.splat(begin + c * word.channel_step, lanes)
                    place = (t * word.channels + c) * columns + v * lanes
                    w.store(gathered((places + at) * item, base, kind), to, place)

                w.loop(0, word.channels, channel)

            w.loop(0, word.taps, tap)

        w.loop(0, w.whole(vectors), vector)

    w.pieces(word.pieces, piece)
    nothing = w.code.const(0, kind)
    first = w.code.value("%worker", "i64", 1).eq(0)
    w.when(first, lambda: w.loop(0, word.zero_count, lambda c: w.store(nothing, zeros, c)))
    return w.finish(name)
