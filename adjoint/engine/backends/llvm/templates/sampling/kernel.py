"""The kernels that sample images at the points of a grid, and of its gradients.

Pixels and weights of some points are found at once and kept on the stack; then each channel goes
through them. Samples, and gradients of the grid, are dealt out by points; gradients of images by
channels, each of which one worker adds up in the order of the points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.llvm.ir.machine import machine
from adjoint.engine.backends.llvm.ir.masked import gathered
from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.sampling.taps import Sampler
from adjoint.engine.backends.registers.vector import V, convert, mad, select, type_text, width
from adjoint.engine.ops.image.grid import NEAREST, ZEROS

BLOCK = 64  # points whose pixels are found at once
LANES = 4  # of these in one vector
SIZES = 3  # dimensions of an image, at most


@dataclass(slots=True)
class SampleWords(LaunchWords):
    """Of an image of (batch, channels, pixels), and as many grids of (points, rank)."""

    x: Any
    grid: Any
    g: Any  # what comes back to the samples
    out: Any
    channels: Any
    points: Any
    pixels: Any
    parts: Any  # of the points, or of the channels, of one image
    part: Any  # channels of such a part
    pieces: Any
    sizes: Any = field(metadata=several(SIZES))  # the fastest dimension's first


class Sampling:
    """Writes one kernel: of samples, of gradients of images ("image") or of grids ("grid")."""

    def __init__(self, sampler: Sampler, what: str) -> None:
        self.sampler, self.what, self.kind = sampler, what, sampler.kind
        self.w = w = CodeWriter()
        self.word = SampleWords.read_by(w)
        self.offsets = w.reserve("i32", BLOCK * sampler.count)
        self.weights = w.reserve(self.kind, BLOCK * sampler.count)
        self.changes = self.sums = self.spare = ""
        if what == "grid":
            self.changes = w.reserve(self.kind, BLOCK * sampler.count * sampler.rank)
            self.sums = w.reserve(self.kind, BLOCK * sampler.rank)
        if what == "image":
            self.spare = w.reserve(self.kind, 1)  # where nothing that is added is read

    def text(self, name: str) -> Text:
        """The kernel."""
        word = self.word
        self.x, self.grid, self.g, self.out = map(
            self.w.pointer, (word.x, word.grid, word.g, word.out)
        )
        self.w.pieces(word.pieces, self.by_channels if self.what == "image" else self.by_points)
        return self.w.finish(name)

    # -- pieces ---------------------------------------------------------------------------------

    def by_points(self, piece: V) -> None:
        """Some points of an image, in all channels."""
        w, word = self.w, self.word
        image, part = w.split(piece, word.parts)
        first = part * BLOCK
        count = w.least(word.points - first, BLOCK)
        self.find(image, first, count)
        if self.what == "grid":
            self.slopes(image, first, count)
        else:
            self.channels(image, first, count, self.sample)

    def by_channels(self, piece: V) -> None:
        """Some channels of an image, at all points."""
        w, word = self.w, self.word
        image, part = w.split(piece, word.parts)
        low = part * word.part
        high = w.least(low + word.part, word.channels)
        start, stop = ((image * word.channels + c) * word.pixels for c in (low, high))
        zero = w.code.const(0.0, self.kind)
        w.loop(start, stop, lambda i: w.store(zero, self.out, i))

        def some(first: V) -> None:
            count = w.least(word.points - first, BLOCK)
            self.find(image, first, count)
            self.channels(image, first, count, self.spread, (low, high))

        w.loop(0, word.points, some, step=BLOCK)

    def channels(
        self,
        image: V,
        first: V,
        count: V,
        body: Callable[[str, V, V], None],
        bounds: tuple[V, V] | None = None,
    ) -> None:
        """`body` of each channel: its pixels, where its samples begin, and how many."""
        w, word = self.w, self.word
        low, high = bounds or (w.whole(0), word.channels)
        pixels = self.out if self.what == "image" else self.x

        def one(c: V) -> None:
            own = image * word.channels + c
            body(w.at(pixels, self.kind, own * word.pixels), own * word.points + first, count)

        w.loop(low, high, one)

    # -- points ---------------------------------------------------------------------------------

    def find(self, image: V, first: V, count: V) -> None:
        """The pixels and weights of some points."""
        w, word, sampler = self.w, self.word, self.sampler
        rank, start = sampler.rank, image * word.points + first

        def some(lanes: int, j: V) -> None:
            sizes = [w.code.splat(convert(size, "i32"), lanes) for size in word.sizes[:rank]]
            points = [(start + j + lane) * rank for lane in range(lanes)]
            numbers = [w.gather(self.grid, self.kind, [p + d for p in points]) for d in range(rank)]
            for k, tap in enumerate(sampler.taps(w, numbers, sizes)):
                place = j + k * BLOCK
                w.store(tap.offset, self.offsets, place)
                if self.sampler.mode != NEAREST:
                    w.store(tap.weight, self.weights, place)
                if self.changes:
                    for d, change in enumerate(tap.changes):
                        w.store(change, self.changes, place + d * BLOCK * sampler.count)

        most = count - count.modulo(LANES)
        w.loop(0, most, lambda j: some(LANES, j), step=LANES)
        w.loop(most, count, lambda j: some(1, j))

    def offset(self, j: V, k: int) -> V:
        """From the first pixel of an image to one of a point's."""
        return convert(self.w.load(self.offsets, "i32", j + k * BLOCK), "i64")

    def weight(self, j: V, k: int) -> V:
        """Of a point's pixel."""
        return self.w.load(self.weights, self.kind, j + k * BLOCK)

    def pixel(self, pixels: str, offset: V) -> V:
        """What is there; zero outside."""
        w = self.w
        if self.sampler.padding != ZEROS:
            return w.load(pixels, self.kind, offset)
        outside = offset < 0
        return select(outside, 0.0, w.load(pixels, self.kind, select(outside, 0, offset)))

    def sample(self, pixels: str, start: V, count: V) -> None:
        """The samples of a channel, of as many points as one instruction reads pixels of."""
        w, wide = self.w, machine().bits // width(self.kind) if machine().masks else 1

        def one(j: V, mask: V | None = None) -> None:
            total: V | None = None
            for k in range(self.sampler.count):
                value = self.pixel(pixels, self.offset(j, k)) if mask is None else some(j, k, mask)
                if self.sampler.mode == NEAREST:
                    total = value
                else:
                    lanes = value.lanes
                    weight = w.load(self.weights, self.kind, j + k * BLOCK, lanes)
                    total = value * weight if total is None else mad(value, weight, total)
            assert total is not None
            if mask is None:
                w.store(total, self.out, start + j)
            else:
                w.store_some(mask, total, self.out, start + j)

        def some(j: V, k: int, mask: V) -> V:
            places = w.load(self.offsets, "i32", j + k * BLOCK, wide)
            if self.sampler.padding == ZEROS:
                mask = mask & (places >= 0)
            return gathered(places, pixels, self.kind, mask, type_text(self.kind, 1))

        if wide == 1:
            w.loop(0, count, one)
        else:  # what is kept of points is as long as a whole number of vectors
            w.loop(0, count, lambda j: one(j, w.lanes_below(count - j, wide)), step=wide)

    def spread(self, pixels: str, start: V, count: V) -> None:
        """What comes back to a channel's samples added to the pixels they are made of."""
        w, taps, item = self.w, self.sampler.count, width(self.kind) // 8
        origin, spare = w.address(pixels), w.address(self.spare)

        def one(j: V) -> None:
            come = w.load(self.g, self.kind, start + j)
            for k in range(taps):
                offset, part = self.offset(j, k), come
                if self.sampler.mode != NEAREST:
                    part = come * self.weight(j, k)
                where = origin + offset * item
                if self.sampler.padding == ZEROS:
                    where = select(offset < 0, spare, where)
                there, zero = w.pointer(where), w.whole(0)
                w.store(w.load(there, self.kind, zero) + part, there, zero)

        w.store(w.code.const(0.0, self.kind), self.spare, w.whole(0))
        w.loop(0, count, one)

    def slopes(self, image: V, first: V, count: V) -> None:
        """The gradients of the grid's numbers: sums over all channels."""
        w, word, rank, taps = self.w, self.word, self.sampler.rank, self.sampler.count
        zero = w.code.const(0.0, self.kind)
        w.loop(0, count * rank, lambda i: w.store(zero, self.sums, i))

        def channel(pixels: str, start: V, count: V) -> None:
            def one(j: V) -> None:
                come = w.load(self.g, self.kind, start + j)
                sums = [w.load(self.sums, self.kind, j * rank + d) for d in range(rank)]
                for k in range(taps):
                    value = come * self.pixel(pixels, self.offset(j, k))
                    changes = [
                        w.load(self.changes, self.kind, j + (k + d * taps) * BLOCK)
                        for d in range(rank)
                    ]
                    sums = [mad(value, c, s) for c, s in zip(changes, sums, strict=True)]
                for d, total in enumerate(sums):
                    w.store(total, self.sums, j * rank + d)

            w.loop(0, count, one)

        if self.sampler.mode != NEAREST:  # small moves change nothing there
            self.channels(image, first, count, channel)
        to = w.at(self.out, self.kind, (image * word.points + first) * rank)
        w.loop(0, count * rank, lambda i: w.store(w.load(self.sums, self.kind, i), to, i))
