"""Kernels of orthogonal polynomials: three-term recurrences over all elements at once.

They run in float64, so that float32 results are exact to the last bits at any degree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.elementwise.layouts import as_operands
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.ops.special import polynomials

Array = Any
Step = Callable[[int, Array, Array, Array], Array]  # (k, x, p_k, p_(k-1)) -> p_(k+1)


def recur(xp: Any, x: Array, n: Array, first: Array, step: Step) -> Array:
    """p_n(x) from p_0 = 1, p_1 = first and the recurrence; each element stops at its degree."""
    before, now = xp.ones_like(x), first
    if n.ndim == 0:  # one degree for all: no element waits for another
        for k in range(1, int(n)):
            before, now = now, step(k, x, now, before)
            if k % 64 == 0 and bool(xp.isnan(now).all()):
                break  # far beyond what a float holds, as it stays
        return now if n > 0 else before if n == 0 else xp.zeros_like(x)
    result = xp.where(n == 0, before, xp.where(n < 0, 0.0, now))
    k = 1
    live = (n > k) & ~xp.isnan(now)
    while bool(live.any()):
        before, now = now, step(k, x, now, before)
        result = xp.where(live, now, result)
        k += 1
        live = live & (n > k) & ~xp.isnan(now)
    return result


def prepare(xp: Any, x: Any, n: Any) -> tuple[Array, Array]:
    """x in float64 and the degree as an integer, at one shape unless it is a number.

    A NaN degree counts as 0.
    """
    x, n = xp.asarray(x, dtype=np.float64), xp.asarray(n, dtype=np.float64)
    if n.ndim:
        x, n = xp.broadcast_arrays(x, n)
    return x, xp.where(xp.isnan(n), 0, xp.clip(xp.trunc(n), -1, 2**53))


def _sign(xp: Any, n: Array) -> Array:
    """(-1) ** n."""
    return 1 - 2 * xp.mod(n, 2)


def _chebyshev(x_: Any, n_: Any, xp: Any, first: Any, ends: Any, inside: Any, above: int) -> Array:
    """One of the four kinds: its p_1, its values at 1 and -1, and its form by angles."""
    x, n = prepare(xp, x_, n_)
    if n.ndim == 0 and n <= above:
        return recur(xp, x, n, first(x), lambda k, x, p, q: (x + x) * p - q)
    by_angle = (xp.abs(x) < 1) & (n > above)
    at_end = xp.abs(x) == 1
    steps = xp.where(by_angle | at_end, xp.minimum(n, 1), n)
    result = recur(xp, x, steps, first(x), lambda k, x, p, q: (x + x) * p - q)
    angle = xp.arccos(xp.clip(x, -1, 1))
    result = xp.where(by_angle, inside(angle, n), result)
    one, minus_one = ends(n)
    edge = xp.where(x > 0, one, minus_one * _sign(xp, n))
    return xp.where(n < 0, 0.0, xp.where(at_end, edge, result))


@lowers(polynomials.CHEBYSHEV_T)
@as_operands
def chebyshev_t(xp: Any, x: Any, n: Any) -> Array:
    return _chebyshev(x, n, xp, lambda x: x, lambda n: (1, 1), lambda a, n: xp.cos(n * a), above=6)


@lowers(polynomials.CHEBYSHEV_U)
@as_operands
def chebyshev_u(xp: Any, x: Any, n: Any) -> Array:
    return _chebyshev(
        x,
        n,
        xp,
        lambda x: x + x,
        lambda n: (n + 1, n + 1),
        lambda a, n: xp.sin((n + 1) * a) / xp.sin(a),
        above=8,
    )


@lowers(polynomials.CHEBYSHEV_V)
@as_operands
def chebyshev_v(xp: Any, x: Any, n: Any) -> Array:
    return _chebyshev(
        x,
        n,
        xp,
        lambda x: x + x - 1,
        lambda n: (1, n + n + 1),
        lambda a, n: xp.cos((n + 0.5) * a) / xp.cos(a / 2),
        above=8,
    )


@lowers(polynomials.CHEBYSHEV_W)
@as_operands
def chebyshev_w(xp: Any, x: Any, n: Any) -> Array:
    return _chebyshev(
        x,
        n,
        xp,
        lambda x: x + x + 1,
        lambda n: (n + n + 1, 1),
        lambda a, n: xp.sin((n + 0.5) * a) / xp.sin(a / 2),
        above=8,
    )


def _hermite(xp: Any, x_: Any, n_: Any, scale: int) -> Array:
    """p_(k+1) = s x p_k - s k p_(k-1): He for s = 1, H for s = 2. Overflow is NaN, as PyTorch's."""
    x, n = prepare(xp, x_, n_)
    dtype = next(a.dtype for a in (x_, n_) if hasattr(a, "dtype"))
    limit = 512 if dtype == np.float64 else 128
    y = scale * x
    steps = xp.minimum(n, limit + 1)
    exact = recur(xp, x, steps, y, lambda k, x, p, q: y * p - (scale * k) * q)
    result = exact.astype(dtype)
    overflow = xp.isfinite(exact) & ~xp.isfinite(result)
    return xp.where(overflow | (n > limit), np.nan, result).astype(dtype)


@lowers(polynomials.HERMITE_H)
@as_operands
def hermite_h(xp: Any, x: Any, n: Any) -> Array:
    return _hermite(xp, x, n, 2)


@lowers(polynomials.HERMITE_HE)
@as_operands
def hermite_he(xp: Any, x: Any, n: Any) -> Array:
    return _hermite(xp, x, n, 1)


@lowers(polynomials.LAGUERRE)
@as_operands
def laguerre(xp: Any, x: Any, n: Any, order: float) -> Array:
    x, n = prepare(xp, x, n)

    def step(k: int, x: Array, p: Array, q: Array) -> Array:
        return ((2 * k + 1 + order - x) * p - (k + order) * q) / (k + 1)

    return recur(xp, x, n, 1 + order - x, step)


@lowers(polynomials.GEGENBAUER)
@as_operands
def gegenbauer(xp: Any, x: Any, n: Any, order: float) -> Array:
    x, n = prepare(xp, x, n)

    def step(k: int, x: Array, p: Array, q: Array) -> Array:
        return (2 * (k + order) * x * p - (k + 2 * order - 1) * q) / (k + 1)

    return recur(xp, x, n, 2 * order * x, step)
