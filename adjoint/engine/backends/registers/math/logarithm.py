"""Logarithms: log, log2, log10, log1p, and log2 in two parts for powers.

x = 2**k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), so that f is exact. float32 takes a
polynomial in f; float64 one in s = f / (2 + f), for which log(1 + f) = 2 atanh(s).
"""

from __future__ import annotations

from adjoint.engine.backends.registers.math import tables
from adjoint.engine.backends.registers.math.common import (
    FORMAT,
    fast_two_sum,
    polynomial,
    two_product,
    two_sum,
)
from adjoint.engine.backends.registers.vector import V, mad, select

INF = float("inf")
# Bits of sqrt(1/2), rounded down.
_HALF_ROOT = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCC}
# Constants in two parts; the first ones of ln 2 and log10(2) times k are exact.
_LN2 = {"f32": tables.LN2_F32, "f64": tables.LN2_F64}
_LOG2_E = {"f32": tables.LOG2_E_F32, "f64": tables.LOG2_E_F64}
_LOG10_E = {"f32": tables.LOG10_E_F32, "f64": tables.LOG10_E_F64}
_LOG10_2 = {"f32": tables.LOG10_2_F32, "f64": tables.LOG10_2_F64}


def split(x: V) -> tuple[V, V]:
    """(k, m): x = 2**k m, m in [sqrt(1/2), sqrt(2)), for a positive finite x; k is an integer."""
    f = FORMAT[x.kind]
    small = x < f.tiny
    scale = f.mantissa + 1
    bits = select(small, x * 2.0**scale, x).bits()
    root = _HALF_ROOT[x.kind]
    offset = bits - root
    k = offset >> f.mantissa
    m = (bits - (k << f.mantissa)).bitcast(x.kind)
    return k - select(small, k.like(scale), k.like(0)), m


def with_specials(x: V, y: V) -> V:
    """A logarithm y of x where x is not positive and finite."""
    y = select(x < INF, y, x)  # infinity and NaN are their own logarithms
    y = select(x.eq(0.0), -INF, y)
    return select(x < 0.0, float("nan"), y)


def log_of_sum(f: V) -> V:
    """log(1 + f) - f, for 1 + f in [sqrt(1/2), sqrt(2)]."""
    if f.kind == "f32":
        square = f * f
        return mad(square * f, polynomial(f, tables.LOG_F32), square * -0.5)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return s * (half_square + z * polynomial(z, tables.ATANH_F64)) - half_square


def _combined(k: V, f: V) -> V:
    """k ln 2 + log(1 + f)."""
    high, low = _LN2[f.kind]
    return mad(k, high, mad(k, low, log_of_sum(f)) + f)


def log(x: V) -> V:
    """Natural logarithm."""
    k, m = split(x)
    return with_specials(x, _combined(k.convert(x.kind), m - 1.0))


def log1p(x: V) -> V:
    """log(1 + x), accurate near 0."""
    u, lost = two_sum(x.like(1.0), x)
    k, m = split(u)
    near = k.eq(0)
    f_bits = FORMAT[x.kind]
    # What rounding 1 + x lost (at most 1), scaled as m is.
    scale = -select(k > 100, 100, k)
    part = lost * ((scale + f_bits.bias) << f_bits.mantissa).bitcast(x.kind)
    f = select(near, x, (m - 1.0) + part)
    y = _combined(k.convert(x.kind), f)
    y = select(abs(x) < f_bits.tiny, x, y)  # and -0 stays -0
    y = select(x < INF, y, x)
    y = select(x.eq(-1.0), -INF, y)
    return select(x < -1.0, float("nan"), y)


def _in_base(x: V, unit: tuple[float, float], per_octave: tuple[float, float]) -> V:
    """log(x) times a unit (in two parts), with k octaves of a given size (in two parts)."""
    k, m = split(x)
    f = m - 1.0
    kf = k.convert(x.kind)
    # log(1 + f) as a sum of two, times the unit.
    high, low = fast_two_sum(f, log_of_sum(f))
    product, error = two_product(high, x.like(unit[0]))
    error = mad(low, unit[0], mad(high, unit[1], error))
    total, rest = fast_two_sum(kf * per_octave[0], product)
    return with_specials(x, total + (rest + mad(kf, per_octave[1], error)))


def log2(x: V) -> V:
    """Logarithm to base 2."""
    return _in_base(x, _LOG2_E[x.kind], (1.0, 0.0))


def log10(x: V) -> V:
    """Logarithm to base 10."""
    return _in_base(x, _LOG10_E[x.kind], _LOG10_2[x.kind])
