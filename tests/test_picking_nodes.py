"""Extremes, orders and means on the tape: one node each, of values that are no views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.state.context import CONTEXT

Array = np.ndarray[Any, Any]
Pick = Callable[[Any], Any]

PICKS: dict[str, tuple[Pick, Callable[[Array], Array], int]] = {
    # name: (call, where NumPy finds the values, the dimension)
    "max": (lambda x: x.max(1, True), lambda a: a.argmax(1)[:, None], 1),
    "max without its dimension": (lambda x: x.max(1), lambda a: a.argmax(1)[:, None], 1),
    "max of the last": (lambda x: x.max(-1), lambda a: a.argmax(-1)[..., None], -1),
    "min": (lambda x: x.min(0), lambda a: a.argmin(0)[None], 0),
    "topk": (lambda x: x.topk(2), lambda a: np.argsort(-a, -1, kind="stable")[..., :2], -1),
    "least": (
        lambda x: x.topk(3, 0, largest=False),
        lambda a: np.argsort(a, 0, kind="stable")[:3],
        0,
    ),
    "sort": (lambda x: x.sort(stable=True), lambda a: np.argsort(a, -1, kind="stable"), -1),
    "sort down": (
        lambda x: x.sort(1, descending=True, stable=True),
        lambda a: np.argsort(-a, 1, kind="stable"),
        1,
    ),
}
SHAPES = [(3, 4), (4, 5, 2), (40, 50), (3, 1)]


def drawn(shape: tuple[int, ...], seed: int) -> Array:
    """Numbers among which none are equal."""
    return np.random.default_rng(seed).permutation(np.prod(shape)).reshape(shape) / 8 - 1


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("pick", "places", "dim"), PICKS.values(), ids=PICKS)
def test_picks_and_where_their_gradients_go(
    pick: Pick, places: Callable[[Array], Array], dim: int, shape: tuple[int, ...]
) -> None:
    """Called often enough that programs take over; derivatives of derivatives too."""
    if pick is PICKS["topk"][0] and shape[-1] < 2:
        pytest.skip("a line of one has no two largest")
    for seed in range(24):
        a = drawn(shape, seed)
        x = ad.tensor(a, requires_grad=True)
        values, at = pick(x)
        where = places(a)
        want = np.take_along_axis(a, where, dim)
        np.testing.assert_array_equal(values.detach().numpy(), want.reshape(values.shape))
        np.testing.assert_array_equal(at.numpy(), where.reshape(at.shape))
        assert not at.requires_grad
        (slope,) = ad.autograd.grad((values**3).sum(), x, create_graph=True)
        first, second = np.zeros(shape), np.zeros(shape)
        np.put_along_axis(first, where, 3 * want**2, dim)
        np.put_along_axis(second, where, 6 * want, dim)
        np.testing.assert_allclose(slope.detach().numpy(), first, rtol=1e-14)
        (again,) = ad.autograd.grad(slope.sum(), x)
        np.testing.assert_allclose(again.numpy(), second, rtol=1e-14)


@pytest.mark.parametrize(("pick", "places", "dim"), PICKS.values(), ids=PICKS)
def test_values_can_be_overwritten_and_positions_cannot(
    pick: Pick, places: Callable[[Array], Array], dim: int
) -> None:
    a = drawn((3, 4), 5)
    for _ in range(24):
        x = ad.tensor(a, requires_grad=True)
        values, at = pick(x)
        assert not values._is_view()
        assert not at._is_view()
        assert len(values.grad_fn.next_functions) == 1
        assert type(values.grad_fn.next_functions[0][0]).__name__ == "AccumulateGrad"
        values.mul_(2)
        values.sum().backward()
        want = np.zeros(a.shape)
        np.put_along_axis(want, places(a), 2, dim)
        np.testing.assert_array_equal(x.grad.numpy(), want)
        values, at = pick(x)
        at.add_(0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            values.sum().backward()


@pytest.mark.parametrize("pick", [c[0] for c in PICKS.values()], ids=PICKS)
def test_picks_of_equal_numbers_and_nans_are_the_tables(pick: Pick) -> None:
    """Bit for bit, signs of zeros and gradients too."""
    rng = np.random.default_rng(3)
    for _ in range(24):
        a = rng.choice([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf], (4, 6))
        found = []
        for reference in (True, False):
            with CONTEXT.having(reference=reference):
                x = ad.tensor(a, requires_grad=True)
                values, at = pick(x)
                values.backward(ad.arange(1.0, 1 + values.numel()).double().reshape(values.shape))
                found.append([t.detach().numpy().tobytes() for t in (values, at, x.grad)])
        assert found[0] == found[1]


@pytest.mark.parametrize("dims", [None, 0, 1, -1, (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.complex64], ids=str)
def test_a_mean_is_one_node(dims: Any, keepdim: bool, dtype: Any) -> None:
    a = np.random.default_rng(4).normal(size=(3, 4, 5))
    axes = dims if dims is not None else (0, 1, 2)
    for _ in range(24):
        x = ad.tensor(a).to(dtype).requires_grad_()
        out = x.mean(dims, keepdim)
        want = a.mean(axes, keepdims=keepdim)
        np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-5, atol=1e-6)
        assert type(out.grad_fn).__name__ == "MeanBackward0"
        assert type(out.grad_fn.next_functions[0][0]).__name__ == "AccumulateGrad"
        ways = ad.arange(1.0, 1 + out.numel()).reshape(out.shape).to(dtype)
        out.backward(ways)
        share = ways.numpy() * (want.size / a.size)
        whole = share if keepdim else np.expand_dims(share, axes)
        np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(whole, a.shape), rtol=1e-6)


def test_means_of_nothing_and_of_one() -> None:
    x = ad.zeros(0, requires_grad=True)
    x.mean().backward()
    assert x.grad.shape == (0,)
    y = ad.tensor(3.0, requires_grad=True)
    y.mean().backward()
    assert (y.mean().item(), y.grad.item()) == (3.0, 1.0)


def test_a_mean_to_second_order() -> None:
    x = ad.tensor([1.0, 2.0, 5.0], dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradcheck(lambda x: (x**3).mean(), (x,))
    assert ad.autograd.gradgradcheck(lambda x: (x**3).mean(), (x,))
