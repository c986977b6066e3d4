"""Error functions and the normal distribution.

erf is a polynomial near 0; beyond, 1 - p(x - 1)**4 in float32 and 1 - erfc(x) in float64, where
erfc(x) = e**(-x**2) erfcx(x) and erfcx is smooth over [0, inf) in (x - 4) / (x + 4). Inverses
are Wichura's quotients (AS 241), as the generator of normal numbers has them.
"""

from __future__ import annotations

import numpy as np

from adjoint.engine.backends.array.kernels.random import portable
from adjoint.engine.backends.registers.math import tables
from adjoint.engine.backends.registers.math.common import polynomial, two_product, widened
from adjoint.engine.backends.registers.math.exponential import exp
from adjoint.engine.backends.registers.math.logarithm import log, log1p
from adjoint.engine.backends.registers.vector import V, at_most, mad, select, when_any

INF = float("inf")
ROOT_HALF = tables.ROOT_HALF[0]


def erf(x: V) -> V:
    """Error function."""
    size = abs(x)
    if x.kind == "f32":
        near = mad(x, polynomial(x * x, tables.ERF_F32, stored=True), x)
        u, c = at_most(size, 3.95) - 1.0, tables.ERF_TAIL_F32
        # Rounded once where u is small and erfc is not.
        root = mad(u, polynomial(u, c[1:], stored=True), c[0])
        square = root * root
        return select(size < 0.88, near, mad(-square, square, 1.0).copysign(x))
    far = 1.0 - _erfc_positive(at_most(size, 6.0))
    return select(size < 0.75, _erf_near(x), far.copysign(x))


def _erf_near(x: V) -> V:
    """erf(x) in float64 for |x| <= 0.76."""
    return mad(x, polynomial(x * x, tables.ERF_F64), x)


def _erfcx_positive(t: V) -> V:
    """e**(t**2) erfc(t) for t >= 0."""
    u = 1.0 - 8.0 / (t + 4.0)
    c = tables.ERFCX_F64
    # The last steps one at a time: pairs of large coefficients would lose bits near t = 0.
    p = polynomial(u, c[4:])
    for coefficient in c[3::-1]:
        p = mad(p, u, coefficient)
    return (p * 0.5) / (t + 0.5)


def _exp_square(t: V, low: V | None = None) -> V:
    """e**-(t + low)**2 for a small low: what rounding the square loses is made good."""
    square, error = two_product(t, t)
    if low is not None:
        error = mad(t + t, low, error)
    e = exp(-square)
    return mad(e, -error, e)


def _erfc_positive(t: V, low: V | None = None) -> V:
    """erfc(t + low) for 0 <= t."""
    return _erfcx_positive(t) * _exp_square(t, low)


def _erfc(x: V, low: V | None = None) -> V:
    size = at_most(abs(x), 28.0)
    if low is not None:
        low = select(abs(x) < 28.0, select(x < 0.0, -low, low), 0.0)
    far = _erfc_positive(size, low)
    far = select(x < 0.0, 2.0 - far, far)
    return select(abs(x) < 0.4, 1.0 - _erf_near(x), far)


@widened
def erfc(x: V) -> V:
    """1 - erf(x), to full precision where that is small."""
    return _erfc(x)


@widened
def erfcx(x: V) -> V:
    """e**(x**2) erfc(x)."""
    size = abs(x)
    positive = _erfcx_positive(size)
    inside = at_most(size, 30.0)
    square, error = two_product(inside, inside)
    e = exp(square)
    e = select(e < INF, mad(e, error, e), e)
    positive = select(size < 0.5, (1.0 - _erf_near(size)) * e, positive)
    return select(x < 0.0, mad(e, 2.0, -positive), positive)


def _quotient(x: V, parts: tuple[tuple[float, ...], tuple[float, ...]]) -> V:
    return polynomial(x, parts[0]) / polynomial(x, parts[1])


def quantile(q: V, r: V) -> V:
    """The x with P(X <= x) = q + 1/2 for a normal X, r = 1/2 - |q| given to its own precision."""
    of = portable.FLOAT[np.dtype("float64")]
    central = q * _quotient(0.180625 - q * q, of.central)
    s = (-log(r)).sqrt()
    far = s > 5.0
    (size,) = when_any(far, lambda: (_quotient(s - 5.0, of.far),), (_quotient(s - 1.6, of.middle),))
    size = select(r.eq(0.0), INF, size)
    out = select(abs(q) <= 0.425, central, size.copysign(q))
    return select(r < 0.0, float("nan"), out)


@widened
def erfinv(x: V) -> V:
    """Inverse of the error function."""
    return quantile(x * 0.5, (1.0 - abs(x)) * 0.5) * ROOT_HALF


@widened
def ndtri(p: V) -> V:
    """The quantile of the standard normal distribution."""
    upper = p > 0.5
    return quantile(p - 0.5, select(upper, 1.0 - p, p))


@widened
def ndtr(x: V) -> V:
    """The standard normal distribution function."""
    t, error = two_product(x, x.like(-tables.ROOT_HALF[0]))
    return _erfc(t, mad(x, -tables.ROOT_HALF[1], error)) * 0.5


@widened
def log_ndtr(x: V) -> V:
    """Its logarithm, also where it vanishes."""
    size = abs(x)
    t, error = two_product(size, x.like(tables.ROOT_HALF[0]))
    scaled = _erfcx_positive(t)
    near = t < 0.5
    half = select(near, 1.0 - _erf_near(t), scaled) * 0.5
    lower = log(half) - select(near, 0.0, t * t)
    low = select(t < 28.0, mad(size, tables.ROOT_HALF[1], error), 0.0)
    upper = log1p(scaled * _exp_square(at_most(t, 28.0), low) * -0.5)
    return select(x < 0.0, lower, upper)
