"""Attempts at draws of several elements at a time; `draws` makes those of one.

Note [attempts in lanes]
    Most draws need no second attempt, and most first ones are accepted by a test without
    logarithms. So the words, the proposal and that test are computed in lanes. Elements whose
    outcome is in doubt are collected and get the whole test, several at a time, then, if they
    were rejected, the next attempt; what is left of them in the end is computed one by one, from
    the beginning, as is what is refused. Each operation is that of `draws`, rounded in the same
    order: the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adjoint.engine.backends.array.kernels.random.device_samples import MOST_STEPS, SMALL_MEAN
from adjoint.engine.backends.llvm.templates.elements.draws import (
    Proposal,
    binomial_proposal,
    drawn,
    gamma_proposal,
    larger,
    poisson_proposal,
)
from adjoint.engine.backends.llvm.templates.elements.kernel import ElementWriter
from adjoint.engine.backends.registers.distributions import (
    centered,
    central_quantile,
    exp,
    is_tail,
    log,
    log1m,
    normal_quantile,
    unit,
)
from adjoint.engine.backends.registers.vector import V, any_of, select

Attempt = tuple[V, V]  # values, and where they are those of the draw


def where_any(e: ElementWriter, mask: V, value: Callable[[], V]) -> V:
    """Values, computed if any lane of the mask needs them; else zeros."""
    none = e.w.code.const(0.0, "f64", mask.lanes)
    return e.w.choose(any_of(mask), lambda: [value()], lambda: [none])[0]


def words_of(e: ElementWriter, retry: V | None) -> tuple[V, V]:
    """The two words of each element's attempt."""
    return drawn(e, e.operands[0], e.w.whole(0) if retry is None else retry)


def walked(e: ElementWriter, active: V, word: V, first: V, ratio: Callable[[V], V]) -> V:
    """`draws.walked` of the lanes that are active."""
    zero = word.convert("f64").like(0.0)
    uniform = select(active, unit(word), -1.0)

    def below(k: V, count: V, uniform: V, term: V, total: V) -> V:
        return any_of(uniform >= total) & e.w.lane(k < float(MOST_STEPS), 0)

    def step(k: V, count: V, uniform: V, term: V, total: V) -> list[V]:
        count = select(uniform >= total, k + 1.0, count)
        term = term * ratio(k)
        return [k + 1.0, count, select(term < 1e-18, -1.0, uniform), term, total + term]

    return e.w.repeat([zero, zero, uniform, first, first], below, step)[1]


def proposed(
    e: ElementWriter, words: tuple[V, V], retry: V | None, propose: Callable[[V, V, V], Proposal]
) -> Attempt:
    """A proposal, and where it is accepted: at first, without further tests."""
    u, distance = centered(words[0])
    proposal = propose(u, distance, 1.0 - unit(words[1]))
    return proposal.value, proposal.sure if retry is None else proposal.accepted(e)


def poisson(e: ElementWriter, retry: V | None) -> Attempt:
    """Counts of means; what is no mean is refused by itself."""
    mean, words = e.real(1), words_of(e, retry)
    few, many = (mean > 0.0) & (mean < SMALL_MEAN), mean >= SMALL_MEAN
    large, sure = rejected(e, many, lambda: proposed(e, words, retry, poisson_proposal(e, mean)))
    if retry is not None:  # few are counted at first
        return large, many & sure

    def walk() -> V:
        return walked(e, few, words[0], exp(-mean), lambda k: mean / (k + 1.0))

    small = where_any(e, few, walk)
    return select(few, small, large), few | (many & sure) | mean.eq(0.0)


def rejected(e: ElementWriter, mask: V, attempt: Callable[[], Attempt]) -> Attempt:
    """An attempt, made if any lane of the mask needs it; elsewhere zeros."""
    none = e.w.code.const(0.0, "f64", mask.lanes), e.w.code.const(False, "i1", mask.lanes)

    def made() -> list[V]:
        value, sure = attempt()
        return [select(mask, value, 0.0), sure]

    value, sure = e.w.choose(any_of(mask), made, lambda: [*none])
    return value, sure


def binomial(e: ElementWriter, retry: V | None) -> Attempt:
    """How many of so many come about."""
    n, p, words = e.real(1).floor(), e.real(2), words_of(e, retry)
    flipped = p > 0.5
    q = select(flipped, 1.0 - p, p)
    some = (n > 0.0) & (q > 0.0)
    few, many = some & (n * q < SMALL_MEAN), some & (n * q >= SMALL_MEAN)

    def walk() -> V:
        odds = q / (1.0 - q)
        begun = exp(n * log1m(q))
        return walked(e, few, words[0], begun, lambda k: larger(n - k, 0.0) / (k + 1.0) * odds)

    count, sure = rejected(e, many, lambda: proposed(e, words, retry, binomial_proposal(e, n, q)))
    done = many & sure
    if retry is None:  # few are counted at first
        count, done = select(few, where_any(e, few, walk), count), done | few
    return select(flipped, larger(n, 0.0) - count, count), done


def standard_gamma(e: ElementWriter, retry: V | None) -> Attempt:
    """Samples of shapes; at first, but for those in the tails of the normal they begin with."""
    w, word, shape = e.w, e.operands[0], e.real(1)
    first, second = words_of(e, retry)
    small = shape < 1.0
    d = select(small, shape + 1.0, shape) - 1.0 / 3.0
    u, distance = centered(first)
    x = central_quantile(u) if retry is None else normal_quantile(u, distance)
    proposal = gamma_proposal(d, x, 1.0 - unit(second))
    sample = d * proposal.value

    def lowered() -> list[V]:
        of = 1.0 - unit(drawn(e, word, w.whole(MOST_STEPS))[0])
        return [select(small, sample * exp(log(of) / shape), sample)]

    (scaled,) = w.choose(any_of(small), lowered, lambda: [sample])
    tiny = np.finfo(np.float64 if e.form.result == "f64" else np.float32).tiny
    done = proposal.sure & ~is_tail(distance) if retry is None else proposal.accepted(e)
    return larger(scaled, float(tiny)), done
