"""Draws that walk or reject, to the bits of `array.kernels.random`, from whose text they follow.

No multiply-add is fused, and each operation is rounded in the order of the eager kernel's. Words
name streams of their own; a retry is another block of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from adjoint.engine.backends.array.kernels.random.device_samples import (
    FACTORIAL,
    HALF_LOG_TAU,
    MOST_STEPS,
    SMALL_MEAN,
    STIRLING,
    STREAMS,
)
from adjoint.engine.backends.llvm.templates.elements.kernel import ElementWriter
from adjoint.engine.backends.registers.distributions import (
    centered,
    central_quantile,
    exp,
    is_tail,
    log,
    log1m,
    polynomial,
    tail_quantile,
    unit,
)
from adjoint.engine.backends.registers.philox import scattered
from adjoint.engine.backends.registers.vector import V, any_of, literal, select

_TABLE = "@adjoint.stirling_tails"


def larger(x: V, y: V | float) -> V:
    """The larger of two numbers; NaN where the first is."""
    return select((x > y) | x.isnan(), x, y)


def smaller(x: V, y: V | float) -> V:
    """The smaller of two numbers; NaN where the first is."""
    return select((x < y) | x.isnan(), x, y)


def drawn(e: ElementWriter, word: V, retry: V) -> tuple[V, V]:
    """The two words of a retry in the stream that a word names."""
    seed = e.w.code.const(STREAMS, "u64")
    return scattered(seed, word.bitcast("u64"), e.w.code.splat(retry.convert("u32"), word.lanes))


def walked(e: ElementWriter, word: V, first: V, ratio: Callable[[V], V]) -> V:
    """The k at which the sum of probabilities, first * ratio(0) * ... , passes a uniform number."""
    w = e.w
    uniform = unit(drawn(e, word, w.whole(0))[0])

    def below(k: V, uniform: V, term: V, total: V) -> V:
        return (uniform >= total) & (k < float(MOST_STEPS))

    def step(k: V, uniform: V, term: V, total: V) -> Sequence[V]:
        term = term * ratio(k)
        # Rounding may leave the whole sum below the largest uniform numbers.
        return [k + 1.0, select(term < 1e-18, -1.0, uniform), term, total + term]

    return w.repeat([e.number(0.0), uniform, first, first], below, step)[0]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A value that may be accepted: surely, surely not, or as a test says."""

    value: V
    sure: V
    hopeless: V
    test: Callable[[], V]

    def accepted(self, e: ElementWriter) -> V:
        """Whether it is; few are looked at."""
        if self.sure.lanes > 1:
            return self.sure | (self.test() & ~self.hopeless)
        doubtless = self.sure | self.hopeless
        return e.w.choose(doubtless, lambda: [self.sure], lambda: [self.test()])[0]


def rejected(e: ElementWriter, word: V, propose: Callable[[V, V, V], Proposal]) -> V:
    """The first proposal accepted: propose(u, distance, v) gives it."""
    w = e.w

    def refused(retry: V, sample: V, accepted: V) -> V:
        return ~accepted & (retry < MOST_STEPS)

    def again(retry: V, sample: V, accepted: V) -> Sequence[V]:
        first, second = drawn(e, word, retry)
        u, distance = centered(first)
        proposal = propose(u, distance, 1.0 - unit(second))
        return [retry + 1, proposal.value, proposal.accepted(e)]

    none = w.code.const(False, "i1")
    return w.repeat([w.whole(0), e.number(0.0), none], refused, again)[1]


def log_factorial(e: ElementWriter, k: V) -> V:
    """log(k!) for k >= 0, by Stirling's series from k + 1 = 7 on."""
    start = k + 1.0
    small = start < 7.0
    x = select(small, start + 7.0, start)
    inverse = 1.0 / x
    tail = polynomial(inverse * inverse, FACTORIAL) * inverse
    value = (x - 0.5) * log(x) - x + HALF_LOG_TAU + tail

    def lowered() -> list[V]:
        product = start
        for i in range(1, 7):
            product = select(small, product * (start + float(i)), 1.0)
        return [select(small, value - log(product), value)]

    return e.w.choose(any_of(small), lowered, lambda: [value])[0]


# -- poisson ------------------------------------------------------------------------------------


def poisson(e: ElementWriter) -> V:
    """A count of a mean that is not negative."""
    w, word, mean = e.w, e.operands[0], e.real(1)
    e.refuse_unless(mean >= 0.0)

    def few() -> list[V]:
        return [walked(e, word, exp(-mean), lambda k: mean / (k + 1.0))]

    def many() -> list[V]:
        return [rejected(e, word, poisson_proposal(e, mean))]

    def some() -> list[V]:
        return w.choose(mean < SMALL_MEAN, few, many)

    return w.choose(mean > 0.0, some, lambda: [e.number(0.0)])[0]


def poisson_proposal(e: ElementWriter, mean: V) -> Callable[[V, V, V], Proposal]:
    """Hörmann's transformed rejection."""
    b = mean.sqrt() * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    quick = 0.9277 - 3.6224 / (b - 2.0)

    def propose(u: V, distance: V, v: V) -> Proposal:
        k = ((a * 2.0 / distance + b) * u + mean + 0.43).floor()
        sure = (distance >= 0.07) & (v <= quick)
        hopeless = (k < 0.0) | ((distance < 0.013) & (v > distance))
        count = larger(k, 0.0)

        def fits() -> V:  # what is needed here alone is computed here
            log_inverse_alpha = log(1.1328 / (b - 3.4) + 1.1239)
            slope = log(a / (distance * distance) + b)
            level = log(v) + log_inverse_alpha - slope
            return level <= count * log(mean) - mean - log_factorial(e, count)

        return Proposal(count, sure, hopeless, fits)

    return propose


# -- binomial -----------------------------------------------------------------------------------


def binomial(e: ElementWriter) -> V:
    """How many of so many come about."""
    w, word = e.w, e.operands[0]
    n, p = e.real(1).floor(), e.real(2)
    flipped = p > 0.5
    q = select(flipped, 1.0 - p, p)

    def few() -> list[V]:
        odds = q / (1.0 - q)
        first = exp(n * log1m(q))
        return [walked(e, word, first, lambda k: larger(n - k, 0.0) / (k + 1.0) * odds)]

    def some() -> list[V]:
        return w.choose(
            n * q < SMALL_MEAN, few, lambda: [rejected(e, word, binomial_proposal(e, n, q))]
        )

    # An infinite number of trials has no mean to compare where the probability is zero.
    (count,) = w.choose((n > 0.0) & (q > 0.0), some, lambda: [e.number(0.0)])
    count = select(flipped, larger(n, 0.0) - count, count)
    return select(n.isnan() | p.isnan(), float("nan"), count)


def binomial_proposal(e: ElementWriter, n: V, p: V) -> Callable[[V, V, V], Proposal]:
    """Hörmann's transformed rejection."""
    deviation = (n * p * (1.0 - p)).sqrt()
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 - 0.0873 + p * 0.01
    center = n * p + 0.5
    quick = 0.92 - 4.2 / b

    def propose(u: V, distance: V, v: V) -> Proposal:
        k = ((a * 2.0 / distance + b) * u + center).floor()
        inside = (k >= 0.0) & (k <= n)
        sure = (distance >= 0.07) & (v <= quick) & inside
        count = smaller(larger(k, 0.0), n)

        def fits() -> V:
            alpha = (5.1 / b + 2.83) * deviation
            odds = p / (1.0 - p)
            mode = ((n + 1.0) * p).floor()
            level = log(v * alpha / (a / (distance * distance) + b))
            bound = (mode + 0.5) * log((mode + 1.0) / (odds * (n - mode + 1.0)))
            bound = bound + (n + 1.0) * log((n - mode + 1.0) / (n - count + 1.0))
            bound = bound + (count + 0.5) * log(odds * (n - count + 1.0) / (count + 1.0))
            for sign, at in ((1.0, mode), (1.0, n - mode), (-1.0, count), (-1.0, n - count)):
                bound = bound + stirling_tail(e, at) * sign
            return level <= bound

        return Proposal(count, sure, ~inside, fits)

    return propose


def stirling_tail(e: ElementWriter, k: V) -> V:
    """log(k!) less its Stirling approximation."""
    items = ", ".join(f"double {literal(x, 'f64')}" for x in STIRLING)
    e.w.code.declarations.add(f"{_TABLE} = internal constant [{len(STIRLING)} x double] [{items}]")
    x = k + 1.0
    square = x * x
    series = (1 / 12 - (1 / 360 - (1 / 1260) / square) / square) / x
    # What is not near, NaN among it, has no place in the table; nor have lanes of which nothing is
    # asked, whose parameters may be anything.
    near = (k >= 0.0) & (k <= 9.0)

    def looked_up() -> list[V]:
        places = lanes_of(e, select(near, k, 0.0).convert("i64"))
        return [select(near, e.w.gather(_TABLE, "f64", places), series)]

    return e.w.choose(any_of(near), looked_up, lambda: [series])[0]


def lanes_of(e: ElementWriter, x: V) -> list[V]:
    """The lanes of a value, each by itself."""
    return [x] if x.lanes == 1 else [e.w.lane(x, k) for k in range(x.lanes)]


# -- gamma --------------------------------------------------------------------------------------


def gamma_proposal(d: V, x: V, v: V) -> Proposal:
    """A cube of which a sample is d times as much, of a normal and a uniform number."""
    c = 1.0 / (d * 9.0).sqrt()
    root = x * c + 1.0
    positive = root > 0.0
    cube = select(positive, root * root * root, 1.0)

    # Marsaglia and Tsang: v < 1 - 0.0331 x**4 implies what is asked, if d >= 2/3. The margin is
    # more than what rounding makes of either side, so that no sample changes.
    square = x * x
    surely = v < 1.0 - square * square * 0.0331 - (d * 1e-14 + 1e-9)
    sure = surely & positive & (d > 0.6666666)

    def fits() -> V:
        return log(v) < x * x * 0.5 + d * (1.0 - cube + log(cube))

    return Proposal(cube, sure, ~positive, fits)


def standard_gamma(e: ElementWriter) -> V:
    """A sample of a shape, by Marsaglia's and Tsang's rejection."""
    w, word, shape = e.w, e.operands[0], e.real(1)
    small = shape < 1.0
    d = select(small, shape + 1.0, shape) - 1.0 / 3.0

    def propose(u: V, distance: V, v: V) -> Proposal:
        (x,) = w.choose(
            is_tail(distance),
            lambda: [tail_quantile(u, distance)],
            lambda: [central_quantile(u)],
        )
        return gamma_proposal(d, x, v)

    def of_number() -> list[V]:
        sample = d * rejected(e, word, propose)

        def lowered() -> list[V]:
            u = 1.0 - unit(drawn(e, word, w.whole(MOST_STEPS))[0])
            return [sample * exp(log(u) / shape)]

        (scaled,) = w.choose(small, lowered, lambda: [sample])
        tiny = np.finfo(np.float64 if e.form.result == "f64" else np.float32).tiny
        return [larger(scaled, float(tiny))]

    return w.choose(shape.isnan(), lambda: [shape], of_number)[0]
