"""The logarithm of the gamma function; float32 is computed in float64 lanes.

From 8 on Stirling's series; below, gamma(x + 1) = x gamma(x) leads to [3/2, 5/2], where a
polynomial vanishes at 2 as the function does; negative arguments by reflection.
"""

from __future__ import annotations

import math

from adjoint.backends.llvm.math import tables
from adjoint.backends.llvm.math.common import polynomial, widened
from adjoint.backends.llvm.math.logarithm import log
from adjoint.backends.llvm.math.trigonometric import sin_inside
from adjoint.backends.llvm.vector import V, mad, select, when_any

INF = float("inf")
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


@widened
def lgamma(x: V) -> V:
    """log |gamma(x)|."""
    negative = x < 0.0
    size = select(negative, 1.0 - x, x)
    value = _positive(size)
    (value,) = when_any(negative, lambda: (_reflected(x, value),), (value,))
    return select(abs(x).eq(INF), INF, value)


def _positive(x: V) -> V:
    """log gamma(x) for x >= 0."""
    # Up into [3/2, 5/2): x (x + 1) divides; down: (x - 1) (x - 2) ... multiplies.
    low, lower = x < 1.5, x < 0.5
    factor = select(lower, x * (x + 1.0), select(low, x, 1.0))
    y = x
    for _ in range(6):
        above = y >= 2.5
        y = select(above, y - 1.0, y)
        factor = select(above, factor * y, factor)
    far = x >= 8.0
    logarithm = log(select(far, x, factor))
    t = select(lower, x, select(low, x - 1.0, y - 2.0))  # exact near the zeros at 1 and 2
    core = t * polynomial(t, tables.LGAMMA_F64)
    near = core + select(low, -logarithm, logarithm)
    inverse = 1.0 / x
    series = mad(inverse, polynomial(inverse * inverse, tables.STIRLING_F64), HALF_LOG_TAU)
    stirling = mad(x - 0.5, logarithm - 1.0, series - 0.5)
    return select(far, stirling, near)


def _reflected(x: V, value: V) -> V:
    """log |gamma(x)| for x < 0 from log gamma(1 - x): gamma(x) gamma(1 - x) = pi / sin(pi x)."""
    part = abs(x - x.rint())  # at most 1/2; 0 at the poles
    tiny = part < 1e-150  # sin(pi part) = pi part, whose product may be subnormal
    sine = select(tiny, part, sin_inside(part * math.pi))
    out = (select(tiny, x.like(0.0), math.log(math.pi)) - log(sine)) - value
    return select(part.eq(0.0), INF, out)
