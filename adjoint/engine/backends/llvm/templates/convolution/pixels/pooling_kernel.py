"""The kernel of the largest elements of windows, of images whose channels lie innermost.

A window's taps are whole pixels, of which some vectors of channels are compared at once. Taps
beyond an image's edge count as the nearest pixel within, which is one of the same window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.vector import V, select

VECTORS = 4  # of channels at once, at most
PLANE = 2  # dimensions of an image


@dataclass(slots=True)
class PixelPoolWords(LaunchWords):
    """Windows of images; steps are those of examples, then of coordinates."""

    source: Any
    target: Any
    channels: Any
    pieces: Any  # rows of windows of all images
    given: Sequence[Any] = field(metadata=several(PLANE))  # sizes of the image
    sizes: Sequence[Any] = field(metadata=several(PLANE))  # windows
    extents: Sequence[Any] = field(metadata=several(PLANE))
    steps: Sequence[Any] = field(metadata=several(PLANE))
    starts: Sequence[Any] = field(metadata=several(PLANE))
    source_steps: Sequence[Any] = field(metadata=several(PLANE + 1))
    target_steps: Sequence[Any] = field(metadata=several(PLANE + 1))


def vectors_of(kind: str, channels: int) -> int:
    """Vectors of channels at once."""
    return max(1, min(VECTORS, -(-channels // outer_tile(kind).lanes)))


def pixel_pool_text(name: str, kind: str, vectors: int) -> Text:
    """The largest of each window: the first of equal ones, NaN before all."""
    w = CodeWriter()
    word = PixelPoolWords.read_by(w)
    source, target = w.pointer(word.source), w.pointer(word.target)
    lanes = outer_tile(kind).lanes

    def within(at: V, size: V) -> V:
        return w.least(w.most(at, 0), size - 1)

    def piece(number: V) -> None:
        example, row = w.split(number, word.sizes[0])
        image = w.at(source, kind, example * word.source_steps[0])
        line = w.at(target, kind, example * word.target_steps[0] + row * word.target_steps[1])
        top = row * word.steps[0] + word.starts[0]

        def window(column: V) -> None:
            left = column * word.steps[1] + word.starts[1]
            to = w.at(line, kind, column * word.target_steps[2])

            def some(c: V) -> None:
                masks = [
                    w.lanes_below(word.channels - c - v * lanes, lanes) for v in range(vectors)
                ]

                def taps(y: V, x: V) -> list[V]:
                    down, across = within(top + y, word.given[0]), within(left + x, word.given[1])
                    at = down * word.source_steps[1] + across * word.source_steps[2] + c
                    return [
                        w.load_some(mask, kind, image, at + v * lanes)
                        for v, mask in enumerate(masks)
                    ]

                def tap(y: V, x: V, best: Sequence[V]) -> list[V]:
                    return [
                        select((element > most) | element.isnan(), element, most)
                        for element, most in zip(taps(y, x), best, strict=True)
                    ]

                def down(y: V, *best: V) -> list[V]:
                    return w.loop(0, word.extents[1], lambda x, *so_far: tap(y, x, so_far), best)

                zero = w.whole(0)
                found = w.loop(0, word.extents[0], down, taps(zero, zero))
                for v, (mask, most) in enumerate(zip(masks, found, strict=True)):
                    w.store_some(mask, most, to, c + v * lanes)

            w.loop(0, word.channels, some, step=vectors * lanes)

        w.loop(0, word.sizes[1], window)

    w.pieces(word.pieces, piece)
    return w.finish(name)
