"""Powers of floats.

x**y = 2**(y log2 |x|). The logarithm needs more bits than its kind has, since the exponent
multiplies its error (by up to 1024 in float64), so it is kept as the sum of two.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.registers.math import tables
from adjoint.engine.backends.registers.math.common import fast_two_sum, polynomial, two_product
from adjoint.engine.backends.registers.math.division import integer_power
from adjoint.engine.backends.registers.math.exponential import exp2
from adjoint.engine.backends.registers.math.logarithm import split
from adjoint.engine.backends.registers.vector import V, mad, select

INF = float("inf")
Pair = tuple[V, V]


@dataclass(frozen=True, slots=True)
class Constants:
    """Of a kind, in two parts."""

    two_thirds: tuple[float, float]
    log2_e: tuple[float, float]
    tail: tuple[float, ...]


CONSTANTS = {
    "f32": Constants(tables.TWO_THIRDS_F32, tables.LOG2_E_F32, tables.ATANH2_F32),
    "f64": Constants(tables.TWO_THIRDS_F64, tables.LOG2_E_F64, tables.ATANH2_F64),
}


def power(x: V, y: V) -> V:
    """x**y; a number as exponent that needs no logarithm is multiplied out, as eager does."""
    if not x.is_float:
        return _simple(x, y) or integer_power(x, y)
    return _simple(x, y) or _general(x, y)


def _simple(x: V, y: V) -> V | None:
    match y.number:
        case 1:
            return x
        case 2:
            return x * x
        case 3:
            return x * x * x
        case 0.5 if x.is_float:
            return x.sqrt()
        case -0.5 if x.is_float:
            return 1.0 / x.sqrt()
        case -1 if x.is_float:
            return 1.0 / x
        case -2 if x.is_float:
            return 1.0 / (x * x)
        case _:
            return None


def _general(x: V, y: V) -> V:
    size = abs(x)
    wide = _power_of_size(size, y)
    half = y * 0.5
    whole = y.floor().eq(y)
    odd = whole & half.floor().ne(half) & (abs(y) < INF)
    negative = x.bits() < 0
    out = select(negative & odd, -wide, wide)
    out = select((x < 0.0) & ~whole & (size < INF) & ~y.isnan(), float("nan"), out)
    # 1 to any power and anything to the power 0 are 1, NaN included; so is -1 to an infinite one.
    return select(x.eq(1.0) | y.eq(0.0) | (size.eq(1.0) & abs(y).eq(INF)), 1.0, out)


def _power_of_size(size: V, y: V) -> V:
    high, low = _log2_pair(size)
    product, error = two_product(high, y)
    error = mad(low, y, error)
    plain = abs(product) < 2.0**60  # beyond, the result is 0 or infinite, and errors are NaN
    error = select(plain, error, 0.0)
    total, rest = fast_two_sum(select(plain, product, 0.0), error)
    return exp2(select(plain, total, high * y), rest)


def _log2_pair(x: V) -> Pair:
    """log2 x as a sum of two, to about 2**-66 of it (2**-36 in float32)."""
    of = CONSTANTS[x.kind]
    k, m = split(x)
    f = m - 1.0
    # s = f / (2 + f) and z = s**2, each in two parts; log(1 + f) = 2 s + s z (2/3 + z p(z)).
    d_high, d_low = fast_two_sum(f.like(2.0), f)
    s = f / d_high
    top, bottom = two_product(s, d_high)
    s_low = ((f - top) - bottom - s * d_low) / d_high
    z, z_low = two_product(s, s)
    z_low = mad(s + s, s_low, z_low)
    c, c_low = fast_two_sum(f.like(of.two_thirds[0]), z * polynomial(z, of.tail))
    c_low = c_low + of.two_thirds[1]
    t = _product((z, z_low), (c, c_low))
    t = _product(t, (s, s_low))
    log_high, log_low = fast_two_sum(s + s, t[0])
    log_low = log_low + (mad(s_low, 2.0, t[1]))
    scaled = _product((log_high, log_low), (f.like(of.log2_e[0]), f.like(of.log2_e[1])))
    whole = k.convert(x.kind)
    high, low = fast_two_sum(whole, scaled[0])
    high, low = fast_two_sum(high, low + scaled[1])
    regular = (x > 0.0) & (x < INF)
    special = select(x.eq(0.0), -INF, x)  # infinity and NaN stand for themselves
    return select(regular, high, special), select(regular, low, 0.0)


def _product(a: Pair, b: Pair) -> Pair:
    high, low = two_product(a[0], b[0])
    low = low + mad(a[0], b[1], a[1] * b[0])
    return fast_two_sum(high, low)
