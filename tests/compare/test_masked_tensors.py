"""Masked and nested tensors, and values at the edges of what is defined, beside PyTorch."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402

pytestmark = pytest.mark.compare
RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(3, 4)).astype(np.float32)
MASK = RNG.uniform(size=(3, 4)) < 0.6
OTHER = RNG.normal(size=(3, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's prototypes
        yield


REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "var", "std", "argmax", "argmin", "all")
MASKED = {
    **{name: lambda m, x, n=name: getattr(x, n)() for name in REDUCTIONS},
    **{f"{name} 1": lambda m, x, n=name: getattr(x, n)(dim=1) for name in REDUCTIONS},
    **{name: lambda m, x, n=name: getattr(m, n)(x) for name in ("exp", "neg", "sigmoid", "floor")},
    "add": lambda m, x: 1 + x * x,
    "plain": lambda m, x: x * m.tensor(OTHER),
    "compare": lambda m, x: x < 0,
    "moved": lambda m, x: m.cat([x.t(), x.t()])[1:, 2],
    "where": lambda m, x: m.where(m.tensor(OTHER) > 0, x, m.tensor(OTHER)),
    "softmax": lambda m, x: x.softmax(1),
}


@pytest.mark.parametrize("name", sorted(MASKED))
def test_masked(name: str) -> None:
    want = MASKED[name](torch, torch.masked.masked_tensor(torch.tensor(DATA), torch.tensor(MASK)))
    got = MASKED[name](ad, ad.masked.masked_tensor(ad.tensor(DATA), ad.tensor(MASK)))
    np.testing.assert_array_equal(got.get_mask().numpy(), want.get_mask().numpy())
    one, two = got.to_tensor(0).numpy(), want.to_tensor(0).numpy()
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax"])
def test_masked_gradients(name: str) -> None:
    grads = []
    for m in (torch, ad):
        x = m.masked.masked_tensor(m.tensor(DATA), m.tensor(MASK), requires_grad=True)
        getattr(x * x, name)().backward()
        grads.append(x.grad.to_tensor(0).numpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5, atol=1e-6)


NESTED = {
    "narrow": lambda m: m.nested.narrow(
        m.tensor(DATA), 1, m.tensor([0, 1, 2]), m.tensor([2, 3, 1]), layout=m.jagged
    ),
    "masked_select": lambda m: m.nested.masked_select(m.tensor(DATA), m.tensor(MASK)),
    "chunk": lambda m: rows(m).chunk(2, -1)[1],
    "cat": lambda m: m.cat([rows(m), rows(m) * 2], -1),
    "softmax": lambda m: rows(m).softmax(1),
    "select": lambda m: rows(m).select(-1, 2),
}


def rows(m: Any) -> Any:
    return m.nested.nested_tensor([m.tensor(DATA), m.tensor(OTHER[:2])], layout=m.jagged)


@pytest.mark.parametrize("name", sorted(NESTED))
def test_nested(name: str) -> None:
    pairs = zip(NESTED[name](ad).unbind(), NESTED[name](torch).unbind(), strict=True)
    for one, two in pairs:
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-6, atol=1e-6)


EDGES = [0.0, -0.0, 5.0, -5.0, 0.5, -2.5, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_have_pytorchs_signs(dtype: str) -> None:
    x, y = np.meshgrid(np.array(EDGES, dtype), np.array(EDGES, dtype))
    want = torch.remainder(torch.tensor(x), torch.tensor(y)).numpy()
    for remainder in (ad.remainder, ad.compile(ad.remainder)):
        got = remainder(ad.tensor(x), ad.tensor(y)).numpy()
        np.testing.assert_array_equal(got, want)
        kept = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[kept]), np.signbit(want[kept]))
