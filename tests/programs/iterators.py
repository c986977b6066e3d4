"""Programs that take from iterators made outside, and draw numbers."""

from __future__ import annotations

import itertools
import random
import types
import weakref
from typing import Any

import numpy as np

import adjoint as ad

from .playing import Wrap, changed, ones, program, times, tried

COUNT = 0
CALLS: list[int] = []


@program
def iterator_from_outside(wrap: Wrap) -> Any:
    it = iter([1.0, 2.0, 3.0])
    run = wrap(lambda x: x * next(it))
    return times(run, n=5)


@program
def iterator_with_default(wrap: Wrap) -> Any:
    it = iter((1.0, 2.0))
    return times(wrap(lambda x: x * next(it, 9.0))), tried(next, it)


@program
def iterator_shared_with_outside(wrap: Wrap) -> Any:
    s = [1.0, 2.0, 3.0, 4.0, 5.0]
    it = iter(s)
    run = wrap(lambda x: x * next(it))
    out = [run(ones(1)), next(it), run(ones(1)), run(ones(1))]
    return out, list(it)


@program
def iterator_whose_list_changes(wrap: Wrap) -> Any:
    s = [1.0, 2.0]
    it = iter(s)
    run = wrap(lambda x: x * next(it))
    out = [run(ones(1))]
    s[1] = 7.0
    s.append(8.0)
    return [*out, run(ones(1)), run(ones(1)), tried(run, ones(1))]


@program
def rest_of_an_iterator(wrap: Wrap) -> Any:
    it = iter(range(4))

    def f(x: Any) -> Any:
        for k in it:
            x = x + k
        return x

    return times(wrap(f), n=3)


@program
def some_of_an_iterator(wrap: Wrap) -> Any:
    it = iter(range(7))

    def f(x: Any) -> Any:
        for k in it:
            x = x + k
            if k % 3 == 2:
                break
        return x

    return times(wrap(f)), list(it)


@program
def count_from_outside(wrap: Wrap) -> Any:
    it = itertools.count(1)
    return times(wrap(lambda x: x * next(it))), next(it)


@program
def count_with_step_in_condition(wrap: Wrap) -> Any:
    it = itertools.count(0, 2)

    def f(x: Any) -> Any:
        return x * 2 if next(it) > 3 else x

    return times(wrap(f)), next(it)


@program
def cycle_from_outside(wrap: Wrap) -> Any:
    it = itertools.cycle([1.0, 2.0, 3.0])
    return times(wrap(lambda x: x * next(it)), n=7), next(it)


@program
def zipped_and_enumerated_from_outside(wrap: Wrap) -> Any:
    a, b = enumerate("abc"), zip([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], strict=True)

    def f(x: Any) -> Any:
        i, letter = next(a)
        p, q = next(b)
        return x * i + p * q + len(letter)

    return times(wrap(f)), list(a), list(b)


@program
def mapped_from_outside(wrap: Wrap) -> Any:
    scale = [2.0]
    it = map(lambda v: v * scale[0], [1.0, 2.0, 3.0])  # noqa: C417
    run = wrap(lambda x: x * next(it))
    out = [run(ones(1))]
    scale[0] = 10.0
    return [*out, run(ones(1)), run(ones(1)), tried(run, ones(1))]


@program
def generator_from_outside(wrap: Wrap) -> Any:
    def rates() -> Any:
        rate = 1.0
        while rate > 0.2:
            yield rate
            rate *= 0.5

    it = rates()
    return times(wrap(lambda x: x * next(it)), n=5)


@program
def generator_that_is_sent_to(wrap: Wrap) -> Any:
    def average() -> Any:
        total, count = 0.0, 0
        mean = None
        while True:
            value = yield mean
            total, count = total + value, count + 1
            mean = total / count

    g = average()
    next(g)
    run = wrap(lambda x, v: x * g.send(v))
    return [run(ones(1), v) for v in (1.0, 3.0, 5.0)]


@program
def batches_from_a_loader(wrap: Wrap) -> Any:
    data = iter([ones(2) * k for k in range(4)])

    def f(w: Any) -> Any:
        return (next(data) * w).sum()

    return times(wrap(f), n=5)


@program
def islice_of_outside(wrap: Wrap) -> Any:
    it = iter(range(10))
    run = wrap(lambda x: x + sum(itertools.islice(it, 3)))
    return times(run, n=4), list(it)


@program
def own_iterator_class(wrap: Wrap) -> Any:
    class Up:
        n = 0

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            self.n += 1
            if self.n > 3:
                raise StopIteration
            return self.n

    it = Up()
    return times(wrap(lambda x: x * next(it, 50))), it.n


@program
def generator_inside(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(n=2)

    def layers(x: Any) -> Any:
        for k in range(s.n):
            x = x * (k + 2)
            yield x

    def f(x: Any) -> Any:
        s.n += 1
        return list(layers(x))[-1]

    return times(wrap(f)), s.n


@program
def draws_of_random(wrap: Wrap) -> Any:
    random.seed(3)
    run = wrap(lambda x: x * random.random() + random.gauss(0, 1) + random.uniform(1, 2))
    return times(run), random.random()


@program
def draws_of_whole_numbers(wrap: Wrap) -> Any:
    random.seed(4)
    run = wrap(lambda x: x * random.randint(1, 6))
    return times(run), random.random()


@program
def choices_and_shuffles(wrap: Wrap) -> Any:
    random.seed(5)
    deck = list(range(5))

    def f(x: Any) -> Any:
        random.shuffle(deck)
        return x * random.choice(deck) + random.sample(deck, 2)[0]

    return times(wrap(f)), deck, random.random()


@program
def branch_on_a_draw(wrap: Wrap) -> Any:
    random.seed(6)
    run = wrap(lambda x: x * 2 if random.random() < 0.5 else x)
    return times(run, n=8), random.random()


@program
def own_generator_of_random(wrap: Wrap) -> Any:
    r = random.Random(1)
    run = wrap(lambda x: x * r.random())
    out = [run(ones(1)), r.random(), run(ones(1))]
    r.seed(1)
    return [*out, run(ones(1))]


@program
def drawn_index_on_the_tape(wrap: Wrap) -> Any:
    r = random.Random(1)
    w = ones(2, 3).requires_grad_()

    def f(x: Any) -> Any:
        loss = (w * x)[:, r.randrange(3)].sum() + (w * x)[r.randrange(2)].prod()
        w.grad = None
        loss.backward()
        return loss, w.grad

    run = wrap(f)
    return [run(ones(2, 3) + k) for k in range(5)], r.random()


@program
def draws_of_numpy(wrap: Wrap) -> Any:
    g = np.random.default_rng(0)
    np.random.seed(0)
    run = wrap(lambda x: x * g.random() + float(np.random.rand()) + g.normal())
    return times(run), g.random(), np.random.rand()


@program
def arrays_of_numpy_drawn(wrap: Wrap) -> Any:
    g = np.random.default_rng(0)
    run = wrap(lambda x: x + ad.from_numpy(g.normal(size=2).astype(np.float32)))
    return times(run), g.random()


@program
def whole_numbers_of_numpy(wrap: Wrap) -> Any:
    g = np.random.default_rng(0)
    run = wrap(lambda x: x[int(g.integers(0, 4))] * 2)
    return times(run, ad.arange(4.0)), g.random()


@program
def draws_of_tensors(wrap: Wrap) -> Any:
    ad.manual_seed(0)
    g = ad.Generator().manual_seed(1)

    def f(x: Any) -> Any:
        return x + ad.rand(2) + ad.randn(2, generator=g) + ad.randint(0, 9, (2,)) + ad.randperm(2)

    out = times(wrap(f))
    ad.manual_seed(0)
    again = wrap(f)(ones(2))
    return out, again, ad.rand(1), ad.rand(1, generator=g)


@program
def seeding_inside(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        ad.manual_seed(7)
        return x + ad.rand(2)

    return times(wrap(f)), ad.rand(1)


class Weight:
    """A number whose truth, sum and equality are Python's."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __bool__(self) -> bool:
        return self.number > 2

    def __add__(self, other: Any) -> Any:
        return Weight(self.number * other.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weight) and self.number == other.number

    def __hash__(self) -> int:
        return 1


ASKING: dict[str, Any] = {
    "filtered": lambda weights: len(list(filter(None, weights))),
    "filtered_by_answer": lambda weights: len(list(filter(lambda w: w, weights))),
    "filtered_out": lambda weights: len(list(itertools.filterfalse(None, weights))),
    "taken_while": lambda weights: len(list(itertools.takewhile(lambda w: w, weights))),
    "dropped_while": lambda weights: len(list(itertools.dropwhile(lambda w: w, weights))),
    "compressed": lambda weights: len(list(itertools.compress("abc", weights))),
    "accumulated": lambda weights: list(itertools.accumulate(weights))[-1].number,
    "accumulated_from": lambda weights: (
        list(itertools.accumulate(weights, lambda a, b: a + b, initial=Weight(2.0)))[-1].number
    ),
    "grouped": lambda weights: len(list(itertools.groupby(weights))),
}


def _asked(name: str) -> Any:
    def asked(wrap: Wrap) -> Any:
        weights = [Weight(3.0), Weight(3.0), Weight(1.0)]
        return changed(
            wrap,
            lambda x: x * ASKING[name](weights),
            lambda: setattr(weights[2], "number", 5.0),
            lambda: setattr(weights[0], "number", 0.5),
        )

    asked.__name__ = name
    asked.__module__ = __name__
    return asked


for _name in ASKING:
    program(_asked(_name))


@program
def numbers_that_are_one_object(wrap: Wrap) -> Any:
    at = types.SimpleNamespace(a=5, b=5)

    def f(x: Any) -> Any:
        return x * (2.0 if at.a is at.b else 3.0)

    changes = [("b", 6), ("a", 6), ("a", 7), ("b", 7)]
    return changed(wrap, f, *[lambda c=c: setattr(at, *c) for c in changes])


@program
def callback_at_the_end_of_an_object(wrap: Wrap) -> Any:
    log: list[int] = []

    def f(x: Any) -> Any:
        weakref.finalize(Weight(1.0), log.append, 1)
        return x * len(log)

    return times(wrap(f), n=3), log
