"""From random words to samples of a law: the portable arithmetic of every sampler.

A law is a function (xp, words, dtype, *args) -> values; `words` are 64-bit for float64 and for
laws over integers, 32-bit otherwise, and `dtype` is the array dtype the values end up in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.random import portable

Array = Any


def unit(xp: Any, words: Array) -> Array:
    """Uniform on [0, 1): 24 bits in float32, 53 in float64."""
    if words.dtype == np.uint32:
        words >>= np.uint32(8)
        values = words.astype(np.float32)
        values *= np.float32(2.0**-24)
    else:
        words >>= np.uint64(11)
        values = words.astype(np.float64)
        values *= 2.0**-53
    return values


def centered(xp: Any, words: Array) -> tuple[Array, Array]:
    """q on (-1/2, 1/2) and its distance r = 1/2 - |q| from the ends, each to full precision."""
    size = 8 * words.dtype.itemsize
    signed, real = (np.int32, np.float32) if size == 32 else (np.int64, np.float64)
    k = words.view(signed)
    distance = (k >> (size - 1)) ^ k  # |k + 1/2| - 1/2
    xp.subtract(signed((1 << (size - 1)) - 1), distance, out=distance)
    q, r = k.astype(real), distance.astype(real)
    for part in (q, r):
        part += real(0.5)
        part *= real(2.0**-size)
    return q, r


def standard_normal(xp: Any, words: Array) -> Array:
    """Standard normal, by inversion."""
    return portable.normal_quantile(xp, *centered(xp, words))


def standard_exponential(xp: Any, words: Array) -> Array:
    """Standard exponential, -log(u), with both u and 1 - u to full precision; never 0."""
    q, r = centered(xp, words)
    upper = q > 0  # u = 1 - r there, r elsewhere
    near_one = upper & (r < q.dtype.type(0.25))
    k, f = portable.split(xp.where(upper, q.dtype.type(1) - r, r))
    k = xp.where(near_one, q.dtype.type(0), k)
    return -portable.log_from(k, xp.where(near_one, -r, f))


def below(xp: Any, words: Array, bound: int | Array) -> Array:
    """floor(word * bound / 2**64): uniform on [0, bound), for 1 <= bound <= 2**64."""
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    if isinstance(bound, int):
        if bound >= 1 << 64:
            return words
        if bound < 1 << 32:
            product = (words & low) * np.uint64(bound)
            product >>= high
            words >>= high
            words *= np.uint64(bound)
            words += product
            words >>= high
            return words
        bound = xp.asarray(np.array(bound, np.uint64))
    a, b = words >> high, words & low
    c, d = bound >> high, bound & low
    middle = a * d + (b * d >> high)
    carry = b * c + (middle & low)
    return a * c + (middle >> high) + (carry >> high)


def uniform(xp: Any, words: Array, dtype: Any, low: float, high: float) -> Array:
    """Uniform on [low, high)."""
    values = unit(xp, words)
    if dtype.itemsize == 2:  # cut, not rounded, to the half's precision: stays below 1
        mask = {"float16": 0xFFFFE000, "bfloat16": 0xFFFF0000}[dtype.name]
        values.view(np.uint32)[...] &= np.uint32(mask)
    if (low, high) == (0, 1):
        return values
    real = values.dtype.type
    values *= real(high) - real(low)
    values += real(low)
    if low < high:  # rounding may reach `high` itself
        last = np.nextafter(np.array(high, dtype), np.array(low, dtype)).astype(values.dtype)
        xp.minimum(values, xp.asarray(last), out=values)
    return values


def normal(xp: Any, words: Array, dtype: Any, mean: float, std: float) -> Array:
    """Normal with a mean and a standard deviation."""
    values = standard_normal(xp, words)
    real = values.dtype.type
    if std != 1:
        values *= real(std)
    if mean != 0:
        values += real(mean)
    return values


def log_normal(xp: Any, words: Array, dtype: Any, mean: float, std: float) -> Array:
    """The exponential of a normal."""
    values = standard_normal(xp, words).astype(np.float64)
    values *= std
    values += mean
    return portable.exp(xp, values)


def exponential(xp: Any, words: Array, dtype: Any, rate: float) -> Array:
    """Exponential with a rate."""
    values = standard_exponential(xp, words)
    return values if rate == 1 else values / values.dtype.type(rate)


def cauchy(xp: Any, words: Array, dtype: Any, median: float, sigma: float) -> Array:
    """Cauchy, by inversion: tan(pi q), as 1 / tan(pi r) towards the ends."""
    q, r = centered(xp, words)
    outer = r < q.dtype.type(0.25)
    size = xp.where(outer, r, xp.abs(q)).astype(np.float64)
    size *= np.pi
    tangent = portable.tan(size)
    values = xp.copysign(xp.where(outer, 1.0 / tangent, tangent), q)
    values *= sigma
    values += median
    return values


def geometric(xp: Any, words: Array, dtype: Any, p: float) -> Array:
    """The number of trials up to the first success, each of probability p."""
    values = standard_exponential(xp, words)
    if p == 1:
        return xp.ones_like(values)
    rate = -portable.log1m(np, np.array([p]))[0]
    values /= values.dtype.type(rate)
    return xp.maximum(xp.ceil(values), values.dtype.type(1))


def bernoulli(xp: Any, words: Array, dtype: Any, p: float) -> Array:
    """1 with probability p (to 32 bits), else 0."""
    threshold = int(np.ceil(p * 2.0**32))  # exact: a power of two scales without rounding
    if threshold > 0xFFFFFFFF:
        return xp.ones(words.shape, bool)
    return words < np.uint32(threshold)


def integers(xp: Any, words: Array, dtype: Any, low: int, high: int) -> Array:
    """Uniform integers of [low, high)."""
    values = below(xp, words, high - low).view(np.int64)
    start = low if low < 1 << 63 else low - (1 << 64)
    return values if low == 0 else values + np.int64(start)


def bits(xp: Any, words: Array, dtype: Any) -> Array:
    """The words themselves."""
    return words.view(np.int64)


def fraction(xp: Any, words: Array, dtype: Any) -> Array:
    """Uniform on (0, 1), to 32 bits, in float64."""
    values = words.astype(np.float64)
    values += 0.5
    values *= 2.0**-32
    return values


LAWS: dict[str, Callable[..., Array]] = {
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
