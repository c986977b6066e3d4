"""Exponentials and what is one exponential away: exp, exp2, expm1, sigmoid, tanh, sinh, cosh.

e**x = 2**n e**r with n the integer nearest x / ln 2. Adding 1.5 * 2**(mantissa bits) to x / ln 2
rounds it to that integer and leaves n in the low bits of the sum, to which the exponent's bias is
added beforehand, or twice the bias: halves of those bits are then the exponents of two factors
whose product is 2**n, also where 2**n alone is subnormal or infinite. Where one instruction
multiplies by a power of two (`scaling.py`), that takes its place, with the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.registers.math import tables
from adjoint.engine.backends.registers.math.common import FORMAT, polynomial
from adjoint.engine.backends.registers.math.scaling import scaled, scales
from adjoint.engine.backends.registers.vector import V, at_least, at_most, clip, mad, select

LOG2_E = tables.LOG2_E_F64[0]


@dataclass(frozen=True, slots=True)
class Range:
    """Where exp is neither 0 nor infinite, and ln 2 in two parts whose first times n is exact."""

    low: float
    high: float
    ln2: tuple[float, float]
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    exp2: tuple[float, ...]
    exp2_low: float
    exp2_high: float


RANGE = {
    "f32": Range(
        low=-104.0, high=89.0,
        ln2=tables.LN2_F32,
        exp=tables.EXP_F32, expm1=tables.EXPM1_F32, exp2=tables.EXP2_F32,
        exp2_low=-151.0, exp2_high=128.0,
    ),
    "f64": Range(
        low=-746.0, high=710.0,
        ln2=tables.LN2_F64,
        exp=tables.EXP_F64, expm1=tables.EXPM1_F64, exp2=tables.EXP2_F64,
        exp2_low=-1076.0, exp2_high=1024.0,
    ),
}  # fmt: skip


def _magic(kind: str, more: int) -> float:
    return 1.5 * 2.0 ** FORMAT[kind].mantissa + more


def _reduced(x: V, more: int) -> tuple[V, V]:
    """(sum, r): x = n ln 2 + r, with n + more in the low bits of the sum."""
    of, magic = RANGE[x.kind], _magic(x.kind, more)
    rounded = mad(x, LOG2_E, magic)
    n = rounded - magic
    r = mad(n, -of.ln2[1], mad(n, -of.ln2[0], x))
    return rounded, r


def _power(word: V, kind: str) -> V:
    """2**n, for a word with n + bias in its low bits."""
    return (word << FORMAT[kind].mantissa).bitcast(kind)


def _scaled(y: V, rounded: V) -> V:
    """y 2**n, for a sum with n + twice the bias in its low bits."""
    if scales(y):
        return scaled(y, rounded - _magic(y.kind, 2 * FORMAT[y.kind].bias))
    word = rounded.bits()
    half = word >> 1
    return y * _power(half, y.kind) * _power(word - half, y.kind)


def _within(x: V, low: float, high: float) -> V:
    """x kept where results are neither 0 nor infinite; below `_vanishing` makes them 0."""
    below = x.code.features.slow_underflow and scales(x)  # 0 stays 0, times any power of two
    return at_most(x, high) if below else clip(x, low, high)


def _vanishing(x: V, low: float, y: V) -> V:
    """y, or 0 where x is so low that y 2**n is 0: no product is then below all normal numbers."""
    return select(x < low, 0.0, y) if x.code.features.slow_underflow else y


def exp(x: V, shift: int = 0) -> V:
    """e**x, times 2**shift without overflow on the way; shift is 0 or -1."""
    of, twice = RANGE[x.kind], 2 * FORMAT[x.kind].bias
    rounded, r = _reduced(_within(x, of.low, of.high + (1 if shift else 0)), twice + shift)
    y = mad(r * r, polynomial(r, of.exp), r) + 1.0
    return _scaled(_vanishing(x, of.low, y), rounded)


def _shifted_exp(x: V, shift: int) -> V:
    """e**x 2**shift, for x from RANGE's low to 0 and a shift that makes none subnormal.

    For what is less it is any number.
    """
    rounded, r = _reduced(x, FORMAT[x.kind].bias + shift)
    return (mad(r * r, polynomial(r, RANGE[x.kind].exp), r) + 1.0) * _power(rounded.bits(), x.kind)


def exp_of_negative(x: V) -> V:
    """e**x for x <= 0, by one factor less than any x needs."""
    shift, low = FORMAT[x.kind].bias // 2, RANGE[x.kind].low
    if x.code.features.slow_underflow:
        return select(x < low, 0.0, _shifted_exp(x, shift)) * 2.0**-shift
    return _shifted_exp(at_least(x, low), shift) * 2.0**-shift


def exp2(x: V, low: V | None = None) -> V:
    """2**(x + low), for a low below half a unit of the last place of x."""
    of, magic = RANGE[x.kind], _magic(x.kind, 2 * FORMAT[x.kind].bias)
    if low is not None:
        low = select((x > of.exp2_low) & (x <= of.exp2_high), low, 0.0)
    kept = _within(x, of.exp2_low, of.exp2_high)
    rounded = kept + magic
    r = kept - (rounded - magic)
    if low is not None:
        r = r + low
    y = mad(r, polynomial(r, of.exp2), 1.0)
    return _scaled(_vanishing(x, of.exp2_low, y), rounded)


def expm1(x: V) -> V:
    """e**x - 1, accurate near 0."""
    of, f = RANGE[x.kind], FORMAT[x.kind]
    # 2**(n - 1), since 2**n may be infinite where the result is not.
    rounded, r = _reduced(clip(x, -50.0, of.high), f.bias - 1)
    p, half = mad(r * r, polynomial(r, of.expm1), r), _power(rounded.bits(), x.kind)
    return (mad(p, half, half - 0.5) * 2.0).copysign(x)


def _expm1_inside(x: V) -> V:
    """expm1 for 0 <= x well below overflow."""
    of, f = RANGE[x.kind], FORMAT[x.kind]
    rounded, r = _reduced(x, f.bias)
    p, power = mad(r * r, polynomial(r, of.expm1), r), _power(rounded.bits(), x.kind)
    return mad(p, power, power - 1.0)


def tanh(x: V) -> V:
    """Hyperbolic tangent, t / (t + 2) with t = e**(2 |x|) - 1."""
    size = at_most(abs(x), 10.0 if x.kind == "f32" else 22.0)
    t = _expm1_inside(size + size)
    return (t / (t + 2.0)).copysign(x)


def sigmoid(x: V) -> V:
    """1 / (1 + e**-x), from e**-|x| so that neither tail is lost.

    Both sides of the quotient have a factor 2**shift: no power on the way is subnormal.
    """
    shift = FORMAT[x.kind].bias // 2
    one, z = 2.0**shift, _shifted_exp(-at_most(abs(x), -RANGE[x.kind].low), shift)
    return select(x < 0.0, z, one) / (z + one)


def sinh(x: V) -> V:
    """Hyperbolic sine."""
    size = abs(x)
    t = expm1(at_most(size, 40.0))
    near = (t + t / (t + 1.0)) * 0.5
    return select(size > 40.0, exp(size, -1), near).copysign(x)


def cosh(x: V) -> V:
    """Hyperbolic cosine."""
    half = exp(abs(x), -1)
    return half + 0.25 / half
