"""Orthogonal polynomials by their recurrences, as `array.kernels.special.polynomials` has them.

The degree is an operand: elements of a vector go on together until the last has reached its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adjoint.engine.backends.llvm.templates.elements.kernel import ElementWriter
from adjoint.engine.backends.registers.math.inverse import acos
from adjoint.engine.backends.registers.math.trigonometric import cos, sin
from adjoint.engine.backends.registers.vector import V, any_of, select, when_any

Step = Callable[[V, V, V], V]  # (k, p_k, p_(k-1)) -> p_(k+1)
HIGHEST = 2.0**53
MOST = {"f32": 128.0, "f64": 512.0}  # degrees of Hermite polynomials that are not NaN


def recur(e: ElementWriter, n: V, first: V, step: Step) -> V:
    """p_n from p_0 = 1, p_1 = first and the recurrence; each element stops at its degree."""
    w, lanes = e.w, n.lanes
    result = select(n.eq(0.0), 1.0, select(n < 0.0, 0.0, first))
    last = select(first.isnan(), 0.0, n)

    def goes_on(k: V, last: V, result: V, now: V, before: V) -> V:
        return any_of(last > w.code.splat(k, lanes))

    def turn(k: V, last: V, result: V, now: V, before: V) -> list[V]:
        number = w.code.splat(k, lanes)
        new = step(number, now, before)
        result = select(last > number, new, result)
        # What is far beyond a float stays so: no more turns for it.
        return [k + 1.0, select(new.isnan(), 0.0, last), result, new, now]

    return w.repeat([e.number(1.0), last, result, first, n.like(1.0)], goes_on, turn)[2]


def degree(n: V) -> V:
    """The degree as a whole number; NaN counts as 0."""
    whole = n.trunc()
    whole = select(whole < -1.0, -1.0, select(whole > HIGHEST, HIGHEST, whole))
    return select(n.isnan(), 0.0, whole)


def chebyshev(
    e: ElementWriter,
    first: Callable[[V], V],
    ends: Callable[[V], tuple[V | float, V | float]],
    inside: Callable[[V, V], V],
    above: float,
) -> V:
    """One of the four kinds: its p_1, its values at 1 and -1, and its form by angles."""
    x, n = e.real(0), degree(e.real(1))
    by_angle = (abs(x) < 1.0) & (n > above)
    at_end = abs(x).eq(1.0)
    steps = select((by_angle | at_end) & (n > 1.0), 1.0, n)
    twice = x + x
    result = recur(e, steps, first(x), lambda k, p, q: twice * p - q)
    within = select(by_angle, x, 0.0)
    (result,) = when_any(by_angle, lambda: (inside(acos(within), n),), (result,))
    one, minus_one = ends(n)
    sign = 1.0 - (n - (n * 0.5).floor() * 2.0) * 2.0
    edge = select(x > 0.0, n.like(one), sign * minus_one)
    return select(n < 0.0, 0.0, select(at_end, edge, result))


def hermite(e: ElementWriter, scale: float) -> V:
    """p_(k+1) = s x p_k - s k p_(k-1): He for s = 1, H for s = 2. Overflow is NaN, as PyTorch's."""
    x, n = e.real(0), degree(e.real(1))
    most = MOST[e.form.result]
    y = x * scale
    steps = select(n > most, most + 1.0, n)
    exact = recur(e, steps, y, lambda k, p, q: y * p - (k * scale) * q)
    nan = float("nan")
    if e.form.result == "f32":
        rounded = exact.convert("f32").convert("f64")
        infinite = abs(rounded).eq(float("inf")) & (abs(exact) < float("inf"))
        exact = select(infinite, nan, exact)
    return select(n > most, nan, exact)


def laguerre(e: ElementWriter) -> V:
    """Of an order."""
    x, n = e.real(0), degree(e.real(1))
    order = e.parameter(x)

    def step(k: V, p: V, q: V) -> V:
        return ((k * 2.0 + 1.0 + order - x) * p - (k + order) * q) / (k + 1.0)

    return recur(e, n, order + 1.0 - x, step)


def gegenbauer(e: ElementWriter) -> V:
    """Of an order."""
    x, n = e.real(0), degree(e.real(1))
    order = e.parameter(x)

    def step(k: V, p: V, q: V) -> V:
        top = (k + order) * 2.0 * x * p - (k + order * 2.0 - 1.0) * q
        return top / (k + 1.0)

    return recur(e, n, order * 2.0 * x, step)


POLYNOMIALS: dict[str, Callable[[ElementWriter], V]] = {
    "chebyshev_polynomial_t": partial(
        chebyshev,
        first=lambda x: x,
        ends=lambda n: (1.0, 1.0),
        inside=lambda a, n: cos(n * a),
        above=6.0,
    ),
    "chebyshev_polynomial_u": partial(
        chebyshev,
        first=lambda x: x + x,
        ends=lambda n: (n + 1.0, n + 1.0),
        inside=lambda a, n: sin((n + 1.0) * a) / sin(a),
        above=8.0,
    ),
    "chebyshev_polynomial_v": partial(
        chebyshev,
        first=lambda x: x + x - 1.0,
        ends=lambda n: (1.0, n + n + 1.0),
        inside=lambda a, n: cos((n + 0.5) * a) / cos(a * 0.5),
        above=8.0,
    ),
    "chebyshev_polynomial_w": partial(
        chebyshev,
        first=lambda x: x + x + 1.0,
        ends=lambda n: (n + n + 1.0, 1.0),
        inside=lambda a, n: sin((n + 0.5) * a) / sin(a * 0.5),
        above=8.0,
    ),
    "hermite_polynomial_h": partial(hermite, scale=2.0),
    "hermite_polynomial_he": partial(hermite, scale=1.0),
    "laguerre_polynomial": laguerre,
    "gegenbauer_polynomial": gegenbauer,
}
