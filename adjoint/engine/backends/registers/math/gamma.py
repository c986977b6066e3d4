"""The logarithm of the gamma function and its derivatives; float32 is computed in float64 lanes.

From 8 on Stirling's series, or its derivative; below, gamma(x + 1) = x gamma(x) leads there, or to
[3/2, 5/2], where a polynomial vanishes at 2 as log gamma does; negative arguments by reflection.
"""

from __future__ import annotations

import math

from adjoint.engine.backends.registers.math import tables
from adjoint.engine.backends.registers.math.common import polynomial, widened
from adjoint.engine.backends.registers.math.logarithm import log
from adjoint.engine.backends.registers.math.trigonometric import cos_inside, sin, sin_inside
from adjoint.engine.backends.registers.vector import V, mad, select, when_any

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


def _raised(x: V, power: int) -> tuple[V, V]:
    """(y, s): y = x + n at least 8, and s = x**-power + (x + 1)**-power + ... to y, left out."""
    top, bottom, y = x.like(0.0), x.like(1.0), x
    for _ in range(8):  # a sum of fractions with one division at the end
        below = y < 8.0
        factor = y if power == 1 else y * y
        top = select(below, mad(top, factor, bottom), top)
        bottom = select(below, bottom * factor, bottom)
        y = select(below, y + 1.0, y)
    return y, top / bottom


@widened
def digamma(x: V) -> V:
    """The derivative of log gamma."""
    negative = x < 0.0
    y, passed = _raised(select(negative, 1.0 - x, x), 1)
    inverse = 1.0 / y
    z = inverse * inverse
    tail = mad(z, polynomial(z, tables.DIGAMMA_F64), inverse * 0.5)
    value = (log(y) - tail) - passed
    (value,) = when_any(negative, lambda: (_turned_digamma(x, value),), (value,))
    return select(x.eq(0.0), (-x).like(INF).copysign(-x), value)


def _turned_digamma(x: V, value: V) -> V:
    """digamma(x) from digamma(1 - x): their difference is pi / tan(pi x)."""
    part = x - x.rint()
    angle = abs(part) * math.pi
    cotangent = (cos_inside(angle) / sin_inside(angle)).copysign(part)
    out = mad(cotangent, -math.pi, value)
    return select(part.eq(0.0), float("nan"), out)


def trigamma(x: V) -> V:
    """The second derivative of log gamma; at its poles the large number that eager gives."""
    pole = (x <= 0.0) & x.floor().eq(x)
    out = _trigamma(x)

    def at_pole() -> tuple[V]:
        quotient = math.pi / sin(x * math.pi)
        return (quotient * quotient,)

    (out,) = when_any(pole, at_pole, (out,))
    return out


@widened
def _trigamma(x: V) -> V:
    negative = x < 0.0
    y, passed = _raised(select(negative, 1.0 - x, x), 2)
    inverse = 1.0 / y
    z = inverse * inverse
    tail = mad(z, mad(inverse, polynomial(z, tables.TRIGAMMA_F64), 0.5), inverse)
    value = tail + passed

    def turned() -> tuple[V]:
        quotient = math.pi / sin_inside(abs(x - x.rint()) * math.pi)
        return (mad(quotient, quotient, -value),)

    (value,) = when_any(negative, turned, (value,))
    return value
