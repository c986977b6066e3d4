"""Quotients by numbers that are known when code is written, without the processor's division.

Note [known divisors]
    1 / c is taken as two numbers of the kind, high + low: high is cut off towards zero, so that
    both have the sign of c. The quotient is fma(x, high, x * low), two instructions where a
    division takes as long as eight. It has the bits of x / c for every x, or is not used:

    - Zeros, infinities and NaN go through both products with the sign they should have; what
      overflows does so in the one rounding at the end, as the quotient would.
    - Elsewhere, with p bits in a mantissa and x and c from 1 to 2, the error before that rounding
      is at most 2**(2 - 2p): three quarters by what low leaves, one by the rounding of x * low. So
      the result can differ only where x / c lies that near to the middle of two numbers. With X and
      C as whole mantissas and M / 2 in the middle such an x solves X 2**k - C M = j, with k = p and
      |j| < 4 from c on and k = p + 1 and |j| < 8 below it, which a handful of numbers do.
      `proved_parts` tries them all, in whole numbers, when the code is written.
    - Where x * low or the quotient would be subnormal, digits are lost. Vectors that hold so small
      an element, but for zeros, are divided by the processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import frexp, isfinite, ldexp

from adjoint.engine.backends.registers.math.common import FORMAT
from adjoint.engine.backends.registers.vector import (
    V,
    either,
    fma,
    least_of,
    select,
    to_float32,
    when_any,
    width,
)

# Exponents of divisors within which nothing but x itself makes a step leave the range of numbers.
_REACH = {"f32": 40, "f64": 400}
_SMALLEST_FLOAT16 = 2.0**-24


@dataclass(frozen=True, slots=True)
class InverseParts:
    """1 / c as a sum of two numbers, and from which size of x on they give its quotient."""

    high: float
    low: float
    least: float


def quotient(x: V, y: V) -> V:
    """x / y in one rounding."""
    inverse = _inverse_of(y) if x.is_float and x.lanes > 1 and x.code.features.fused else None
    if inverse is None:
        return x / y
    if inverse.low == 0.0:
        return x * inverse.high
    if _reaches(x, inverse.least):
        return fma(x, inverse.high, x * inverse.low)
    if not x.code.branching:
        return x / y
    usual = fma(x, inverse.high, x * inverse.low)
    order, bound = _sizes(x, inverse.least)
    if not (x.code.features.folds and x.kind == "f32"):
        return when_any(order < bound, lambda: (x / y,), (usual,))[0]

    def divided() -> tuple[V]:  # the select keeps LLVM from computing both sides always
        return (select(order < bound, x / y, usual),)

    return either(least_of(order) < bound, divided, (usual,))[0]


def _sizes(x: V, power: float) -> tuple[V, int]:
    """Signed integers in the order of absolute values, but zero above all; and a power of two."""
    f = FORMAT[x.kind]
    # Twice the bits are without the sign; one less is the largest of unsigned numbers, of zero.
    lowest = -(1 << (width(x.kind) - 1))
    bits = (frexp(power)[1] - 1 + f.bias) << (f.mantissa + 1)
    return (x.bits() << 1) + (lowest - 1), bits + lowest - 1


def _reaches(x: V, least: float) -> bool:
    """Whether elements are known to be zero or at least so large: float16 has no smaller ones."""
    return x.code.words.get(x.ref, ("",))[0] == "float16" and least <= _SMALLEST_FLOAT16


def _inverse_of(y: V) -> InverseParts | None:
    if y.number is None or type(y.number) not in (int, float, bool):
        return None  # a number of sizes is not known yet
    try:
        number = float(y.number)
    except OverflowError:
        return None
    return inverse_of(to_float32(number) if y.kind == "f32" else number, y.kind)


@cache
def inverse_of(c: float, kind: str) -> InverseParts | None:
    """What to multiply by in place of a division by c, None where that is not proved."""
    if not isfinite(c) or c == 0.0 or abs(frexp(c)[1]) > _REACH[kind]:
        return None
    f = FORMAT[kind]
    mantissa, exponent = frexp(abs(c))
    if mantissa == 0.5:
        return InverseParts(1.0 / c, 0.0, 0.0)
    precision = f.mantissa + 1
    parts = proved_parts(int(ldexp(mantissa, precision)), precision)
    if parts is None:
        return None
    # They are of a divisor from 1 to 2: brought to the power of two of this one, and its sign.
    high = ldexp(parts[0], 1 - exponent - precision)
    low = ldexp(parts[1], 1 - exponent - 3 * precision)
    # From here on x * low and the quotient are normal numbers, with a power of two to spare.
    least = f.tiny * max(ldexp(1.0, 2 - frexp(low)[1]), ldexp(1.0, exponent + 1))
    if least > ldexp(1.0, -_REACH[kind]):
        return None
    return InverseParts(high, low, least) if c > 0 else InverseParts(-high, -low, least)


def proved_parts(whole: int, precision: int) -> tuple[int, int] | None:
    """1 / c as high / 2**p + low / 2**(3 p), by which every mantissa has its quotient by c.

    c is whole / 2**(p - 1), from 1 to 2 and no power of two; p is the precision. What is left of
    the inverse is rounded to the nearest number, or to one beside that where there it fails.
    """
    high, left = divmod(1 << (2 * precision - 1), whole)
    exact = (left << (2 * precision)) // whole
    nearest, unit = rounded(exact | 1, precision), 1 << max(exact.bit_length() - precision, 0)
    cases = _hard_cases(whole, precision)
    for low in (nearest, nearest + unit, nearest - unit):
        low = rounded(low, precision)
        if low > 0 and all(_is_right(x, whole, high, low, precision) for x in cases):
            return high, low
    return None


def _is_right(x: int, whole: int, high: int, low: int, precision: int) -> bool:
    """Whether a mantissa's quotient has the right bits; all numbers are scaled to be whole."""
    total = (x * high << (2 * precision)) + rounded(x * low, precision)
    quotient, left = divmod(x << (4 * precision - 1), whole)
    return rounded(total, precision) == rounded(quotient | (left > 0), precision)


def rounded(n: int, precision: int) -> int:
    """A whole number rounded to so many leading bits, ties to even."""
    shift = max(n.bit_length() - precision, 0)
    kept, left = n >> shift, n & ((1 << shift) - 1)
    half = (1 << shift) >> 1
    return (kept + (left > half or (left == half != 0 and kept & 1))) << shift


def _hard_cases(whole: int, precision: int) -> list[int]:
    """All mantissas whose quotient lies nearer to the middle of two numbers than errors reach."""
    twos = (whole & -whole).bit_length() - 1
    odd = whole >> twos
    found = []
    # At and above c the quotient is from 1 to 2, below it from 1/2 to 1, with a bit more.
    for bits, most, first, last in (
        (precision, 4, whole, 1 << precision),
        (precision + 1, 8, 1 << (precision - 1), whole),
    ):
        turn = 1 << (bits - twos)
        inverse = pow(odd, -1, turn)
        for j in range(-most, most + 1):
            if j % (1 << twos) or not (j >> twos) & 1:  # the middle is an odd number of halves
                continue
            start = (-(j >> twos) * inverse) % turn
            for middle in range(start, 1 << (precision + 1), turn):
                x = (whole * middle + j) >> bits
                if middle >> precision and first <= x < last:
                    found.append(x)
    return found
