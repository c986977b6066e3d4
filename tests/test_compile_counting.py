"""Compiled functions that count, and that take from iterators: right, and recorded once or twice."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "x + n": lambda x, n: x + n,
    "n - x": lambda x, n: n - x,
    "x * n": lambda x, n: x * n,
    "n * x": lambda x, n: n * x,
    "x / n": lambda x, n: x / n,
    "n / x": lambda x, n: n / x,
    "x // n": lambda x, n: x // n,
    "x % n": lambda x, n: x % n,
    "x < n": lambda x, n: x < n,
    "x == n": lambda x, n: x == n,
    "x += n": lambda x, n: x.clone().__iadd__(n),
    "whole numbers": lambda x, n: (x.long() * n, x.long() & n, x.long() << n),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operand_that_counts_is_read_at_each_call(operator: str) -> None:
    state = {"n": 0}

    def count(x: Any) -> Any:
        state["n"] += 1
        return OPERATORS[operator](x, state["n"])

    f = ad.compile(count, backend="interpret")
    x = ad.arange(1.0, 5.0)
    for n in range(1, 7):
        got, want = f(x), OPERATORS[operator](x, n)
        for a, b in zip(_list(got), _list(want), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
            assert a.dtype == b.dtype
        assert state["n"] == n
    assert f.traces <= 2


MEMBERS: dict[str, Any] = {
    "tuple": (3, 7), "list": [3, 7], "set": {3, 7}, "constant set": frozenset({3, 7}),
    "dict": {3: "a", 7: "b"}, "range": range(3, 10, 4),
}  # fmt: skip


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("start", [0, 0.0])
def test_a_count_that_is_looked_for_is_compared(kind: str, start: float) -> None:
    state, members = (
        {"n": start},
        MEMBERS[kind].copy() if kind in ("set", "dict") else MEMBERS[kind],
    )

    def look(x: Any) -> Any:
        state["n"] += 1
        return x * 2 if state["n"] in members else x

    f = ad.compile(look, backend="interpret")
    for n in range(1, 11):
        assert float(f(ad.ones(()))) == (2 if n in MEMBERS[kind] else 1)
    assert f.traces <= 4
    if kind in ("set", "dict"):
        members |= {12} if kind == "set" else {12: "c"}
        assert [float(f(ad.ones(()))) for _ in range(2)] == [1, 2]


ITERATORS: dict[str, Callable[[], Iterator[Any]]] = {
    "range": lambda: iter(range(1, 100)),
    "list": lambda: iter(list(range(1, 100))),
    "count": lambda: itertools.count(3),
    "zip": lambda: zip(range(50), itertools.count(2), strict=False),
    "enumerate": lambda: enumerate(range(5, 50)),
    "chain": lambda: itertools.chain([1, 2], range(7, 20)),
}


@pytest.mark.parametrize("kind", ITERATORS)
def test_whole_numbers_that_are_taken_are_read_at_each_call(kind: str) -> None:
    ours, same = ITERATORS[kind](), ITERATORS[kind]()
    f = ad.compile(lambda x: x * sum(_tuple(next(ours))), backend="interpret")
    for _ in range(6):
        assert float(f(ad.ones(()))) == sum(_tuple(next(same)))
    assert f.traces <= 2
    assert next(ours) == next(same)


def test_iterators_that_are_returned_are_at_their_place() -> None:
    def made(x: Any) -> Any:
        numbers = iter([x, x * 2, x * 3])
        next(numbers)
        counted = enumerate(numbers, 5)
        next(counted)
        others = (
            iter((x, 1)),
            iter(range(3)),
            iter("ab"),
            reversed([1, x]),
            zip([x, x], [1, 2], strict=True),
        )
        return numbers, counted, *others

    f = ad.compile(made, backend="interpret")
    for value in (1.0, 2.0):
        numbers, counted, *others = f(ad.tensor(value))
        their_numbers, their_counted, *theirs = made(ad.tensor(value))
        assert next(counted) == next(their_counted)
        assert list(numbers) == list(their_numbers) == []
        assert [type(x) for x in others] == [type(x) for x in theirs]
        assert [list(x) for x in others] == [list(x) for x in theirs]
    assert f.traces == 1


class _Epochs:
    """Elements of a list, one at a call, over and over."""

    def __init__(self) -> None:
        self.data = [1, 2, 3]
        self.rest: Iterator[int] | None = None

    def step(self, x: Any) -> Any:
        if self.rest is None:
            self.rest = iter(self.data)
        value = next(self.rest, None)
        if value is None:
            self.rest = None
            return -x
        return x * value


@pytest.mark.filterwarnings("ignore:.*was recorded")
def test_an_iterator_that_a_call_keeps_goes_on_in_the_next() -> None:
    compiled, plain = _Epochs(), _Epochs()
    step = ad.compile(compiled.step, backend="interpret")
    for call in range(14):
        if call == 6:
            compiled.data.append(9)
            plain.data.append(9)
        assert float(step(ad.ones(()))) == float(plain.step(ad.ones(())))


def test_paths_are_put_together() -> None:
    class Place:
        folder = "a"

        def __fspath__(self) -> str:
            return self.folder

    place = Place()
    path = lambda: os.path.join(place, "b", os.path.basename("c/d.txt"))
    f = ad.compile(lambda x: (x, path()), backend="interpret")
    for place.folder in ("a", "bc", "a"):
        assert f(ad.ones(()))[1] == path()


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
