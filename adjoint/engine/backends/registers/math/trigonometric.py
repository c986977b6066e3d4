"""Sine, cosine and tangent.

x = n pi/2 + r, |r| <= pi/4. Up to a limit n times the parts of pi/2 is exact and r comes out of
subtractions; beyond, x times the bits of 2/pi that matter is formed (Payne and Hanek): bits whose
product is a multiple of 4 turns nothing and are left out.
"""

from __future__ import annotations

import math

from adjoint.engine.backends.registers.math import tables
from adjoint.engine.backends.registers.math.angles import huge_angle
from adjoint.engine.backends.registers.math.common import fast_two_sum, polynomial, two_sum
from adjoint.engine.backends.registers.vector import V, mad, select, when_any

TWO_OVER_PI = 0.6366197723675814
# Above these the quotient n has too many bits for the products to be exact.
LIMIT = {"f32": 6000.0, "f64": 1.0e6}


def sin(x: V) -> V:
    """Sine."""
    if x.code.features.device:
        return x.code.call("sin", x.kind, x)
    return _turned(x, 0)


def cos(x: V) -> V:
    """Cosine."""
    if x.code.features.device:
        return x.code.call("cos", x.kind, x)
    return _turned(x, 1)


def tan(x: V) -> V:
    """Tangent, the quotient of both."""
    if x.code.features.device:
        return x.code.call("tan", x.kind, x)
    if x.kind == "f32":
        return tan(x.convert("f64")).convert("f32")
    n, r, low = _reduced(x)
    sine, cosine = _sine(r, low), _cosine(r, low)
    odd = (n & 1).ne(0)
    top = select(odd, cosine, sine)
    bottom = select(odd, -sine, cosine)
    return _finite(x, select(x.eq(0.0), x, top / bottom))


def sin_inside(x: V) -> V:
    """sin(x) in float64 for 0 <= x <= pi/2."""
    far = x > math.pi / 4
    zero = x.like(0.0)
    other = (tables.PI_F64[0] / 2 - x) + tables.PI_F64[1] / 2
    return select(far, _cosine(other, zero), _sine(x, zero))


def cos_inside(x: V) -> V:
    """cos(x) in float64 for 0 <= x <= pi/2."""
    far = x > math.pi / 4
    zero = x.like(0.0)
    other = (tables.PI_F64[0] / 2 - x) + tables.PI_F64[1] / 2
    return select(far, _sine(other, zero), _cosine(x, zero))


def _turned(x: V, quarter: int) -> V:
    """sin(x + quarter * pi/2)."""
    n, r, low = _reduced(x)
    if quarter:
        n = n + quarter
    odd = (n & 1).ne(0)
    value = select(odd, _cosine(r, low), _sine(r, low))
    width = 31 if x.kind == "f32" else 63
    flip = (n & 2) << (width - 1)
    out = (value.bits() ^ flip).bitcast(x.kind)
    if not quarter:
        out = select(x.eq(0.0), x, out)
    return _finite(x, out)


def _finite(x: V, y: V) -> V:
    return select(abs(x) < float("inf"), y, float("nan"))


def _sine(r: V, low: V | None) -> V:
    """sin(r + low)."""
    z = r * r
    cubic = r * z
    if low is None:
        return mad(cubic, polynomial(z, tables.SIN_F32), r)
    tail = cubic * polynomial(z, tables.SIN_F64)
    return r + (tail + mad(z * low, -0.5, low))


def _cosine(r: V, low: V | None) -> V:
    """cos(r + low)."""
    z = r * r
    if low is None:
        return mad(z * z, polynomial(z, tables.COS_F32), mad(z, -0.5, 1.0))
    half = z * 0.5
    high = 1.0 - half
    rest = (1.0 - high) - half
    return high + (rest + mad(z * z, polynomial(z, tables.COS_F64), -(r * low)))


def _reduced(x: V) -> tuple[V, V, V | None]:
    """(n, r, low): x = n pi/2 + r + low; float32 has no need of the low part."""
    if x.kind == "f32":
        return _reduced_f32(x)
    magic = 1.5 * 2.0**52
    rounded = mad(x, TWO_OVER_PI, magic)
    n = rounded - magic
    r, low = _subtracted(x, n)
    huge = abs(x) > LIMIT["f64"]
    n, r, low = when_any(huge, lambda: huge_angle(x), (rounded.bits(), r, low))
    return n, r, low


def _subtracted(x: V, n: V) -> tuple[V, V]:
    """x - n pi/2 in two parts."""
    a, b, c, d = tables.HALF_PI_F64
    r = mad(n, -a, x)  # exact: the product has 53 bits, and they cancel
    high, low = two_sum(r, n * -b)
    high, more = two_sum(high, n * -c)
    return fast_two_sum(high, low + mad(n, -d, more))


def _reduced_f32(x: V) -> tuple[V, V, None]:
    magic = 1.5 * 2.0**23
    rounded = mad(x, TWO_OVER_PI, magic)
    n = rounded - magic
    r = x
    for part in tables.HALF_PI_F32_FUSED if x.code.features.fused else tables.HALF_PI_F32:
        r = mad(n, -part, r)
    n, r = when_any(abs(x) > LIMIT["f32"], lambda: _huge_f32(x), (rounded.bits(), r))
    return n, r, None


def _huge_f32(x: V) -> tuple[V, V]:
    n, r, _ = huge_angle(x.convert("f64"))
    return n.convert("i32"), r.convert("f32")
