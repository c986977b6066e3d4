"""A line search for the strong Wolfe conditions: enough descent, and a flat enough slope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adjoint.engine.tensor.tensor import Tensor

DESCENT, FLATNESS = 1e-4, 0.9  # the constants c1 and c2 of Nocedal and Wright


@dataclass(frozen=True, slots=True)
class LinePoint:
    """A place on the line: step, value, gradient, slope along the line."""

    t: Any
    value: float
    gradient: Tensor
    slope: Any


def cubic_minimum(a: LinePoint, b: LinePoint, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with their slopes is least, kept within bounds."""
    if a.t > b.t:
        a, b = b, a
    low, high = bounds if bounds is not None else (a.t, b.t)
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square**0.5
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(t, low), high)


class StrongWolfe:
    """Searches along `direction` from a start; `evaluate(t)` gives value and gradient there."""

    def __init__(
        self,
        evaluate: Callable[[Any], tuple[float, Tensor]],
        direction: Tensor,
        start: LinePoint,
        *,
        tolerance: float = 1e-9,
        limit: int = 25,
    ) -> None:
        self.evaluate = evaluate
        self.direction = direction
        self.start = start
        self.tolerance = tolerance
        self.limit = limit
        self.evaluations = 0
        self.rounds = 0

    def at(self, t: Any) -> LinePoint:
        """Evaluate a step."""
        self.evaluations += 1
        value, gradient = self.evaluate(t)
        return LinePoint(t, value, gradient, gradient.dot(self.direction).item())

    def too_high(self, p: LinePoint) -> bool:
        """Whether a point has not come down enough."""
        return bool(p.value > self.start.value + DESCENT * p.t * self.start.slope)

    def flat(self, p: LinePoint) -> bool:
        """Whether the slope at a point is small enough."""
        return bool(abs(p.slope) <= -FLATNESS * self.start.slope)

    def run(self, t: Any) -> LinePoint:
        """The point found from a first guess."""
        low, high = self.bracket(t)
        return low if high is None else self.zoom(low, high)

    def bracket(self, t: Any) -> tuple[LinePoint, LinePoint | None]:
        """Two points around an acceptable one, or that one itself."""
        before, here = self.start, self.at(t)
        while self.rounds < self.limit:
            if self.too_high(here) or (self.rounds > 1 and here.value >= before.value):
                return before, here
            if self.flat(here):
                return here, None
            if here.slope >= 0:
                return before, here
            bounds = (here.t + 0.01 * (here.t - before.t), here.t * 10)
            before, here = here, self.at(cubic_minimum(before, here, bounds))
            self.rounds += 1
        return self.start, here

    def zoom(self, a: LinePoint, b: LinePoint) -> LinePoint:
        """Narrow a bracket to an acceptable point."""
        ends = [a, b]
        low, high = (0, 1) if a.value <= b.value else (1, 0)
        reach = self.direction.abs().max().item()
        stuck = False
        while self.rounds < self.limit:
            first, last = sorted((ends[0].t, ends[1].t))
            if (last - first) * reach < self.tolerance:
                break
            t = cubic_minimum(ends[0], ends[1])
            margin = 0.1 * (last - first)
            if min(last - t, t - first) < margin:  # too near an end
                if stuck or t >= last or t <= first:
                    t = last - margin if abs(t - last) < abs(t - first) else first + margin
                    stuck = False
                else:
                    stuck = True
            else:
                stuck = False
            here = self.at(t)
            self.rounds += 1
            if self.too_high(here) or here.value >= ends[low].value:
                ends[high] = here
                low, high = (0, 1) if ends[0].value <= ends[1].value else (1, 0)
                continue
            if self.flat(here):
                ends[low] = here
                break
            if here.slope * (ends[high].t - ends[low].t) >= 0:
                ends[high] = ends[low]
            ends[low] = here
        return ends[low]
