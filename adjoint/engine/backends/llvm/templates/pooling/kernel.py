"""The kernels of max pooling: the largest of each window, and where it is.

`max_pool_text` takes windows of any kind, a row of them at a time: vectors of those that lie
inside, the last of which overlaps the one before. Where all windows lie inside,
`whole_windows_text` takes vectors of them across rows: nothing is left over at the ends of rows.
Of images whose channels lie innermost, `max_of_channels_text` takes vectors of a window's channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.backends.llvm.ir.machine import machine
from adjoint.engine.backends.llvm.ir.words import LaunchWords, several
from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.llvm.runtime.library import Text
from adjoint.engine.backends.llvm.templates.convolution.walks import RANK, PositionWalk
from adjoint.engine.backends.registers.vector import V, select, width

LANES = 8  # windows at a time
STEPS = (1, 2)  # from a window to the next where vectors are loaded, not gathered


@dataclass(slots=True)
class PoolingWords(LaunchWords):
    """Images in row-major order; `WindowWords` of each dimension follow."""

    source: Any
    target: Any
    at: Any  # where the largest are
    planes: Any
    left: Any  # all taps of windows from here
    right: Any  # to here are inside


@dataclass(slots=True)
class WindowWords(LaunchWords):
    """The windows along one dimension."""

    source: Any  # its size
    size: Any  # how many windows
    extent: Any  # taps of each
    step: Any
    offset: Any
    dilation: Any
    adaptive: Any  # whether windows are laid to cover it


class PoolingWindow:
    """The windows along one dimension."""

    def __init__(self, w: CodeWriter, word: WindowWords, plain: bool = False) -> None:
        self.w, self.plain = w, plain  # plain: of neighbouring elements, not laid to cover it
        self.source, self.size, self.extent = word.source, word.size, word.extent
        self.step, self.offset, self.dilation = word.step, word.offset, word.dilation
        self.adaptive = word.adaptive.ne(0)

    def taps(self, o: V) -> tuple[V, V, V]:
        """Where a window begins, and the first and last of its taps that are inside."""
        w = self.w
        if self.plain:
            start = o * self.step + self.offset
            return start, w.most(-start, 0), w.least(self.source - start, self.extent)
        begin = (o * self.source).quotient(self.size)
        end = ((o + 1) * self.source + self.size - 1).quotient(self.size)
        start = o * self.step + self.offset
        round_up = self.dilation - 1
        low = (w.most(-start, 0) + round_up).quotient(self.dilation)
        high = w.least((self.source - start + round_up).quotient(self.dilation), self.extent)
        return (
            select(self.adaptive, begin, start),
            select(self.adaptive, w.whole(0), low),
            select(self.adaptive, end - begin, high),
        )


class MaxPool:
    """Writes the kernel of `PoolingWords`."""

    def __init__(self, kind: str, number: str, step: int, lanes: int, tells: bool) -> None:
        self.kind, self.number, self.step, self.lanes = kind, number, step, lanes
        self.tells = tells  # where the largest are
        self.w = w = CodeWriter()
        fixed, of_window = PoolingWords.word_count(), WindowWords.word_count()
        words = w.words(fixed + RANK * of_window)
        self.word = word = PoolingWords.named(words)
        self.source, self.target, self.at = map(w.pointer, (word.source, word.target, word.at))
        windows = [WindowWords.named(words[fixed + d * of_window :]) for d in range(RANK)]
        self.dims = [PoolingWindow(w, window) for window in windows]
        _, high, wide = self.dims
        self.steps = (wide.source * high.source, wide.source, w.whole(1))

    def text(self, name: str) -> Text:
        w = self.w
        deep, high, _ = self.dims
        low, stop = w.share(self.word.planes * deep.size)

        def plane(p: V) -> None:
            which, z = w.split(p, deep.size)
            zs = deep.taps(z)
            base = which * deep.source * high.source * self.dims[2].source
            source = w.at(self.source, self.kind, base)

            def row(y: V) -> None:
                to = (p * high.size + y) * self.dims[2].size
                self.row(source, zs, high.taps(y), to)

            w.loop(0, high.size, row)

        w.loop(low, stop, plane)
        return w.finish(name)

    def row(self, source: str, zs: tuple[V, V, V], ys: tuple[V, V, V], to: V) -> None:
        """One row of windows: vectors of them where all taps are inside."""
        w, wide = self.w, self.dims[2]
        left, right = self.word.left, self.word.right
        last = right - self.lanes
        stop = select(last >= left, right, left)  # of vectors, if one fits

        def one(x: V) -> None:
            self.windows(source, zs, ys, wide.taps(x), to + x, 1)

        def many(x: V) -> None:
            x = w.least(x, last)  # some once more, which gives the same again
            start = x * wide.step + wide.offset
            self.windows(source, zs, ys, (start, w.whole(0), wide.extent), to + x, self.lanes)

        w.loop(0, left, one)
        w.loop(left, stop, many, step=self.lanes)
        w.loop(stop, wide.size, one)

    def windows(
        self,
        source: str,
        zs: tuple[V, V, V],
        ys: tuple[V, V, V],
        xs: tuple[V, V, V],
        to: V,
        lanes: int,
    ) -> None:
        """The largest of `lanes` neighbouring windows: the first of equal ones, NaN before all."""
        w, kind = self.w, self.kind
        wide = self.dims[2]
        windows = list(zip(self.dims, (zs, ys, xs), self.steps, strict=True))
        first = w.whole(0)
        for dim, (start, low, _), step in windows:
            first = first + (start + low * dim.dilation) * step

        def better(here: V, best: V, *chosen: V) -> list[V]:
            element = self.load(source, here, lanes)
            larger = (element > best) | element.isnan()
            offset = w.code.splat((here - first).convert(self.number), lanes)
            return [select(larger, element, best), *(select(larger, offset, c) for c in chosen)]

        lowest = w.code.const(float("-inf"), kind, lanes)
        if not self.tells:
            w.store(self.nested(windows, better, [lowest])[0], self.target, to)
            return
        begin = [lowest, w.code.const(0, self.number, lanes)]
        best, chosen = self.nested(windows, better, begin)
        w.store(best, self.target, to)
        at = chosen.convert("i64") + w.code.splat(first, lanes)
        steps = w.code.splat(wide.step, lanes) * w.code.iota("i64", lanes)
        w.store(at + steps if lanes > 1 else at, self.at, to)

    def nested(
        self,
        windows: Sequence[tuple[PoolingWindow, tuple[V, V, V], V]],
        body: Callable[..., list[V]],
        carried: list[V],
    ) -> list[V]:
        """Loops over the taps of all dimensions; each finds its part of where a tap lies once."""
        w = self.w

        def level(rest: Sequence[Any], before: V, values: list[V]) -> list[V]:
            if not rest:
                return body(before, *values)
            dim, (start, low, high), step = rest[0]

            def tap(t: V, *values: V) -> list[V]:
                here = before + (start + t * dim.dilation) * step
                return level(rest[1:], here, list(values))

            return w.loop(low, high, tap, values)

        return level(windows, w.whole(0), carried)

    def load(self, source: str, here: V, lanes: int) -> V:
        """The elements of neighbouring windows; nothing beyond the last is read."""
        w, kind, step = self.w, self.kind, self.dims[2].step
        if lanes == 1 or self.step == 1:
            return w.load(source, kind, here, lanes)
        if self.step == 2:
            halves = [w.load(source, kind, here + n, lanes) for n in (0, lanes - 1)]
            chosen = [n if n < lanes else n + 1 for n in range(0, 2 * lanes, 2)]
            return w.pick(halves[0], halves[1], chosen)
        return w.gather(source, kind, [here + step * k for k in range(lanes)])


def windows_at_once(kind: str, number: str, count: int) -> int:
    """How many windows of a row of so many are made together: a whole register, or LANES.

    Each tap waits for the one before, so that more of them take no longer.
    """
    most = machine().bits // max(width(kind), width(number))
    return most if LANES < most <= count else LANES


def max_pool_text(
    name: str, kind: str, number: str, step: int, lanes: int, tells: bool = True
) -> Text:
    """The kernel of max pooling for a kind of float, of windows so far apart (0: any).

    `number` is a kind of whole numbers that has room for how far apart a window's elements are;
    unless it `tells` where the largest are, nothing is written there.
    """
    return MaxPool(kind, number, step, lanes, tells).text(name)


# -- channels innermost -------------------------------------------------------------------------

TOGETHER = 4  # vectors of channels of which the taps are looked for once


@dataclass(slots=True)
class ChannelPoolingWords(LaunchWords):
    """Images (N, ..., C) in row-major order; `WindowWords` of each dimension follow."""

    source: Any
    target: Any
    at: Any  # where the largest are
    images: Any
    channels: Any


def max_of_channels_text(name: str, kind: str, number: str, plain: bool) -> Text:
    """The largest of windows of images whose channels lie innermost.

    `number` is a kind of whole numbers that has room for the places of an image.
    """
    w = CodeWriter()
    fixed, of_window = ChannelPoolingWords.word_count(), WindowWords.word_count()
    words = w.words(fixed + RANK * of_window)
    word = ChannelPoolingWords.named(words)
    source, target, places = map(w.pointer, (word.source, word.target, word.at))
    windows = [WindowWords.named(words[fixed + d * of_window :]) for d in range(RANK)]
    deep, high, wide = (PoolingWindow(w, window, plain) for window in windows)
    channels = word.channels
    low, stop = w.share(word.images * deep.size * high.size)

    def row(p: V) -> None:
        plane, y = w.split(p, high.size)
        image, z = w.split(plane, deep.size)
        zs, ys = deep.taps(z), high.taps(y)
        base = image * deep.source * high.source * wide.source

        def window(x: V) -> None:
            xs = wide.taps(x)
            to = (p * wide.size + x) * channels

            def place(tz: V, ty: V, tx: V) -> V:
                along = (zs[0] + tz * deep.dilation) * high.source + ys[0] + ty * high.dilation
                return along * wide.source + xs[0] + tx * wide.dilation

            first = place(zs[1], ys[1], xs[1])

            def some(c: V, lanes: int, vectors: int) -> None:
                def tap(here: V, carried: list[V]) -> list[V]:
                    number_here = w.code.splat(here.convert(number), lanes)
                    from_here = (base + here) * channels + c
                    found: list[V] = []
                    for v in range(vectors):
                        best, chosen = carried[2 * v : 2 * v + 2]
                        element = w.load(source, kind, from_here + v * lanes, lanes)
                        larger = (element > best) | element.isnan()
                        found.append(select(larger, element, best))
                        found.append(select(larger, number_here, chosen))
                    return found

                begin = [
                    w.code.const(float("-inf"), kind, lanes),
                    w.code.splat(first.convert(number), lanes),
                ] * vectors
                found = w.loop(zs[1], zs[2], lambda tz, *v: w.loop(
                    ys[1], ys[2], lambda ty, *v: w.loop(
                        xs[1], xs[2], lambda tx, *v: tap(place(tz, ty, tx), list(v)), list(v)
                    ), list(v)
                ), begin)  # fmt: skip
                for v in range(vectors):
                    w.store(found[2 * v], target, to + c + v * lanes)
                    w.store(found[2 * v + 1].convert("i64"), places, to + c + v * lanes)

            several = LANES * TOGETHER
            whole = channels.quotient(w.whole(several)) * several
            vectors = channels.quotient(w.whole(LANES)) * LANES
            w.loop(0, whole, lambda c: some(c, LANES, TOGETHER), step=several)
            w.loop(whole, vectors, lambda c: some(c, LANES, 1), step=LANES)
            w.loop(vectors, channels, lambda c: some(c, 1, 1))

        w.loop(0, wide.size, window)

    w.loop(low, stop, row)
    return w.finish(name)


# -- windows that lie inside --------------------------------------------------------------------

CHUNK = 256  # windows whose places are found together


@dataclass(slots=True)
class InnerWords(LaunchWords):
    """Windows that all lie inside; the offsets of their taps follow."""

    source: Any
    target: Any
    at: Any  # where the largest are
    planes: Any
    plane: Any  # elements of one
    windows: Any
    tap_count: Any
    sizes: Sequence[Any] = field(metadata=several(RANK))  # how many windows along each coordinate
    steps: Sequence[Any] = field(metadata=several(RANK))  # from one to the next in the input


def whole_windows_text(name: str, kind: str, tells: bool = True) -> Text:
    """The largest of windows that all lie inside the input (`InnerWords`); where, if it `tells`."""
    w = CodeWriter()
    word = InnerWords.read_by(w)
    source, target, places = map(w.pointer, (word.source, word.target, word.at))
    taps = w.at("%args", "i64", w.whole(InnerWords.word_count()))
    table = w.reserve("i64", CHUNK)
    walk = PositionWalk(w, word.sizes, ([w.whole(0), *word.steps],))
    number = "i32" if kind == "f32" else "i64"  # as wide as an element: one mask does for both
    low, high = w.share(word.planes)

    def windows(base: V, first: V, j: V, lanes: int) -> None:
        starts = [w.load(table, "i64", j + lane) for lane in range(lanes)]
        froms = [base + s for s in starts]

        def tap(t: V, best: V, *chosen: V) -> list[V]:
            offset = w.load(taps, "i64", t)
            element = w.gather(source, kind, [f + offset for f in froms])
            here = w.code.splat(offset.convert(number), lanes)
            larger = (element > best) | element.isnan()
            return [select(larger, element, best), *(select(larger, here, c) for c in chosen)]

        lowest, to = w.code.const(float("-inf"), kind, lanes), first + j
        if not tells:
            w.store(w.loop(0, word.tap_count, tap, [lowest])[0], target, to)
            return
        begin = [lowest, w.code.const(0, number, lanes)]
        best, chosen = w.loop(0, word.tap_count, tap, begin)
        w.store(best, target, to)
        start = w.load(table, "i64", j, lanes)
        w.store(chosen.convert("i64") + start, places, to)

    def chunk(first: V) -> None:
        count = w.least(word.windows - first, CHUNK)
        walk.fill((table,), first, count, word.windows)
        whole = count.quotient(w.whole(LANES)) * LANES

        def plane(p: V) -> None:
            base, to = p * word.plane, p * word.windows + first
            w.loop(0, whole, lambda j: windows(base, to, j, LANES), step=LANES)
            w.loop(whole, count, lambda j: windows(base, to, j, 1))

        w.loop(low, high, plane)

    w.loop(0, word.windows, chunk, step=CHUNK)
    return w.finish(name)
