"""Float arguments that change from call to call."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F


def test_a_float_that_changes_is_read_at_each_call() -> None:
    w = ad.ones(3, requires_grad=True)

    @ad.compile
    def step(x: Any, rate: float) -> Any:
        loss = (w * x).sum()
        (g,) = ad.autograd.grad(loss, w)
        with ad.no_grad():
            w.sub_(g * (rate * 0.5))
        return loss.detach(), rate

    want = np.ones(3, "float32")
    for i in range(12):
        rate = 0.1 / (i + 1)
        loss, back = step(ad.ones(3), rate)
        assert float(loss) == pytest.approx(want.sum(), rel=1e-5)
        assert back == rate
        want = want - rate * 0.5
    np.testing.assert_allclose(w.detach().numpy(), want, rtol=1e-5)
    assert step.traces == 2


def test_branches_on_a_float_are_guards() -> None:
    f = ad.compile(lambda x, t: x * t if t > 0.5 else x - t)
    for t in (0.1, 0.2, 0.3, 0.7, 0.8, 0.4, 0.9):
        want = 2 * t if t > 0.5 else 2 - t
        np.testing.assert_allclose(f(ad.full((2,), 2.0), t).numpy(), want, rtol=1e-6)
    assert f.traces == 3


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, t: x * math.sqrt(t),
        lambda x, t: x + len(str(t)) * 0 + float(t),
    ],
)
def test_a_function_that_needs_the_value_is_recorded_for_each(fn: Any) -> None:
    f = ad.compile(fn)
    for t in (0.1, 0.25, 0.5):
        x = ad.ones(2)
        np.testing.assert_allclose(f(x, t).numpy(), fn(x, t).numpy(), rtol=1e-6)
        f(x, t)


def test_keywords_containers_and_other_numbers() -> None:
    f = ad.compile(lambda x, *, options: x * options["scale"] + options["shift"][0])
    for i in range(5):
        out = f(ad.ones(2), options={"scale": 0.5 + i, "shift": (1.5 - i, 3)})
        np.testing.assert_allclose(out.numpy(), 2.0)
    assert f.traces == 2
    f(ad.ones(2), options={"scale": 0.5, "shift": (1.0, 4)})  # an int is a constant
    assert f.traces == 3


def test_signs_of_zero_and_nan() -> None:
    f = ad.compile(lambda x, t: ad.copysign(x, t))
    assert float(f(ad.ones(1), 0.0)) == 1.0
    assert float(f(ad.ones(1), -0.0)) == -1.0
    g = ad.compile(lambda x, t: x * t)
    for _ in range(3):
        assert math.isnan(float(g(ad.ones(1), math.nan)))
    assert g.traces == 1


def test_gradients_with_a_changing_float() -> None:
    w = ad.full((2,), 3.0, requires_grad=True)
    f = ad.compile(lambda t: (w**2 * t).sum())
    for t in (1.0, 2.0, 5.0, 7.0):
        (g,) = ad.autograd.grad(f(t), w)
        np.testing.assert_allclose(g.numpy(), 6.0 * t)
    assert f.traces == 2


def test_dropout_of_a_schedule() -> None:
    f = ad.compile(lambda x, p: F.dropout(x, p))
    for p in (0.1, 0.5, 0.9, 0.3):
        ad.manual_seed(0)
        want = F.dropout(ad.ones(50), p)
        ad.manual_seed(0)
        np.testing.assert_allclose(f(ad.ones(50), p).numpy(), want.numpy(), rtol=1e-6)


# How a number is put into a tensor, and whether that rounds what a half cannot hold to infinity.
FILLERS: dict[str, tuple[Any, bool]] = {
    "fill": (lambda x, s: x.clone().fill_(s), False),
    "full_like": (lambda x, s: ad.full_like(x, s), False),
    "masked_fill": (lambda x, s: x.masked_fill(x > 1, s), False),
    "index_fill": (lambda x, s: x.index_fill(0, ad.tensor([0]), s), False),
    "scatter": (lambda x, s: x.scatter(0, ad.tensor([0]), s), False),
    "an element": (lambda x, s: _put(x, 0, s), True),
    "by a mask": (lambda x, s: _put(x, x > 1, s), True),
    "by indices": (lambda x, s: _put(x, [0], s), True),
}
# A number, a dtype, and what it becomes; None: refused; "inf": so where that is rounding.
INTO: list[tuple[Any, str, Any]] = [
    (-1, "uint8", 255), (-1.5, "uint8", None), (256, "uint8", None), (255.5, "uint8", None),
    (2**40, "uint8", None), (2**40, "int32", None), (float("inf"), "int64", None),
    (float("nan"), "int64", None), (127.5, "int8", None), (-128, "int8", -128), (2.5, "int8", 2),
    (2**40, "float16", "inf"), (65520.0, "float16", "inf"), (-7e4, "float16", "inf"),
    (1e39, "bfloat16", "inf"), (1e39, "float32", None), (2**63, "bfloat16", 2.0**63),
    (float("-inf"), "float16", -float("inf")), (1 + 1j, "float32", None),
]  # fmt: skip


def _put(x: Any, key: Any, s: Any) -> Any:
    y = x.clone()
    y[key] = s
    return y


@pytest.mark.parametrize("name", FILLERS)
def test_numbers_that_do_not_fit_are_refused_at_each_call(name: str) -> None:
    """Eagerly, where the number is known to the recording, and where it changes between calls."""
    fill, rounds = FILLERS[name]
    for number, dtype, want in INTO:
        x = ad.tensor([3, 2, 0, 1], dtype=getattr(ad, dtype))
        changing = ad.compile(fill, backend="interpret")
        if not isinstance(number, complex):
            changing(x, type(number)(1))
        constant = ad.compile(lambda x, _, s=number: fill(x, s), backend="interpret")
        for run in (fill, changing, constant):
            if rounds and number == 2**63:  # assigned, a whole number is one of int64 first
                with pytest.raises(ValueError, match="overflow"):
                    run(x, number)
            elif want is None or (want == "inf" and not rounds):
                with pytest.raises(RuntimeError, match="overflow|complex"):
                    run(x, number)
            else:
                expected = math.copysign(math.inf, number) if want == "inf" else want
                assert run(x, number)[0].item() == expected, (number, dtype)


def test_multipliers_fit_the_integers_they_multiply() -> None:
    x = ad.tensor([3, 2], dtype=ad.int8)
    run = ad.compile(lambda x, s: ad.add(x, x, alpha=s), backend="interpret")
    assert run(x, 2).tolist() == [9, 6]
    for fn in (run, lambda x, s: ad.add(x, x, alpha=s), lambda x, s: ad.sub(x, x, alpha=s)):
        with pytest.raises(RuntimeError, match="overflow"):
            fn(x, 300)


SCALARS = [np.float32(2), np.float64(2), np.float16(2), np.int64(2), np.uint8(2)]
TAKERS: dict[str, Any] = {
    "min": lambda x, s: x.clamp(min=s),
    "max": lambda x, s: x.clamp(-1, s),
    "alpha": lambda x, s: ad.add(x, x, alpha=s),
    "value": lambda x, s: ad.addcmul(x, x, x, value=s),
    "where": lambda x, s: ad.where(x > 0, x, s),
    "weight": lambda x, s: ad.lerp(x, x + 1, s),
    "factor of one number": lambda x, s: x.sum() * s,
    "multiplied": lambda x, s: ad.mul(x.sum(), s),
    "filled": lambda x, s: ad.full((2,), s),
    "padded": lambda x, s: F.pad(x, (1, 1), value=s),
}


@pytest.mark.parametrize("name", TAKERS)
def test_numpy_s_numbers_are_numbers(name: str) -> None:
    take, x = TAKERS[name], ad.tensor([1.0, -2.0, 3.0])
    for scalar in SCALARS:
        want = take(x, scalar.item())
        closed = ad.compile(lambda x, s=scalar: take(x, s))
        for got in (take(x, scalar), closed(x), ad.compile(take)(x, scalar)):
            assert got.dtype is want.dtype, (name, type(scalar))
            np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("backend", ["interpret", "native"])
@pytest.mark.parametrize("number", [10**20, -(10**20), 2**64])
def test_integers_refuse_numbers_beyond_a_word(backend: str, number: int) -> None:
    held = {"k": number}
    for fn in (
        lambda x: x * held["k"],
        lambda x: x < held["k"],
        lambda x: x // number,
        lambda x: (x > 0) * number,
        lambda x: x / number,
    ):
        for run in (fn, ad.compile(fn, backend=backend)):
            with pytest.raises(OverflowError):
                run(ad.tensor([1, 2]))
    quotient = ad.compile(lambda x: x / float(number), backend=backend)(ad.tensor([1, 2]))
    np.testing.assert_allclose(quotient.numpy(), np.array([1, 2]) / number, rtol=1e-6)


@pytest.mark.parametrize(
    "numbers", [(1j, 2j, 3 + 1j, 2j), (0.5, 1.5, 2j, 1.5), (2, 3, 1j, 2)], ids=str
)
def test_complex_numbers_that_change(numbers: tuple[complex, ...]) -> None:
    held: dict[str, complex] = {}

    def fn(x: Any) -> Any:
        return complex(held["k"]) * x, x + held["k"], (held["k"] + 1j) * x

    f = ad.compile(fn)
    for held["k"] in numbers:
        for got, want in zip(f(ad.ones(2)), fn(ad.ones(2)), strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_gradients_by_an_index_that_is_drawn() -> None:
    draws = random.Random(1)
    w = ad.ones(2, 3, requires_grad=True)

    def fn(x: Any) -> Any:
        w.grad = None
        (w * x)[:, draws.randrange(3)].sum().backward()
        return w.grad

    f = ad.compile(fn)
    for k in range(6):
        state = draws.getstate()
        got = f(ad.full((2, 3), k))
        draws.setstate(state)
        assert got.tolist() == fn(ad.full((2, 3), k)).tolist()
