"""Inverses of the circular and hyperbolic functions."""

from __future__ import annotations

import math

from adjoint.engine.backends.registers.math import tables
from adjoint.engine.backends.registers.math.common import FORMAT, polynomial
from adjoint.engine.backends.registers.math.logarithm import log, log1p
from adjoint.engine.backends.registers.vector import V, mad, select

INF = float("inf")
PI = {"f32": tables.PI_F32, "f64": tables.PI_F64}  # in two parts
ASIN = {"f32": tables.ASIN_F32, "f64": tables.ASIN_F64}
ATAN = {"f32": tables.ATAN_F32, "f64": tables.ATAN_F64}


def _arc(x: V) -> V:
    """asin(x) / x - 1 times x, from z = x**2: what |x| <= 1/2 adds to x."""
    z = x * x
    return x * z * polynomial(z, ASIN[z.kind])


def _half_angle(size: V) -> tuple[V, V]:
    """asin(sqrt((1 - size) / 2)) in two parts, for size >= 1/2."""
    z = (1.0 - size) * 0.5
    s = z.sqrt()
    error = select(s.eq(0.0), 0.0, mad(-s, s, z) / (s + s))  # of the square root
    return s, error + s * z * polynomial(z, ASIN[z.kind])


def asin(x: V) -> V:
    """Inverse sine."""
    pi, pi_low = PI[x.kind]
    size = abs(x)
    near = x + _arc(x)
    high, low = _half_angle(size)
    far = (pi / 2 - 2.0 * high) + (pi_low / 2 - 2.0 * low)
    return select(size < 0.5, near, far.copysign(x))


def acos(x: V) -> V:
    """Inverse cosine."""
    pi, pi_low = PI[x.kind]
    size = abs(x)
    near = pi / 2 - (x - (pi_low / 2 - _arc(x)))
    high, low = _half_angle(size)
    twice = 2.0 * high + 2.0 * low
    far = select(x < 0.0, (pi - 2.0 * high) + (pi_low - 2.0 * low), twice)
    return select(size < 0.5, near, far)


def _arctangent(top: V, bottom: V) -> V:
    """atan(top / bottom) for 0 <= top <= bottom, from one division."""
    pi, pi_low = PI[top.kind]
    far = top > bottom * math.tan(math.pi / 8)
    t = select(far, top - bottom, top) / select(far, top + bottom, bottom)
    z = t * t
    tail = t * z * polynomial(z, ATAN[z.kind])
    near = t + tail
    return select(far, pi / 4 + (t + (tail + pi_low / 4)), near)


def atan(x: V) -> V:
    """Inverse tangent."""
    pi, pi_low = PI[x.kind]
    size = abs(x)
    steep = size > 1.0
    one = x.like(1.0)
    shallow = _arctangent(select(steep, one, size), select(steep, size, one))
    return select(steep, pi / 2 - (shallow - pi_low / 2), shallow).copysign(x)


def atan2(y: V, x: V) -> V:
    """The angle of the point (x, y)."""
    pi, pi_low = PI[x.kind]
    up, along = abs(y), abs(x)
    steep = up > along
    top, bottom = select(steep, along, up), select(steep, up, along)
    # Infinities count as equally long; no division by zero; no vanishing quotient.
    both = top.eq(INF)
    top = select(both, 1.0, top)
    bottom = select(both | bottom.eq(0.0), 1.0, bottom)
    huge, tiny = (2.0**100, 2.0**-80) if x.kind == "f32" else (2.0**1000, 2.0**-900)
    step = 2.0**30 if x.kind == "f32" else 2.0**100
    scale = select(bottom > huge, top.like(1 / step), select(bottom < tiny, top.like(step), 1.0))
    angle = _arctangent(top * scale, bottom * scale)
    angle = select(bottom.eq(INF), 0.0, angle)
    behind = x.bits() < 0
    angle = select(steep ^ behind, -angle, angle)
    start = select(steep, x.like(pi / 2), select(behind, x.like(pi), 0.0))
    start_low = select(steep, x.like(pi_low / 2), select(behind, x.like(pi_low), 0.0))
    angle = start + (angle + start_low)
    return select(x.isnan() | y.isnan(), float("nan"), angle.copysign(y))


def asinh(x: V) -> V:
    """Inverse hyperbolic sine."""
    size = abs(x)
    square = size * size
    near = log1p(size + square / (1.0 + (1.0 + square).sqrt()))
    far = log(size) + math.log(2)
    return select(size > 2.0**28, far, near).copysign(x)


def acosh(x: V) -> V:
    """Inverse hyperbolic cosine."""
    t = x - 1.0
    near = log1p(t + (t * (t + 2.0)).sqrt())
    far = log(x) + math.log(2)
    return select(x < 1.0, float("nan"), select(x > 2.0**28, far, near))


def atanh(x: V) -> V:
    """Inverse hyperbolic tangent."""
    size = abs(x)
    twice = size + size
    out = log1p(twice + twice * size / (1.0 - size)) * 0.5
    out = select(size.eq(1.0), INF, out).copysign(x)
    out = select(size > 1.0, float("nan"), out)
    return select(size < FORMAT[x.kind].tiny, x, out)
