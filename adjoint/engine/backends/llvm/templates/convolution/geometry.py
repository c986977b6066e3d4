"""Convolutions as sums over taps: where each tap of each position lies.

Note [phases]
    A convolution's result at position j takes x at j stride + k dilation - low for each tap k. The
    transposed one's, at s, takes g at (s + low - k dilation) / stride where that is whole: for
    positions of one remainder by the stride (a phase) these are always the same taps, one step
    apart. So both are sums over positions j of x at start + j step + tap, and a transposed
    convolution is one such sum for each phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.templates.convolution.walks import RANK
from adjoint.engine.compiler.memory.places import Place

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One dimension of one phase: result positions and the input's, and taps (k, offset)."""

    count: int
    to_start: int
    to_step: int
    start: int
    step: int
    taps: tuple[tuple[int, int], ...]

    @property
    def low(self) -> int:
        """The lowest input position, counted from the input's first."""
        return self.start + min((t for _, t in self.taps), default=0)

    @property
    def high(self) -> int:
        """The highest."""
        highest = max((t for _, t in self.taps), default=0)
        return self.start + (self.count - 1) * self.step + highest


Phase = tuple[Line, ...]


def spread(shape: Shape, last: int = 1) -> Shape:
    """Sizes of RANK coordinates from those of fewer."""
    return (last,) * (RANK - len(shape)) + tuple(shape)


def forward_phases(params: dict[str, Any], kernel: Shape, counts: Shape) -> list[Phase]:
    """The one phase of a convolution."""
    geometry = zip(params["stride"], params["padding"], params["dilation"], strict=True)
    lines = [
        Line(n, 0, 1, -low, s, tuple((k, k * d) for k in range(extent)))
        for (s, (low, _), d), extent, n in zip(geometry, kernel, counts, strict=True)
    ]
    return [tuple(lines)]


def transposed_phases(params: dict[str, Any], kernel: Shape, sizes: Shape) -> list[Phase]:
    """The phases of a transposed convolution: Note [phases]."""
    geometry = zip(params["stride"], params["padding"], params["dilation"], strict=True)
    by_dim: list[list[Line]] = []
    for (s, (low, _), d), extent, size in zip(geometry, kernel, sizes, strict=True):
        lines = []
        for p in range(min(s, size)):
            positions = [(k, p + low - k * d) for k in range(extent)]
            taps = tuple((k, at // s) for k, at in positions if at % s == 0)
            lines.append(Line(-(-(size - p) // s), p, s, 0, 1, taps))
        by_dim.append(lines)
    return list(product(*by_dim))


def input_bounds(phases: list[Phase]) -> list[tuple[int, int]]:
    """The lowest and highest input position of all phases, by dimension."""
    used = [phase for phase in phases if all(line.taps for line in phase)]
    if not used:
        return [(0, 0)] * len(phases[0])
    return [
        (min(x.low for x in lines), max(x.high for x in lines)) for lines in zip(*used, strict=True)
    ]


def tap_offsets(
    phase: Phase, weight: Shape | None = None, source: Shape | None = None
) -> list[tuple[int, int]]:
    """For each tap of a phase its offset in the weights and in the input, of these strides."""
    none = (0,) * len(phase)
    weight, source = weight or none, source or none
    return [
        (
            sum(k * s for (k, _), s in zip(tap, weight, strict=True)),
            sum(t * s for (_, t), s in zip(tap, source, strict=True)),
        )
        for tap in product(*(line.taps for line in phase))
    ]


def positions(phase: Phase, examples: int) -> int:
    """How many positions a phase has."""
    return examples * prod(line.count for line in phase)


def steps_from(phase: Phase, place: Place) -> tuple[int, list[int]]:
    """Where in the input a phase begins, and its steps there: example, coordinates."""
    inner = place.strides[2:]
    start = sum(line.start * s for line, s in zip(phase, inner, strict=True))
    steps = [line.step * s for line, s in zip(phase, inner, strict=True)]
    return place.offset + start, [place.strides[0], *spread(tuple(steps), 0)]


def steps_to(phase: Phase, place: Place) -> tuple[int, list[int]]:
    """Where in the result a phase begins, and its steps there."""
    inner = place.strides[2:]
    start = sum(line.to_start * s for line, s in zip(phase, inner, strict=True))
    steps = [line.to_step * s for line, s in zip(phase, inner, strict=True)]
    return place.offset + start, [place.strides[0], *spread(tuple(steps), 0)]
