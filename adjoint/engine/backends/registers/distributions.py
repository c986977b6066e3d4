"""From random words to samples, bit for bit as `array.kernels.random.distributions` makes them.

Both use integer operations and + - * / sqrt alone, rounded one at a time in the same order: no
multiply-add is fused here. Where that picks elements (the tail of a normal), this computes both
and selects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.kernels.random import portable
from adjoint.engine.backends.registers.elementwise import kind_of, round_to
from adjoint.engine.backends.registers.vector import V, select, when_any
from adjoint.engine.core.dtype import DType

Table = tuple[float, ...]


def sample(words: V, law: str, args: tuple[Any, ...], dtype: DType) -> V:
    """Samples of a law in the kind of a dtype, from words of `ops.random.random.word_bits` bits."""
    return round_to(LAWS[law](words, dtype, *args).convert(kind_of(dtype)), dtype)


def supports(law: str, args: tuple[Any, ...], dtype: DType) -> bool:
    """Whether `sample` makes such samples: real dtypes, and parameters known when compiling."""
    known = all(isinstance(a, (bool, int, float)) for a in args)
    return law in LAWS and known and not dtype.is_complex


def _of(x: V) -> portable.Float:
    return portable.FLOAT[np.dtype("float32" if x.kind == "f32" else "float64")]


def polynomial(x: V, coefficients: Table) -> V:
    """Horner's rule with two roundings a step."""
    total = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        total = (total + c) * x
    return total + coefficients[0]


def unit(words: V) -> V:
    """Uniform on [0, 1)."""
    if words.kind == "u32":
        return (words >> 8).convert("f32") * 2.0**-24
    return (words >> 11).convert("f64") * 2.0**-53


def centered(words: V) -> tuple[V, V]:
    """q on (-1/2, 1/2) and its distance from the ends."""
    size = 32 if words.kind == "u32" else 64
    real = f"f{size}"
    k = words.bitcast(f"i{size}")
    distance = ((1 << (size - 1)) - 1) - ((k >> (size - 1)) ^ k)
    q, r = ((part.convert(real) + 0.5) * 2.0**-size for part in (k, distance))
    return q, r


def split(x: V) -> tuple[V, V]:
    """k and f with x = 2**k (1 + f)."""
    of = _of(x)
    bits = x.bits() + (of.one - of.half_root)
    k = (bits >> of.mantissa) - (of.one >> of.mantissa)
    bits = (bits & ((1 << of.mantissa) - 1)) + of.half_root
    return k.convert(x.kind), bits.bitcast(x.kind) - 1.0


def log_from(k: V, f: V) -> V:
    """log(2**k (1 + f))."""
    of = _of(f)
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    r = polynomial(w, of.log_odd) * z + polynomial(w, of.log_even) * w
    half_square = f * f * 0.5
    inner = half_square - (s * (half_square + r) + k * of.ln2_low)
    return k * of.ln2_high - (inner - f)


def log(x: V) -> V:
    """Natural logarithm of positive normal numbers."""
    return log_from(*split(x))


def log1m(x: V) -> V:
    """log(1 - x) for 0 <= x < 1, in float64."""
    small, rest = x < 0.25, 1.0 - x
    least = float(np.finfo(np.float64).tiny)
    k, f = split(select(rest < least, least, rest))
    return log_from(select(small, 0.0, k), select(small, -x, f))


def _quotient(x: V, parts: tuple[Table, Table]) -> V:
    return polynomial(x, parts[0]) / polynomial(x, parts[1])


def _tail_size(r: V) -> V:
    of = _of(r)
    s = (-log(r)).sqrt()
    (size,) = when_any(
        s > 5.0,
        lambda: (_quotient(s - 5.0, of.far),),
        (_quotient(s - 1.6, of.middle),),
    )
    return size


def standard_normal(words: V) -> V:
    """Standard normal, by inversion."""
    return normal_quantile(*centered(words))


def normal_quantile(q: V, r: V) -> V:
    """The x with P(X <= x) = q + 1/2, where r = 1/2 - |q| is given to its own precision."""
    tail = is_tail(r)
    outer = tail_quantile(q, select(tail, r, r.like(0.05)))
    return select(tail, outer, central_quantile(q))


def is_tail(r: V) -> V:
    """Whether a quantile is so far from the middle."""
    return r < 0.075


def central_quantile(q: V) -> V:
    """`normal_quantile` but for the tails."""
    return _quotient(0.180625 - q * q, _of(q).central) * q


def tail_quantile(q: V, r: V) -> V:
    """`normal_quantile` in the tails."""
    return _tail_size(r).copysign(q)


def standard_exponential(words: V) -> V:
    """Standard exponential."""
    q, r = centered(words)
    upper = q > 0.0
    near_one = upper & (r < 0.25)
    k, f = split(select(upper, 1.0 - r, r))
    return -log_from(select(near_one, k.like(0.0), k), select(near_one, -r, f))


def below(words: V, bound: int) -> V:
    """floor(word * bound / 2**64)."""
    if bound >= 1 << 64:
        return words
    low = 0xFFFFFFFF
    if bound < 1 << 32:
        return ((((words & low) * bound) >> 32) + (words >> 32) * bound) >> 32
    return below_any(words, bound)


def below_any(words: V, bound: V | int) -> V:
    """The same for bounds below 2**64, by halves."""
    low = 0xFFFFFFFF
    a, b = words >> 32, words & low
    c, d = bound >> 32, bound & low
    middle = a * d + ((b * d) >> 32)
    carry = b * c + (middle & low)
    return a * c + (middle >> 32) + (carry >> 32)


def uniform(words: V, dtype: DType, low: float, high: float) -> V:
    """Uniform on [low, high)."""
    values = unit(words)
    if dtype.is_half:  # cut, not rounded, to the half's precision: stays below 1
        mask = {"float16": 0xFFFFE000, "bfloat16": 0xFFFF0000}[dtype.name]
        values = (values.bits(signed=False) & mask).bitcast("f32")
    if (low, high) == (0, 1):
        return values
    real: Any = np.float32 if values.kind == "f32" else np.float64
    values = values * float(real(high) - real(low)) + float(real(low))
    if low < high:  # rounding may reach `high` itself
        target = NUMPY_OF[dtype]
        last = np.nextafter(np.array(high, target), np.array(low, target)).astype(real)
        values = select(values > float(last), float(last), values)
    return values


def normal(words: V, dtype: DType, mean: float, std: float) -> V:
    """Normal with a mean and a standard deviation."""
    values = standard_normal(words)
    if std != 1:
        values = values * std
    return values + mean if mean != 0 else values


def log_normal(words: V, dtype: DType, mean: float, std: float) -> V:
    """The exponential of a normal."""
    return exp(standard_normal(words).convert("f64") * std + mean)


def exp(x: V) -> V:
    """Exponential, in float64."""
    of = _of(x)
    x = select(x < -760.0, -760.0, x)
    x = select(x > 720.0, 720.0, x)
    k = (x * 1.44269504088896338700 + 0.5).floor()
    high = x - k * of.ln2_high
    low = k * of.ln2_low
    r = high - low
    t = r * r
    c = r - t * polynomial(t, portable.EXP)
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    whole = k.convert("i64")
    half = whole >> 1
    return y * _power_of_two(half) * _power_of_two(whole - half)


def _power_of_two(k: V) -> V:
    return ((k + 1023) << 52).bitcast("f64")


def exponential(words: V, dtype: DType, rate: float) -> V:
    """Exponential with a rate."""
    values = standard_exponential(words)
    return values if rate == 1 else values / rate


def cauchy(words: V, dtype: DType, median: float, sigma: float) -> V:
    """Cauchy, by inversion."""
    q, r = centered(words)
    outer = r < 0.25
    size = select(outer, r, abs(q)).convert("f64") * float(np.pi)
    z = size * size
    sine = size + size * z * polynomial(z, portable.SIN)
    cosine = 1.0 - (z * 0.5 - z * z * polynomial(z, portable.COS))
    tangent = sine / cosine
    values = select(outer, 1.0 / tangent, tangent).copysign(q.convert("f64"))
    return values * sigma + median


def geometric(words: V, dtype: DType, p: float) -> V:
    """The number of trials up to the first success."""
    values = standard_exponential(words)
    if p == 1:
        return values.like(1.0)
    values = (values / float(-portable.log1m(np, np.array([p]))[0])).ceil()
    return select(values < 1.0, 1.0, values)


def bernoulli(words: V, dtype: DType, p: float) -> V:
    """1 with probability p, else 0."""
    threshold = int(np.ceil(p * 2.0**32))
    if threshold > 0xFFFFFFFF:
        return words.code.const(True, "i1", words.lanes)
    return words < threshold


def integers(words: V, dtype: DType, low: int, high: int) -> V:
    """Uniform integers of [low, high)."""
    return below(words, high - low).bitcast("i64") + low


def bits(words: V, dtype: DType) -> V:
    """The words themselves."""
    return words.bitcast("i64")


def fraction(words: V, dtype: DType) -> V:
    """Uniform on (0, 1), to 32 bits, in float64."""
    return (words.convert("f64") + 0.5) * 2.0**-32


LAWS: dict[str, Callable[..., V]] = {
    law.__name__: law
    for law in (
        uniform,
        normal,
        log_normal,
        exponential,
        cauchy,
        geometric,
        bernoulli,
        integers,
        bits,
        fraction,
    )
}
