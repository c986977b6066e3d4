"""Kernels of the laws with tensor parameters, in the portable arithmetic of `portable`.

Poisson and binomial counts of a small mean are found by walking up the distribution function; of
a larger one by transformed rejection (Hörmann 1993: The transformed rejection method for
generating Poisson random variables; The generation of binomial random variates).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.random import device_samples, portable
from adjoint.engine.backends.array.kernels.random.device_samples import (
    FACTORIAL,
    HALF_LOG_TAU,
    MOST_STEPS,
    SMALL_MEAN,
    STIRLING,
    STREAMS,
)
from adjoint.engine.backends.array.kernels.random.distributions import below, centered, unit
from adjoint.engine.backends.array.kernels.random.philox import scattered
from adjoint.engine.backends.array.table import lowers, lowers_on_gpu, on_device
from adjoint.engine.ops.random.tensor_parameters import (
    BERNOULLI,
    BINOMIAL,
    MULTINOMIAL,
    NEGATIVE_RATE,
    NO_DISTRIBUTION,
    NO_WEIGHTS,
    NORMAL,
    POISSON,
    POISSON_DRAWN,
    room_of,
)

Array = Any


@lowers(BERNOULLI)
def bernoulli(xp: Any, fractions: Array, p: Array) -> Array:
    if not xp.all((p >= 0) & (p <= 1)):
        raise RuntimeError("bernoulli: expected all probabilities p to satisfy 0 <= p <= 1")
    return fractions < p


@lowers(NORMAL)
def normal(xp: Any, z: Array, mean: Any, std: Any) -> Array:
    return z * std + mean


def walk(xp: Any, words: Array, first: Array, ratio: Callable[[int, Array], Array]) -> Array:
    """The k at which the sum of probabilities, first * ratio(0) * ... , passes a uniform number."""
    counts = xp.zeros(words.size)
    uniform = unit(xp, scattered(xp, STREAMS, words, 0)[0])
    left = xp.arange(words.size)
    term, total = first, first
    for k in range(MOST_STEPS):
        beyond = xp.flatnonzero(uniform >= total)
        if not beyond.size:
            break
        left, uniform = left[beyond], uniform[beyond]
        counts[left] = k + 1
        term = term[beyond] * ratio(k, left)
        total = total[beyond] + term
        # Rounding may leave the whole sum below the largest uniform numbers.
        uniform = xp.where(term < 1e-18, -1.0, uniform)
    return counts


def reject(
    xp: Any, words: Array, propose: Callable[[Array, Array, Array, Array], tuple[Array, Array]]
) -> Array:
    """The first proposal accepted for each word: propose(left, u, distance, v) -> (k, accept)."""
    counts = xp.zeros(words.size)
    left = xp.arange(words.size)
    for retry in range(MOST_STEPS):
        if not left.size:
            break
        first, second = scattered(xp, STREAMS, words[left], retry)
        u, distance = centered(xp, first)
        k, accept = propose(left, u, distance, 1.0 - unit(xp, second))
        counts[left] = k
        left = left[xp.flatnonzero(~accept)]
    return counts


def log_factorial(xp: Any, k: Array) -> Array:
    """log(k!) for k >= 0, by Stirling's series from k + 1 = 7 on."""
    x = k + 1.0
    small = x < 7.0
    product = x
    for i in range(1, 7):
        product = xp.where(small, product * (x + float(i)), 1.0)
    x = xp.where(small, x + 7.0, x)
    inverse = 1.0 / x
    square = inverse * inverse
    tail = portable.polynomial(square, FACTORIAL) * inverse
    value = (x - 0.5) * portable.log(x) - x + HALF_LOG_TAU + tail
    return xp.where(small, value - portable.log(product), value)


def poisson_by_rejection(xp: Any, words: Array, rate: Array) -> Array:
    root, log_rate = xp.sqrt(rate), portable.log(rate)
    b = root * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    log_inverse_alpha = portable.log(1.1328 / (b - 3.4) + 1.1239)
    quick = 0.9277 - 3.6224 / (b - 2.0)

    def propose(left: Array, u: Array, distance: Array, v: Array) -> tuple[Array, Array]:
        a_, b_, mean = a[left], b[left], rate[left]
        k = xp.floor((a_ * 2.0 / distance + b_) * u + mean + 0.43)
        sure = (distance >= 0.07) & (v <= quick[left])
        hopeless = (k < 0) | ((distance < 0.013) & (v > distance))
        count = xp.maximum(k, 0.0)
        slope = portable.log(a_ / (distance * distance) + b_)
        level = portable.log(v) + log_inverse_alpha[left] - slope
        fits = level <= count * log_rate[left] - mean - log_factorial(xp, count)
        return count, sure | (fits & ~hopeless)

    return reject(xp, words, propose)


def _by_size(
    xp: Any, small: Array, large: Array, out: Array, low: Callable[..., Array], high: Any
) -> Array:
    """Fill `out` from the two methods, each where its mask holds."""
    for mask, sample in ((small, low), (large, high)):
        where = xp.flatnonzero(mask)
        if where.size:
            out[where] = sample(where)
    return out


@lowers(POISSON)
def poisson(xp: Any, words: Array, rate: Array) -> Array:
    if on_device(xp):
        return device_samples.poisson(xp, words, rate)
    shape = np.broadcast_shapes(words.shape, rate.shape)
    ids = xp.broadcast_to(words, shape).reshape(-1).view(np.uint64)
    means = xp.broadcast_to(rate, shape).reshape(-1).astype(np.float64)
    if not xp.all(means >= 0):
        raise RuntimeError(NEGATIVE_RATE)

    def low(where: Array) -> Array:
        mean = means[where]
        return walk(
            xp, ids[where], portable.exp(xp, -mean), lambda k, left: mean[left] / float(k + 1)
        )

    small = (means < SMALL_MEAN) & (means > 0)
    large = means >= SMALL_MEAN
    out = _by_size(
        xp,
        small,
        large,
        xp.zeros(means.size),
        low,
        lambda where: poisson_by_rejection(xp, ids[where], means[where]),
    )
    return out.reshape(shape).astype(rate.dtype)


@lowers_on_gpu(POISSON_DRAWN)
def poisson_drawn(xp: Any, rate: Array, seed: int, offset: int) -> Array:
    return device_samples.drawn(xp, "poisson", rate, seed, offset)


def stirling_tail(xp: Any, k: Array) -> Array:
    """log(k!) less its Stirling approximation."""
    x = k + 1.0
    square = x * x
    series = (1 / 12 - (1 / 360 - (1 / 1260) / square) / square) / x
    looked_up = xp.asarray(STIRLING)[xp.minimum(k, 9.0).astype(np.int64)]
    return xp.where(k <= 9.0, looked_up, series)


def binomial_by_rejection(xp: Any, words: Array, n: Array, p: Array) -> Array:
    deviation = xp.sqrt(n * p * (1.0 - p))
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 - 0.0873 + p * 0.01
    center = n * p + 0.5
    quick = 0.92 - 4.2 / b
    alpha = (5.1 / b + 2.83) * deviation
    odds = p / (1.0 - p)
    mode = xp.floor((n + 1.0) * p)

    def propose(left: Array, u: Array, distance: Array, v: Array) -> tuple[Array, Array]:
        a_, b_, n_, m, r = a[left], b[left], n[left], mode[left], odds[left]
        k = xp.floor((a_ * 2.0 / distance + b_) * u + center[left])
        inside = (k >= 0) & (k <= n_)
        sure = (distance >= 0.07) & (v <= quick[left]) & inside
        count = xp.minimum(xp.maximum(k, 0.0), n_)
        log = portable.log
        level = log(v * alpha[left] / (a_ / (distance * distance) + b_))
        bound = (m + 0.5) * log((m + 1.0) / (r * (n_ - m + 1.0)))
        bound = bound + (n_ + 1.0) * log((n_ - m + 1.0) / (n_ - count + 1.0))
        bound = bound + (count + 0.5) * log(r * (n_ - count + 1.0) / (count + 1.0))
        for sign, at in ((1.0, m), (1.0, n_ - m), (-1.0, count), (-1.0, n_ - count)):
            bound = bound + stirling_tail(xp, at) * sign
        return count, sure | (inside & (level <= bound))

    return reject(xp, words, propose)


@lowers(BINOMIAL)
def binomial(xp: Any, words: Array, count: Array, prob: Array) -> Array:
    if on_device(xp):
        return device_samples.binomial(xp, words, count, prob)
    shape = np.broadcast_shapes(words.shape, count.shape, prob.shape)
    ids = xp.broadcast_to(words, shape).reshape(-1).view(np.uint64)
    n = xp.floor(xp.broadcast_to(count, shape).reshape(-1).astype(np.float64))
    p = xp.broadcast_to(prob, shape).reshape(-1).astype(np.float64)
    flipped = p > 0.5
    q = xp.where(flipped, 1.0 - p, p)
    drawn = (n > 0) & (q > 0)

    def low(where: Array) -> Array:
        n_, p_ = n[where], q[where]
        odds = p_ / (1.0 - p_)
        first = portable.exp(xp, n_ * portable.log1m(xp, p_))
        return walk(
            xp,
            ids[where],
            first,
            lambda k, left: xp.maximum(n_[left] - float(k), 0.0) / float(k + 1) * odds[left],
        )

    small, large = drawn & (n * q < SMALL_MEAN), drawn & (n * q >= SMALL_MEAN)
    out = _by_size(
        xp,
        small,
        large,
        xp.zeros(n.size),
        low,
        lambda where: binomial_by_rejection(xp, ids[where], n[where], q[where]),
    )
    out = xp.where(flipped, xp.maximum(n, 0.0) - out, out)
    out = xp.where(xp.isnan(n) | xp.isnan(p), np.nan, out)
    return out.reshape(shape).astype(count.dtype)


def _check_weights(xp: Any, weights: Array) -> Array:
    """The largest weight of each row, after refusing rows that are no distribution."""
    if not xp.all(xp.isfinite(weights) & (weights >= 0)):
        raise RuntimeError(NO_WEIGHTS)
    largest = weights.max(axis=-1, keepdims=True) if weights.shape[-1] else weights
    if not largest.size or not xp.all(largest > 0):
        raise RuntimeError(NO_DISTRIBUTION)
    return largest


@lowers(MULTINOMIAL)
def multinomial(xp: Any, weights: Array, noise: Array, *, count: int, replacement: bool) -> Array:
    weights = weights.astype(np.float64)
    shape = (*weights.shape[:-1], count)
    if not all(weights.shape[:-1]):
        return xp.empty(shape, np.int64)
    largest = _check_weights(xp, weights)
    if not replacement:
        # The order in which independent exponential clocks of these rates ring; those that never
        # do come last, so that only they are left when too many samples are asked for.
        times = noise / (weights / largest)
        if count == 1:  # NaN, of noise that is 0, is never the smallest
            times[weights == 0] = np.inf
            return times.argmin(axis=-1, keepdims=True).astype(np.int64)
        order = xp.argsort(times, axis=-1, kind="stable")
        return order[..., :count].astype(np.int64)
    # Whole-numbered weights: their sums are exact in any order, on any device.
    whole = xp.floor(weights / largest * 2.0 ** room_of(weights.shape[-1])).astype(np.int64)
    edges = xp.cumsum(whole, axis=-1)
    rows = edges.reshape(-1, edges.shape[-1])
    words = noise.reshape(-1, count).view(np.uint64)
    chosen = below(xp, words, rows[:, -1:].astype(np.uint64)).astype(np.int64)
    from adjoint.engine.backends.array.kernels.order.search import bisect  # loads on first use

    return bisect(xp, rows, chosen, right=True).reshape(shape)
