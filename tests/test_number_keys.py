"""Numbers that Python calls equal and operations do not: everywhere they decide what is replayed."""

from __future__ import annotations

import decimal
import itertools
import math
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
from adjoint.engine.capture.program.hosts import reader
from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.graph.ir import frozen

# No two of them are the same to an operation.
UNLIKE: list[Any] = [
    0, 0.0, -0.0, False, 1, 1.0, True, 0j, complex(-0.0, 0.0), complex(0.0, -0.0), 1 + 0j, math.nan,
    math.inf, "0", None, np.float64(0.0), np.float64(-0.0), np.float32(0.0), np.int64(0),
    decimal.Decimal("0"), decimal.Decimal("-0"), (0.0,), (-0.0,), (0,), (False,), ((0.0,),),
    ((-0.0,),), frozenset({1}), frozenset({1.0}), frozenset({True}),
]  # fmt: skip


@pytest.mark.parametrize("key", [number_key, frozen])
def test_unlike_values_have_unlike_keys(key: Any) -> None:
    for a, b in itertools.combinations(UNLIKE, 2):
        assert key(a) != key(b), (a, b)


# Of all characters there are, hypothesis would make a table first, which takes seconds.
TEXTS = st.text(st.sampled_from("a0é ΣЖ\n\0"))


@given(st.one_of(st.floats(), st.complex_numbers(), st.integers(), st.booleans(), TEXTS))
def test_a_value_has_the_key_of_its_copy(x: Any) -> None:
    again = x + type(x)() if isinstance(x, str) else type(x)(x)
    assert number_key(x) == number_key(again)
    assert hash(number_key(x)) == hash(number_key(again))
    assert number_key((x, (x,))) == number_key((again, (again,)))


def test_nans_are_alike() -> None:
    assert number_key(float("nan")) == number_key(-float("nan"))


SIGNS = (0.0, -0.0, 0.0, 2.0, -0.0)


def sign_of(x: Any) -> float:
    return math.copysign(1.0, float(x))


def of_an_argument() -> Any:
    f = ad.compile(lambda x, s: x.copysign(s))
    return lambda s: f(ad.ones(()), s)


def of_an_expression() -> Any:
    f = ad.compile(lambda x, s: (x.copysign(s * 0.0), x.copysign(s * -0.0)))
    return lambda s: f(ad.ones(()), s)[0]


def of_a_global() -> Any:
    held = types.SimpleNamespace(s=0.0)
    f = ad.compile(lambda x: x.copysign(held.s))

    def call(s: float) -> Any:
        held.s = s
        return f(ad.ones(()))

    return call


def of_a_tuple() -> Any:
    held = {"s": (0.0,)}
    f = ad.compile(lambda x: x.copysign(held["s"][0]))

    def call(s: float) -> Any:
        held["s"] = (s,)
        return f(ad.ones(()))

    return call


def of_a_complex_argument() -> Any:
    f = ad.compile(lambda x, z: x.copysign(z.imag))
    return lambda s: f(ad.ones(()), complex(1.0, s))


def of_a_numpy_argument() -> Any:
    f = ad.compile(lambda x, z: x.copysign(float(z)))
    return lambda s: f(ad.ones(()), np.float64(s))


def of_a_key() -> Any:
    f = ad.compile(lambda xs: next(x.copysign(s) for s, x in xs.items()))
    return lambda s: f({s: ad.ones(())})


@pytest.mark.parametrize(
    "make",
    [of_an_argument, of_an_expression, of_a_global, of_a_tuple, of_a_complex_argument,
     of_a_numpy_argument, of_a_key],
)  # fmt: skip
def test_signs_of_zeros_are_told_apart(make: Any) -> None:
    call = make()
    for s in SIGNS:
        assert sign_of(call(s)) == math.copysign(1.0, s), s


def test_products_with_either_zero_are_two_numbers() -> None:
    f = ad.compile(lambda x, s: (x.copysign(s * 0.0), x.copysign(s * -0.0)))
    for s in (1.0, 2.0, -3.0):
        plus, minus = f(ad.ones(()), s)
        assert (sign_of(plus), sign_of(minus)) == (math.copysign(1.0, s), -math.copysign(1.0, s))
    rate: Any = HostScalar(lambda: 2.0)
    assert [math.copysign(1, x) for x in reader([rate * 0.0, rate * -0.0])()] == [1, -1]
    kinds = [type(x) for x in reader([rate * 1, rate * True, rate**1])()]
    assert kinds == [float, float, float]


@pytest.mark.parametrize("kind", ["argument", "key", "global"])
def test_types_of_equal_numbers_are_told_apart(kind: str) -> None:
    held: dict[str, Any] = {"s": 1}
    functions = {
        "argument": ad.compile(lambda x, s: x * s),
        "key": ad.compile(lambda xs: next(x * s for s, x in xs.items())),
        "global": ad.compile(lambda x: x * held["s"]),
    }
    f = functions[kind]
    for s in (1, 1.0, True, 1 + 0j, 1, True):
        x = ad.ones(2, dtype=ad.bool)
        held["s"] = s
        got = f(x, s) if kind == "argument" else f({s: x}) if kind == "key" else f(x)
        assert got.dtype is (x * s).dtype, s


def test_a_guard_on_a_value_tells_zeros_apart() -> None:
    held = ad.optim.SGD([ad.ones(1, requires_grad=True)], lr=0.5)

    def rate(x: Any) -> Any:
        return x.copysign(float(held.param_groups[0]["lr"]))

    f = ad.compile(rate)
    for lr in (0.0, -0.0, 0.0, math.nan, math.nan):
        held.param_groups[0]["lr"] = lr
        assert sign_of(f(ad.ones(()))) == math.copysign(1.0, lr), lr
    assert f.traces <= 3  # read at each call, or recorded for each
