"""What the elementary functions share: polynomials, powers of two, sums and products kept whole.

Note [accuracy]: float32 functions are within 2 units in the last place of the correctly rounded
result over the whole range, float64 ones within about 2; tests/test_llvm_math.py counts. Where
float32 has no polynomial of its own it is computed in float64 lanes, which costs half the speed.
Nothing branches but for rare cases (`vector.when_any`): both sides are computed and selected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from adjoint.engine.backends.registers.vector import V, mad


@dataclass(frozen=True, slots=True)
class Format:
    """What the algorithms need to know of a floating kind."""

    mantissa: int  # stored bits
    bias: int
    tiny: float  # the smallest normal number
    bits: str  # the integer kind of the same width


FORMAT = {
    "f32": Format(23, 127, 2.0**-126, "i32"),
    "f64": Format(52, 1023, 2.0**-1022, "i64"),
}


def polynomial(x: V, coefficients: Sequence[float], stored: bool = False) -> V:
    """c0 + c1 x + c2 x**2 + ..., pairwise (Estrin's scheme).

    Fewer constants have to be copied into accumulators than by Horner's rule, which on NEON
    saves a third of the instructions, and chains are shorter. Where functions have more
    coefficients than registers hold, those are better read from memory (`stored`).
    """
    terms: list[V | float] = list(coefficients)
    if stored:
        for i in range(0, len(terms) - 1, 2):
            terms[i] = x.code.addend(coefficients[i], x.kind, x.lanes)
    power = x
    while len(terms) > 1:
        terms = [
            terms[i] if i + 1 == len(terms) else mad(power, terms[i + 1], terms[i])
            for i in range(0, len(terms), 2)
        ]
        if len(terms) > 1:
            power = power * power
    return x.like(terms[0])


def widened(fn: Callable[..., V]) -> Callable[..., V]:
    """A function written for float64, for float32 too: in float64 lanes, rounded at the end."""

    def run(*operands: V) -> V:
        if operands[0].kind == "f64":
            return fn(*operands)
        return fn(*(x.convert("f64") for x in operands)).convert("f32")

    run.__name__, run.__doc__ = fn.__name__, fn.__doc__
    return run


def power_of_two(k: V, kind: str) -> V:
    """2**k for an integer k in the range of normal exponents."""
    f = FORMAT[kind]
    return ((k + f.bias) << f.mantissa).bitcast(kind)


def fast_two_sum(a: V, b: V) -> tuple[V, V]:
    """The rounded sum and its error; |a| >= |b|, or a is 0."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: V, b: V) -> tuple[V, V]:
    """The rounded sum and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: V, b: V) -> tuple[V, V]:
    """The rounded product and its error."""
    product = a * b
    if a.code.features.fused:
        return product, mad(a, b, -product)
    (a1, a2), (b1, b2) = _halved(a), _halved(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halved(a: V) -> tuple[V, V]:
    """The upper and the lower half of the mantissa (Dekker)."""
    f = FORMAT[a.kind]
    keep = -(1 << ((f.mantissa + 2) // 2))
    high = (a.bits() & keep).bitcast(a.kind)
    return high, a - high


def sign_bit(x: V) -> V:
    """Whether the sign is set, of -0 and NaN too."""
    return x.bits() < 0
