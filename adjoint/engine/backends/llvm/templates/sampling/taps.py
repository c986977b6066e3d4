"""Where the points of a grid lie in an image: the pixels around each, and their weights.

What `ops.image.grid` composes, for one point or for as many as vectors have lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from adjoint.engine.backends.llvm.ir.writer import CodeWriter
from adjoint.engine.backends.registers.math.division import fmod
from adjoint.engine.backends.registers.vector import V, convert, fma, select
from adjoint.engine.ops.image.grid import BICUBIC, BILINEAR, BORDER, NEAREST, REFLECTION, ZEROS

COUNTS = {BILINEAR: 2, NEAREST: 1, BICUBIC: 4}  # pixels along a dimension
CUBIC = -0.75


@dataclass(frozen=True, slots=True)
class Along:
    """A pixel along one dimension."""

    index: V  # -1: outside
    weight: V
    change: V  # of the weight with the grid's number


@dataclass(frozen=True, slots=True)
class Tap:
    """A pixel of an image."""

    offset: V  # from its first pixel; -1: outside
    weight: V
    changes: list[V]  # of the weight with each of the grid's numbers, the fastest dimension's first


@dataclass(frozen=True, slots=True)
class Sampler:
    """How an image is sampled."""

    kind: str
    rank: int
    mode: int
    padding: int
    align: bool

    @property
    def count(self) -> int:
        """Pixels that a sample is made of."""
        return COUNTS[self.mode] ** self.rank

    @property
    def name(self) -> str:
        """Of kernels."""
        align = "aligned" if self.align else "edges"
        return f"{self.kind}_{self.rank}_{self.mode}_{self.padding}_{align}"

    def taps(self, w: CodeWriter, numbers: list[V], sizes: list[V]) -> list[Tap]:
        """The pixels of points; their numbers and the sizes from the fastest dimension on."""
        lines = [self.along(*pair) for pair in zip(numbers, sizes, strict=True)]
        found = []
        for chosen in product(*reversed(lines)):  # the slowest dimension outermost
            offset, weight = w.code.const(0, "i32", numbers[0].lanes), None
            outside = None
            for along, size in zip(chosen, reversed(sizes), strict=True):
                offset = offset * size + along.index
                weight = along.weight if weight is None else weight * along.weight
                gone = along.index < 0
                outside = gone if outside is None else outside | gone
            assert weight is not None
            assert outside is not None
            if self.padding == ZEROS:
                offset = select(outside, -1, offset)
            found.append(Tap(offset, weight, self.changes(chosen)))
        return found

    def changes(self, chosen: tuple[Along, ...]) -> list[V]:
        """How fast a weight changes with each number."""
        found = []
        for d in reversed(range(self.rank)):
            change: V | None = None
            for k, along in enumerate(chosen):
                factor = along.change if k == d else along.weight
                change = factor if change is None else change * factor
            assert change is not None
            found.append(change)
        return found

    def along(self, number: V, size: V) -> list[Along]:
        """The pixels along one dimension."""
        wide = convert(size, self.kind)
        if self.align:
            slope = (wide - 1) * 0.5
            at = (number + 1) * slope
        else:
            slope = wide * 0.5
            more = number + 1
            once = self.kind == "f32"  # rounded once, as `ops.image.grid` has it
            at = (fma(more, wide, -1.0) if once else more * wide - 1) * 0.5
        if self.mode == BICUBIC:
            return self.cubic(at, slope, size, wide)
        at, slope = self.padded(at, slope, wide)
        if self.mode == NEAREST:
            one, none = at.like(1.0), at.like(0.0)
            return [Along(self.inside(at.rint(), size, wide), one, none)]
        below = at.floor()
        t = at - below
        return [
            Along(self.inside(below, size, wide), 1.0 - t, -slope),
            Along(self.inside(below + 1, size, wide), t, slope),
        ]

    def cubic(self, at: V, slope: V, size: V, wide: V) -> list[Along]:
        """Keys' cubic convolution; each of the four pixels is padded on its own."""
        a, below = CUBIC, at.floor()
        t = at - below
        found = []
        for k, s in enumerate((t + 1, t, 1.0 - t, 2.0 - t)):
            if k in (1, 2):
                weight = (s * (a + 2) - (a + 3)) * s * s + 1
                change = (s * (3 * (a + 2)) - 2 * (a + 3)) * s
            else:
                weight = ((s * a - 5 * a) * s + 8 * a) * s - 4 * a
                change = (s * (3 * a) - 10 * a) * s + 8 * a
            place, _ = self.padded(below + (k - 1), slope, wide)
            sign = slope if k < 2 else -slope
            found.append(Along(self.inside(place, size, wide), weight, change * sign))
        return found

    def padded(self, at: V, slope: V, wide: V) -> tuple[V, V]:
        """A place after the padding mode has had its say, and how fast it then moves."""
        if self.padding == REFLECTION:
            at, slope = self.reflected(at, slope, wide)
        if self.padding in (BORDER, REFLECTION):
            last = wide - 1
            moves = (at > 0.0) & (at < last)
            slope = select(moves, slope, 0.0)
            at = select(at <= 0.0, at.like(0.0), select(at >= last, last, at))
        return at, slope

    def reflected(self, at: V, slope: V, wide: V) -> tuple[V, V]:
        """Folded back at the ends."""
        low = 0.0 if self.align else -0.5
        span = wide - 1 if self.align else wide
        away = at - low
        size = abs(away)
        turns = (size / span).floor()
        odd = (turns - (turns * 0.5).floor() * 2).eq(1.0)
        rest = fmod(size, span)
        folded = select(odd, span - rest, rest) + low
        back = select(odd, -slope, slope)
        back = select(away > 0.0, back, select(away < 0.0, -back, 0.0))
        single = span.eq(0.0)
        return select(single, at * 0.0, folded), select(single, back.like(0.0), back)

    def inside(self, place: V, size: V, wide: V) -> V:
        """The number of a pixel: the first where there is no place, -1 outside."""
        last = wide - 1
        near = select(place <= 0.0, place.like(0.0), select(place >= last, last, place))
        nowhere = ~place.eq(place)
        index = convert(select(nowhere, near.like(0.0), near), "i32")
        if self.padding != ZEROS:
            return index
        within = (place >= 0.0) & (place <= last)
        return select(within | nowhere, index, index.like(-1))
