"""Second derivatives of what is linear but for kinks: zeros, as in PyTorch (Note [kinks])."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

F = nn.functional
CASES: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "prelu": lambda x: F.prelu(x, ad.tensor([0.25], dtype=ad.float64)),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.5),
    "relu6": F.relu6,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "max_pool1d": lambda x: F.max_pool1d(x.view(1, 1, -1), 2).view(-1),
}
POINTS = [-1.2, -0.3, 0.4, 0.9]


def gradient(fn: Callable[[Any], Any], x: Any) -> Any:
    (g,) = ad.autograd.grad(fn(x).sum(), x, create_graph=True)
    return g


@pytest.mark.parametrize("name", CASES)
def test_gradients_lead_back_to_the_input(name: str) -> None:
    fn = CASES[name]
    x = ad.tensor(POINTS, dtype=ad.float64, requires_grad=True)
    g = gradient(fn, x)
    ahead = (x.detach() + 1e-4).requires_grad_()
    by_differences = (gradient(fn, ahead) - g).detach().numpy() / 1e-4
    assert g.requires_grad
    (second,) = ad.autograd.grad((g * ad.arange(4)).sum(), x)
    assert second.dtype is ad.float64
    np.testing.assert_array_equal(second.numpy(), by_differences)
    gradient(fn, x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), by_differences)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", CASES)
def test_zeros_lead_back_behind_a_relu(name: str) -> None:
    """As in PyTorch, whose `relu` alone of these tells by its result which side it was on."""
    x = ad.tensor(POINTS, dtype=ad.float64, requires_grad=True)
    g = gradient(lambda x: CASES[name](2 * x), x)
    (second,) = ad.autograd.grad(g.sum(), x, create_graph=True)
    assert second.requires_grad is (name == "relu")
    if second.requires_grad:
        (third,) = ad.autograd.grad((second + 1).square().sum(), x)
        np.testing.assert_array_equal(third.numpy(), np.zeros(4))


def test_zeros_for_what_was_not_used_want_gradients_in_a_graph() -> None:
    x, y = (ad.ones(2, requires_grad=True) for _ in range(2))
    for graph in (False, True):
        options = {"create_graph": graph, "materialize_grads": True}
        (_, unused) = ad.autograd.grad((x * x).sum(), (x, y), **options)
        assert unused.requires_grad is graph
        assert unused.is_leaf


def test_penalties_on_gradients() -> None:
    """The penalty does not change with the biases: they are given zeros; the weights, gradients."""
    net = nn.Sequential(
        nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.LeakyReLU(), nn.Linear(4, 1)
    )
    x = ad.randn(5, 3, requires_grad=True)

    def penalty() -> Any:
        return (gradient(net, x).norm(dim=1) - 1).square().mean()

    penalty().backward()
    weights, biases = ([getattr(net[i], n) for i in (0, 2, 4)] for n in ("weight", "bias"))
    for weight, want in zip(weights, ad.autograd.grad(penalty(), weights), strict=True):
        assert ad.equal(weight.grad, want)
        assert want.abs().sum().item() > 0
    assert biases[0].grad.tolist() == biases[1].grad.tolist() == [0] * 4
    assert biases[2].grad is None  # the gradient does not lead there
    assert x.grad.abs().sum().item() == 0  # type: ignore[union-attr]


def test_compiled_penalties() -> None:
    b = ad.tensor([0.5, 0.5], requires_grad=True)

    @ad.compile
    def step(x: Any) -> Any:
        gradient(lambda v: (v * v + b).relu(), x).sum().backward()

    x = ad.tensor([1.0, -2.0], requires_grad=True)
    step(x)
    assert x.grad.tolist() == [2, 2]  # type: ignore[union-attr]
    assert b.grad.tolist() == [0, 0]  # type: ignore[union-attr]


def test_zeros_are_added_to_nothing() -> None:
    """What another way leads to has that way's gradient; hooks of leaves are called once."""
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    w = ad.tensor([3.0, 4.0], requires_grad=True)
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    g = gradient(lambda v: (v * w).relu(), x)
    seen.clear()
    (g.sum() + (x * x).sum()).backward()
    assert x.grad.tolist() == [2, 4]  # type: ignore[union-attr]
    assert w.grad.tolist() == [1, 1]  # type: ignore[union-attr]
    assert seen == [[2, 4]]


def test_batches_of_cotangents_and_inner_tensors() -> None:
    x = ad.tensor([1.0, -2.0], requires_grad=True)
    inner = x * 3
    (g,) = ad.autograd.grad(inner.relu().sum(), inner, create_graph=True)
    (rows,) = ad.autograd.grad(g, x, ad.eye(2), is_grads_batched=True, retain_graph=True)
    assert rows.tolist() == [[0, 0], [0, 0]]
    assert ad.autograd.grad(g.sum(), inner)[0].tolist() == [0, 0]


def test_what_is_not_reached_is_refused() -> None:
    x, y = (ad.ones(2, requires_grad=True) for _ in range(2))
    g = gradient(ad.relu, x)
    with pytest.raises(RuntimeError, match="not have been used"):
        ad.autograd.grad(g.sum(), y)


@pytest.mark.parametrize("larger", [ad.maximum, ad.fmax])
@pytest.mark.parametrize("size", [1, 5000])
@pytest.mark.parametrize("compiled", [False, True])
def test_what_loses_has_no_gradient_where_the_cotangent_is_no_number(
    larger: Any, size: int, compiled: bool
) -> None:
    def run(x: Any, y: Any, g: Any) -> Any:
        upper = ad.autograd.grad(larger(x, y), [x, y], g)
        return *upper, *ad.autograd.grad(-larger(-x, -y), [x, y], g)

    x = ad.ones(size, 2, requires_grad=True)
    y = ad.tensor([2.0, 3.0]).repeat(size, 1).requires_grad_()
    g = ad.tensor([float("nan"), float("inf")]).repeat(size, 1)
    of_x, of_y, below_x, below_y = (ad.compile(run) if compiled else run)(x, y, g)
    assert not of_x.any()
    assert not below_y.any()
    for won in (of_y, below_x):
        assert won[:, 0].isnan().all()
        assert won[:, 1].isposinf().all()
