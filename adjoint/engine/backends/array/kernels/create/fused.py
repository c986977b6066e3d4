"""A product and a sum of doubles rounded once, as a fused instruction rounds them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
SPLITTER = 2.0**27 + 1  # halves of 26 bits: their products are exact
LARGEST = 2.0**990  # beyond it a split overflows
FEW_BITS = 1 << 26  # whole numbers up to it have products with such halves that are exact
BLOCK = 4096  # numbers at a time, which stay in the cache


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b, and what rounding left of it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b, and what rounding left of it."""
    product = a * b
    wide_a, wide_b = SPLITTER * a, SPLITTER * b
    high_a, high_b = wide_a - (wide_a - a), wide_b - (wide_b - b)
    low_a, low_b = a - high_a, b - high_b
    rest = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    return product, rest


def _odd_sum(xp: Any, a: Array, b: Array) -> Array:
    """a + b, if inexact the neighbour whose last bit is one: rounding that again is right."""
    total, rest = _two_sum(a, b)
    even = (total.view(np.int64) & 1) == 0
    towards = xp.where(rest > 0, np.inf, -np.inf)
    return xp.where((rest != 0) & even, xp.nextafter(total, towards), total)


def fused_multiply_add(xp: Any, factor: Any, index: Array, start: Any) -> Array:
    """start + factor * index, of whole numbers that are not negative, rounded once."""
    if not abs(float(factor)) * max(len(index), 1) < LARGEST or not abs(float(start)) < LARGEST:
        return start + factor * index  # overflows, or is no number: nothing to round better
    if xp is not np or len(index) > FEW_BITS:
        return _by_odd_sums(xp, factor, index, start)
    wide = SPLITTER * factor
    high = wide - (wide - factor)
    parts = (high, factor - high, start)
    out = np.empty(len(index))
    for first in range(0, len(index), BLOCK):
        _put_block(out[first : first + BLOCK], index[first : first + BLOCK], factor, *parts)
    return out


def _put_block(out: Array, index: Array, factor: Any, high: Any, low: Any, start: Any) -> None:
    """The same of few numbers below FEW_BITS, whose products with halves of the factor are exact.

    What is added last has a rounding error of its own. Where it does not matter, a little more and
    a little less of it come to the same number, so that is the right one; few are left.
    """
    total, rest = _two_sum(start, high * index)
    small = rest + low * index
    np.add(total, small * (1.0 - 2.0**-50), out=out)
    doubtful = np.flatnonzero(out != total + small * (1.0 + 2.0**-50))
    if doubtful.size:
        out[doubtful] = _by_odd_sums(np, factor, index[doubtful], start)


def _by_odd_sums(xp: Any, factor: Any, index: Array, start: Any) -> Array:
    """Boldo's and Melquiond's algorithm."""
    product, low = _two_product(xp.full_like(index, factor), index)
    middle, rest = _two_sum(xp.full_like(index, start), low)
    high, last = _two_sum(product, middle)
    return high + _odd_sum(xp, rest, last)
