"""Dynamic sizes: one recording for many."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import models, nn
from adjoint.graph.extents import Extent, ExtentFloat, Scope, evaluate


def normal(*shape: int) -> Any:
    return ad.tensor(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def step_of(net: nn.Module, opt: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        value = loss(net(x), y)
        opt.zero_grad()
        value.backward()
        opt.step()
        return value

    return step


def mlp() -> Any:
    net = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3)
    )
    return step_of(net, ad.optim.SGD(net.parameters(), lr=0.01), F.cross_entropy)


def cnn() -> Any:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3)
    )
    return step_of(net, ad.optim.AdamW(net.parameters(), lr=0.01), F.cross_entropy)


def gpt() -> Any:
    net = models.GPT2(models.GPT2Config(17, 16, 16, 2, 2, 0.0))
    opt = ad.optim.AdamW(net.parameters(), lr=0.01)

    def loss(out: Any, y: Any) -> Any:
        return F.cross_entropy(out.reshape(-1, 17), y.reshape(-1))

    return step_of(net, opt, loss)


def tokens(batch: int, length: int) -> tuple[Any, Any]:
    x = ad.arange(batch * length).view(batch, length) % 17
    return x, (x + 1) % 17


def classes(n: int, *shape: int) -> tuple[Any, Any]:
    return normal(n, *shape), ad.arange(n) % 3


CASES: dict[str, tuple[Callable[[], Any], list[tuple[Any, ...]]]] = {
    "sum": (lambda: lambda x: (x * x).sum(), [(normal(n, 3),) for n in (4, 5, 9, 30)]),
    "mean": (lambda: lambda x: x.mean(0) / x.shape[0], [(normal(n, 3),) for n in (4, 5, 9, 30)]),
    "variance": (lambda: lambda x: x.var(0), [(normal(n, 3),) for n in (4, 5, 9, 30)]),
    "views": (
        lambda: lambda x: x.view(-1, 2, 3).transpose(0, 1).reshape(x.shape[0], -1)[1:-1],
        [(normal(n, 6),) for n in (4, 5, 9, 30)],
    ),
    "range": (
        lambda: lambda x: x * ad.arange(x.shape[0]).unsqueeze(1),
        [(normal(n, 3),) for n in (4, 5, 9, 30)],
    ),
    "two results": (
        lambda: lambda x, y: (x @ y, ad.cat([x, x], 1)),
        [(normal(n, m), normal(m, 3)) for n, m in ((4, 5), (6, 7), (9, 4), (5, 5))],
    ),
    "mlp": (mlp, [classes(n, 4) for n in (4, 6, 9, 32, 7)]),
    "cnn": (cnn, [classes(n, 1, 8, 8) for n in (4, 6, 9, 7)]),
    "gpt": (gpt, [tokens(*s) for s in ((2, 5), (3, 7), (4, 6), (5, 12))]),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_eager_with_few_recordings(name: str) -> None:
    make, calls = CASES[name]
    results = []
    for wrap in (lambda f: f, lambda f: ad.compile(f, dynamic=True)):
        ad.manual_seed(0)
        f = wrap(make())
        outs: list[Any] = []
        for args in calls:
            out = f(*args)
            outs += list(out) if isinstance(out, tuple) else [out]
        results.append(outs)
    for a, b in zip(*results, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert f.families.notes == []
    # One for the first sizes and one for the rest; another where sizes happened to be equal.
    assert f.traces <= 3


def test_marked_dimensions_are_dynamic_at_once() -> None:
    calls: list[Any] = []

    def f(x: Any) -> Any:
        calls.append(None)
        return x.sum(0) / x.shape[0]

    compiled = ad.compile(f)
    x = ad.ones(4, 3)
    ad.mark_dynamic(x, 0)
    compiled(x)
    count = len(calls)
    for n in (5, 2, 100):
        np.testing.assert_allclose(compiled(ad.ones(n, 3)).numpy(), 1.0)
    assert len(calls) == count
    assert compiled.traces == 1
    compiled(ad.ones(1, 3))  # a size of 1 broadcasts: a recording of its own
    assert compiled.traces == 2
    with pytest.raises(IndexError, match="dimension 5"):
        ad.mark_dynamic(x, 5)


def test_gradients_of_dynamic_programs() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    model = ad.compile(net, dynamic=True)
    for n in (3, 4, 7, 9):
        x = normal(n, 3).requires_grad_()
        want = ad.autograd.grad(net(x).pow(2).sum(), [x, *net.parameters()])
        got = ad.autograd.grad(model(x).pow(2).sum(), [x, *net.parameters()])
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert model._program.traces == 3  # 4 is also a size of the layers: by itself


def test_a_branch_on_a_size_is_a_guard() -> None:
    f = ad.compile(lambda x: x * 2 if x.shape[0] > 10 else x * 3, dynamic=True)
    for n in (4, 5, 6, 20, 7, 30, 40):
        np.testing.assert_allclose(f(ad.ones(n)).numpy(), 2.0 if n > 10 else 3.0)
    assert f.traces == 3


def test_roundings_are_followed() -> None:
    f = ad.compile(lambda x: x[: x.shape[0] // 2] * (2 if x.shape[0] % 2 else 3), dynamic=True)
    for n in (4, 5, 6, 7, 20, 31):
        np.testing.assert_allclose(f(ad.ones(n)).numpy(), np.full(n // 2, 2.0 if n % 2 else 3.0))
    assert f.traces == 3  # the first size, odd sizes, even sizes


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x: sum(x[i] * i for i in range(x.shape[0])), "at another size"),
        (lambda x: x * float(x.shape[0]), "at another size"),
    ],
)
def test_what_cannot_be_dynamic_is_recorded_size_by_size(fn: Any, reason: str) -> None:
    f = ad.compile(fn, dynamic=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (4, 5, 6, 7):
            x = normal(n, 2)
            np.testing.assert_allclose(f(x).numpy(), fn(x).numpy(), rtol=1e-6)
    assert f.traces == 4
    assert len(caught) == 1
    assert reason in str(caught[0].message)


def test_structural_changes_start_another_family() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    f = ad.compile(lambda x: net(x), dynamic=True)
    for n in (3, 4, 5):
        f(normal(n, 3))
    net.eval()
    for n in (4, 5, 6, 7):
        x = normal(n, 3)
        np.testing.assert_allclose(f(x).detach().numpy(), net(x).detach().numpy(), rtol=1e-6)
    assert f.traces <= 4


def test_extents_carry_their_polynomial() -> None:
    scope = Scope()
    n = Extent.symbol("n", 6, scope)
    m = Extent.symbol("m", 4, scope)
    sizes = {"n": 10, "m": 3}
    for fn in (
        lambda n, m: n + m * 2 - 1,
        lambda n, m: (n * m * 3) // n,
        lambda n, m: -n + n * n,
        lambda n, m: 5 - n,
        lambda n, m: (n * 8) // 4 + 0 * m,
    ):
        made = fn(n, m)
        assert made == fn(6, 4)
        assert evaluate(made.poly, sizes) == fn(10, 3)
    for real in (
        lambda n: 1 / n,
        lambda n: n / (n - 1) * 0.5,
        lambda n: n**-0.5,
        lambda n: n * 0.5,
    ):
        made = real(n)
        assert isinstance(made, ExtentFloat)
        assert made == pytest.approx(real(6))
        assert made.at(sizes) == pytest.approx(real(10))
    assert type(n - n) is int
    scope.guards.clear()
    assert n > 1  # always so
    assert n * m == m * n
    assert not scope.guards
    assert n > 5
    assert n % 4 == 2
    assert scope.allow({"n": 10, "m": 9})
    assert not scope.allow({"n": 11, "m": 9})
    assert evaluate((n // 4).poly, scope.complete({"n": 11, "m": 9})) == 2
    assert operator.index(n) == 6


def test_a_first_call_with_one_element_does_not_keep_later_sizes_apart() -> None:
    f = ad.compile(lambda x: (x * x).sum(0), dynamic=True)
    for n in range(1, 12):
        assert f(ad.ones(n, 3)).tolist() == [n] * 3
    assert f.traces == 3  # one element, two, and any number from two on
