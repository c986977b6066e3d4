"""A product and a sum of doubles rounded once, as a fused instruction rounds them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
SPLITTER = 2.0**27 + 1  # halves of 26 bits: their products are exact
LARGEST = 2.0**990  # beyond it a split overflows


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
    """start + factor * index, rounded once (Boldo and Melquiond's algorithm)."""
    plain = start + factor * index
    if not abs(float(factor)) * max(len(index), 1) < LARGEST or not abs(float(start)) < LARGEST:
        return plain  # overflows, or is no number: nothing to round better
    product, low = _two_product(xp.full_like(index, factor), index)
    middle, rest = _two_sum(xp.full_like(index, start), low)
    high, last = _two_sum(product, middle)
    return high + _odd_sum(xp, rest, last)
