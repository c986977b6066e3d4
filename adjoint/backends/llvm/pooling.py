"""The kernel of max pooling: the largest of each window, and where it is."""

from __future__ import annotations

from collections.abc import Callable

from adjoint.backends.llvm.library import Text
from adjoint.backends.llvm.vector import V, select
from adjoint.backends.llvm.walks import RANK
from adjoint.backends.llvm.writer import Writer

LANES = 8  # windows at a time

FROM, TO, AT, PLANES, LEFT, RIGHT = range(6)  # all taps of windows LEFT to RIGHT are inside
DIMS = 6  # for each dimension the words of `Window`
SOURCE, SIZE, EXTENT, STEP, OFFSET, DILATION, ADAPTIVE, DIM_WORDS = range(8)
WORDS = DIMS + RANK * DIM_WORDS


class Window:
    """The windows along one dimension."""

    def __init__(self, w: Writer, words: list[V]) -> None:
        self.w = w
        self.source, self.size, self.extent = words[SOURCE], words[SIZE], words[EXTENT]
        self.step, self.offset, self.dilation = words[STEP], words[OFFSET], words[DILATION]
        self.adaptive = words[ADAPTIVE].ne(0)

    def taps(self, o: V) -> tuple[V, V, V]:
        """Where a window begins, and the first and last of its taps that are inside."""
        w = self.w
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
    """Writes the kernel; its words are named above. Input and results are in row-major order."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.w = w = Writer()
        self.word = w.words(WORDS)
        self.source, self.target, self.at = (w.pointer(self.word[k]) for k in (FROM, TO, AT))
        self.dims = [Window(w, self.word[DIMS + d * DIM_WORDS :]) for d in range(RANK)]

    def text(self, name: str) -> Text:
        w = self.w
        deep, high, _ = self.dims
        low, stop = w.share(self.word[PLANES] * deep.size)

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
        left, right = self.word[LEFT], self.word[RIGHT]
        whole = left + w.most(right - left, 0).quotient(w.whole(LANES)) * LANES

        def one(x: V) -> None:
            self.windows(source, zs, ys, wide.taps(x), to + x, 1)

        def many(x: V) -> None:
            start = x * wide.step + wide.offset
            self.windows(source, zs, ys, (start, w.whole(0), wide.extent), to + x, LANES)

        w.loop(0, left, one)
        w.loop(left, whole, many, step=LANES)
        w.loop(whole, wide.size, one)

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
        deep, high, wide = self.dims
        rows = wide.source * high.source

        def place(t: tuple[V, V, V]) -> V:
            z, y, x = t
            return (zs[0] + z * deep.dilation) * rows + (
                (ys[0] + y * high.dilation) * wide.source + xs[0] + x * wide.dilation
            )

        def better(z: V, y: V, x: V, best: V, at: V) -> list[V]:
            here = place((z, y, x))
            found = self.load(source, here, lanes)
            larger = (found > best) | found.isnan()
            return [select(larger, found, best), select(larger, w.code.splat(here, lanes), at)]

        lowest = w.code.const(float("-inf"), kind, lanes)
        start = w.code.splat(place((zs[1], ys[1], xs[1])), lanes)
        best, at = self.nested((zs, ys, xs), better, [lowest, start])
        w.store(best, self.target, to)
        steps = w.code.splat(wide.step, lanes) * w.code.iota("i64", lanes)
        w.store(at + steps if lanes > 1 else at, self.at, to)

    def nested(
        self, taps: tuple[tuple[V, V, V], ...], body: Callable[..., list[V]], carried: list[V]
    ) -> list[V]:
        """Loops over the taps of all dimensions."""
        w = self.w

        def level(rest: tuple[tuple[V, V, V], ...], at: list[V], values: list[V]) -> list[V]:
            if not rest:
                return body(*at, *values)
            _, low, high = rest[0]
            return w.loop(low, high, lambda t, *v: level(rest[1:], [*at, t], list(v)), values)

        return level(taps, [], carried)

    def load(self, source: str, here: V, lanes: int) -> V:
        w = self.w
        if lanes == 1:
            return w.load(source, self.kind, here)
        step = self.dims[2].step
        return w.gather(source, self.kind, [here + step * k for k in range(lanes)])


def max_pool_text(name: str, kind: str) -> Text:
    """The kernel of max pooling for a kind of float."""
    return MaxPool(kind).text(name)
