"""Kernels of gamma samples and of their implicit derivative.

Samples are made by rejection in portable arithmetic (Marsaglia, Tsang 2000: A simple method for
generating gamma variables); a shape below 1 is raised by 1 and the sample scaled by u^(1/a).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.kernels.elementwise.layouts import as_operands
from adjoint.engine.backends.array.kernels.random import device_samples, portable
from adjoint.engine.backends.array.kernels.random.device_samples import MOST_STEPS, STREAMS
from adjoint.engine.backends.array.kernels.random.distributions import unit
from adjoint.engine.backends.array.kernels.random.philox import scattered
from adjoint.engine.backends.array.kernels.random.tensor_parameters import reject
from adjoint.engine.backends.array.kernels.special.scipy_functions import function
from adjoint.engine.backends.array.table import lowers, lowers_on_gpu, on_device
from adjoint.engine.ops.random.gamma_samples import (
    STANDARD_GAMMA,
    STANDARD_GAMMA_DRAWN,
    STANDARD_GAMMA_GRAD,
)

Array = Any
NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)


def least_of(shape: Array) -> float:
    """The least sample."""
    return float(np.finfo(np.float64 if shape.dtype.itemsize == 8 else np.float32).tiny)


@lowers_on_gpu(STANDARD_GAMMA_DRAWN)
def standard_gamma_drawn(xp: Any, shape: Array, seed: int, offset: int) -> Array:
    return device_samples.drawn(xp, "gamma", shape, seed, offset, least_of(shape))


@lowers(STANDARD_GAMMA)
def standard_gamma(xp: Any, words: Array, shape: Array) -> Array:
    tiny = least_of(shape)
    if on_device(xp):
        return device_samples.gamma(xp, words, shape, tiny)
    full = np.broadcast_shapes(words.shape, shape.shape)
    ids = xp.broadcast_to(words, full).reshape(-1).view(np.uint64)
    a = xp.broadcast_to(shape, full).reshape(-1).astype(np.float64)
    small = a < 1.0
    d = xp.where(small, a + 1.0, a) - 1.0 / 3.0
    c = 1.0 / xp.sqrt(d * 9.0)

    def propose(left: Array, u: Array, distance: Array, v: Array) -> tuple[Array, Array]:
        x = portable.normal_quantile(xp, u, distance)
        root = x * c[left] + 1.0
        positive = root > 0
        cube = xp.where(positive, root * root * root, 1.0)
        level = x * x * 0.5 + d[left] * (1.0 - cube + portable.log(cube))
        return cube, positive & (portable.log(v) < level)

    samples = d * reject(xp, ids, propose)
    where = xp.flatnonzero(small)
    if where.size:
        u = 1.0 - unit(xp, scattered(xp, STREAMS, ids[where], MOST_STEPS)[0])
        samples[where] *= portable.exp(xp, portable.log(u) / a[where])
    samples = xp.maximum(samples, tiny)
    return xp.where(xp.isnan(a), a, samples).reshape(full).astype(shape.dtype)


def _series(xp: Any, a: Array, x: Array) -> Array:
    """x sum of x^k / (a)_(k+1) (psi(a + k + 1) - log x): all terms positive for x <= a."""
    log_x = xp.log(x)
    psi = function(xp, "psi")(a + 1.0)
    term = 1.0 / a
    total = term * (psi - log_x)
    for k in range(1, 500):
        term = term * x / (a + k)
        psi = psi + 1.0 / (a + k)
        total = total + term * (psi - log_x)
        if k % 16 == 0 and bool(xp.all(term * (xp.abs(psi - log_x) + 1.0) < 1e-17 * total)):
            break
    return x * total


def _quadrature(xp: Any, a: Array, x: Array, sign: float) -> Array:
    """The integral of (log t - psi(a)) (t/x)^(a-1) e^(x-t) over t beyond x (or, negated, below)."""
    slope = xp.abs(x - a + 1.0) / x
    width = 1.0 / (slope + 1.0 / xp.sqrt(x)) * 2.0
    if sign < 0:
        width = xp.minimum(width, x)
    psi = function(xp, "psi")(a)
    total = xp.zeros_like(x)
    for node, weight in zip(NODES.tolist(), WEIGHTS.tolist(), strict=True):
        v = 0.5 * (node + 1.0)
        if sign > 0:  # s = width v / (1 - v) covers all that follows x
            s, jacobian = width * (v / (1.0 - v)), width / (1.0 - v) ** 2
        else:  # s = width v / (1 - v (1 - width / x)) covers [0, x]
            rest = 1.0 - v * (1.0 - width / x)
            s, jacobian = width * v / rest, width / rest**2
        ratio = xp.maximum(1.0 + sign * s / x, 1e-300)
        weighted = xp.exp((a - 1.0) * xp.log(ratio) - sign * s) * jacobian
        total = total + (0.5 * weight) * weighted * (xp.log(x * ratio) - psi)
    return total if sign > 0 else -total


@lowers(STANDARD_GAMMA_GRAD)
@as_operands
def standard_gamma_grad(xp: Any, shape: Array, sample: Array) -> Array:
    full = np.broadcast_shapes(shape.shape, sample.shape)
    a = xp.broadcast_to(shape, full).reshape(-1).astype(np.float64)
    x = xp.broadcast_to(sample, full).reshape(-1).astype(np.float64)
    out = xp.full(a.shape, np.nan)
    sound = (a > 0) & (x > 0)
    below = x <= xp.maximum(a, 1.0)
    ways = (
        (sound & below & (a <= 100.0), _series),
        (sound & below & (a > 100.0), lambda xp, a, x: _quadrature(xp, a, x, -1.0)),
        (sound & ~below, lambda xp, a, x: _quadrature(xp, a, x, 1.0)),
    )
    for mask, compute in ways:
        where = xp.flatnonzero(mask)
        if where.size:
            out[where] = compute(xp, a[where], x[where])
    return out.reshape(full).astype(shape.dtype)
