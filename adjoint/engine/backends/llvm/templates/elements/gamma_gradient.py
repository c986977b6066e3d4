"""The implicit derivative of gamma samples, by the formulas of `array.kernels.random`."""

from __future__ import annotations

import numpy as np

from adjoint.engine.backends.array.kernels.random.gamma_samples import NODES, WEIGHTS
from adjoint.engine.backends.llvm.templates.elements.kernel import ElementWriter
from adjoint.engine.backends.registers.math.exponential import exp
from adjoint.engine.backends.registers.math.gamma import digamma
from adjoint.engine.backends.registers.math.logarithm import log
from adjoint.engine.backends.registers.vector import V, literal, select

TERMS = 500  # of the series at most
_NODES, _WEIGHTS = "@adjoint.legendre_nodes", "@adjoint.legendre_weights"


def standard_gamma_grad(e: ElementWriter) -> V:
    """dx/da of a sample at its shape."""
    w, a, x = e.w, e.real(0), e.real(1)
    sound = (a > 0.0) & (x > 0.0)
    below = x <= select(a > 1.0, a, 1.0)

    def small() -> list[V]:
        return w.choose(
            a <= 100.0, lambda: [series(e, a, x)], lambda: [quadrature(e, a, x, below=True)]
        )

    def found() -> list[V]:
        return w.choose(below, small, lambda: [quadrature(e, a, x, below=False)])

    return w.choose(sound, found, lambda: [e.number(float("nan"))])[0]


def series(e: ElementWriter, a: V, x: V) -> V:
    """x sum of x^k / (a)_(k+1) (psi(a + k + 1) - log x), until nothing more is added."""
    log_x = log(x)
    first, psi = 1.0 / a, digamma(a + 1.0)

    def goes_on(k: V, term: V, psi: V, total: V) -> V:
        adds = term * (abs(psi - log_x) + 1.0) >= total * 1e-17
        return (k < float(TERMS)) & adds

    def add(k: V, term: V, psi: V, total: V) -> list[V]:
        term = term * x / (a + k)
        psi = psi + 1.0 / (a + k)
        return [k + 1.0, term, psi, total + term * (psi - log_x)]

    start = [e.number(1.0), first, psi, first * (psi - log_x)]
    return x * e.w.repeat(start, goes_on, add)[3]


def quadrature(e: ElementWriter, a: V, x: V, *, below: bool) -> V:
    """The integral of (log t - psi(a)) (t/x)^(a-1) e^(x-t) over t beyond x (or, negated, below)."""
    w, sign = e.w, -1.0 if below else 1.0
    slope = abs(x - a + 1.0) / x
    width = 1.0 / (slope + 1.0 / x.sqrt()) * 2.0
    if below:
        width = select(width < x, width, x)
    psi = digamma(a)
    nodes, weights = (_table(e, name, values) for name, values in _TABLES)

    def add(i: V, total: V) -> list[V]:
        v = (w.load(nodes, "f64", i) + 1.0) * 0.5
        rest = 1.0 - v * (1.0 - width / x) if below else 1.0 - v
        s, jacobian = width * v / rest, width / (rest * rest)
        ratio = 1.0 + sign * s / x
        ratio = select(ratio > 1e-300, ratio, 1e-300)
        weighted = exp((a - 1.0) * log(ratio) - sign * s) * jacobian
        weight = w.load(weights, "f64", i) * 0.5
        return [total + weight * weighted * (log(x * ratio) - psi)]

    (total,) = w.loop(0, w.whole(len(NODES)), add, [e.number(0.0)])
    return -total if below else total


_TABLES = ((_NODES, NODES), (_WEIGHTS, WEIGHTS))


def _table(
    e: ElementWriter, name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> str:
    items = ", ".join(f"double {literal(float(x), 'f64')}" for x in values)
    e.w.code.declarations.add(f"{name} = internal constant [{len(values)} x double] [{items}]")
    return name
