"""Losses and layers at their edges: as PyTorch, or as the finite difference where it is not."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
from tests.compare.bridge import ours  # noqa: E402

pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]

Array = np.ndarray[Any, Any]
Loss = Callable[..., Any]  # (library, *tensors) -> tensor


def results(lib: Any, fn: Loss, arrays: list[Array]) -> list[Array | None]:
    """The value, and the gradient of its sum by each floating array."""
    xs = [lib.tensor(a.tolist(), dtype=getattr(lib, str(a.dtype))) for a in arrays]
    floats = [x.requires_grad_() for x in xs if x.dtype.is_floating_point]
    out = fn(lib, *xs)
    out.sum().backward()
    grads = [None if x.grad is None else np.array(x.grad.tolist()) for x in floats]
    return [np.array(out.detach().tolist()), *grads]


def agree(fn: Loss, *arrays: Array) -> None:
    for got, want in zip(results(ad, fn, [*arrays]), results(torch, fn, [*arrays]), strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-12)  # type: ignore[arg-type]


def numerical(fn: Loss, x: Array) -> Array:
    """The gradient of PyTorch's own values by x, by central differences."""
    out = np.empty_like(x)
    for place in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        high, low = (fn(torch, torch.tensor(x + s)).sum().item() for s in (step, -step))
        out[place] = (high - low) / 2e-6
    return out


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_of_targets_that_cannot_be_aligned(reduction: str, zero_infinity: bool) -> None:
    x = np.random.default_rng(0).normal(size=(3, 2, 4))
    log_p = x - np.log(np.exp(x).sum(2, keepdims=True))
    silent = log_p.copy()
    silent[:, 0, :2] = -np.inf  # neither the blank nor the first label can be said
    targets = np.array([[1, 1, 2], [1, 2, 3]])
    reads, lengths = [(3, 3), (2, 3), (0, 3)], [(3, 2), (3, 3), (0, 1)]
    for p, steps, labels in itertools.product((log_p, silent), reads, lengths):
        agree(
            lambda lib, p, t, steps=steps, labels=labels: lib.nn.functional.ctc_loss(
                p, t, steps, labels, reduction=reduction, zero_infinity=zero_infinity
            ),
            p,
            targets,
        )


def test_clusters_without_targets_get_no_gradient() -> None:
    for targets in ([1, 5, 3], [1], [11, 12], [2, 5, 19]):
        theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10]).double()
        here = ad.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10]).double()
        here.load_state_dict({k: ours(v) for k, v in theirs.state_dict().items()})
        x = torch.randn(len(targets), 16, dtype=torch.float64)
        theirs(x, torch.tensor(targets)).loss.backward()
        here(ours(x), ad.tensor(targets)).loss.backward()
        for p, q in zip(here.parameters(), theirs.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-12)


SCALED: list[Loss] = [
    lambda lib, x: x * 0,
    lambda lib, x: 0 * x,
    lambda lib, x: x / float("inf"),
    lambda lib, x: x**0,
    lambda lib, x: lib.add(x, x, alpha=0),
    lambda lib, x: x.sign() + x.floor(),
    lambda lib, x: x.clamp(5, 6),
    lambda lib, x: lib.nn.functional.hardswish(x - 9),
]


@pytest.mark.parametrize("cotangent", [float("inf"), float("nan")])
def test_infinite_gradients_through_factors_of_zero(cotangent: float) -> None:
    for fn in SCALED:
        agree(lambda lib, x, fn=fn: fn(lib, x) * cotangent, np.array([1.0, -2.0]))


def test_bce_at_certain_events() -> None:
    """PyTorch's gradient by the target is infinite at inputs 0 and 1, though the loss is cut off
    at 100 and linear in the target: its own values say 100, and so do we."""
    x, y = np.array([0.0, 0, 1, 1, 0.3, 1e-20]), np.array([0.0, 1, 0, 1, 0, 1])
    weight = [0.5, 2.0, 3.0, 1.0, 1.0, 1.0]

    def loss(lib: Any, x: Any, y: Any) -> Any:
        w = lib.tensor(weight, dtype=lib.float64)
        return lib.nn.functional.binary_cross_entropy(x, y, w, reduction="none")

    agree(lambda lib, x: loss(lib, x, lib.tensor(y, dtype=lib.float64)), x)
    slope = numerical(lambda lib, t: loss(lib, lib.tensor(x), t), y / 2 + 0.25)
    np.testing.assert_allclose(results(ad, loss, [x, y])[2], slope, rtol=1e-6)  # type: ignore[arg-type]
    for lib in (torch, ad):
        with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"):
            loss(lib, lib.tensor(x), lib.tensor(y + 0.5))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_cross_map_gradients_are_those_of_the_values(size: int) -> None:
    """PyTorch's backward sums a window that is off by one channel: not its values' derivative."""

    def normalised(lib: Any, x: Any) -> Any:
        return lib.nn.CrossMapLRN2d(size, 0.5, 0.75, 2.0)(x)

    x = np.random.default_rng(size).normal(size=(1, 6, 2, 1))
    value, grad = results(ad, normalised, [x])
    np.testing.assert_allclose(value, normalised(torch, torch.tensor(x)).numpy(), rtol=1e-9)  # type: ignore[arg-type]
    np.testing.assert_allclose(grad, numerical(normalised, x), rtol=1e-5, atol=1e-8)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_scaled_by_frequency(mode: str) -> None:
    """PyTorch's CPU kernel looks the count up at the wrong place: it divides the gradient of row 5
    below by the count of row 1. Its `embedding`, which scales too, is the judge."""
    table = np.random.default_rng(0).normal(size=(6, 3))
    index = [[0, 1, 1, 2], [1, 5, 5, 0]]

    def pooled(lib: Any, w: Any) -> Any:
        rows = lib.tensor(index)
        if lib is ad:
            bags = lib.nn.functional.embedding_bag(rows, w, mode=mode, scale_grad_by_freq=True)
        else:
            bags = lib.nn.functional.embedding(rows, w, scale_grad_by_freq=True)
            bags = getattr(bags, mode)(1)
        return bags * lib.tensor([[1.0], [2.0]], dtype=lib.float64)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(pooled, table)


@pytest.mark.parametrize(
    ("a", "b", "ends"),
    [
        ((6, 16), (3, 16, 8), [2, 4, 6]),
        ((3, 4, 16), (16, 8), [2, 4, 8]),
        ((4, 16), (16, 8), [4, 8, 16]),
        ((3, 4, 16), (3, 16, 8), None),
    ],
)
def test_grouped_products(a: Any, b: Any, ends: Any) -> None:
    rng = np.random.default_rng(0)

    def product(lib: Any, x: Any, y: Any) -> Any:
        offs = None if ends is None else lib.tensor(ends, dtype=lib.int32)
        return lib.nn.functional.grouped_mm(x, y, offs=offs)

    x, y = rng.normal(size=a), rng.normal(size=b)
    got, want = (product(lib, *(lib.tensor(v).float() for v in (x, y))) for lib in (ad, torch))
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dimension", [1, 5, 40])
def test_sobol_points(dimension: int) -> None:
    logs = []
    for lib in (ad, torch):
        engine = lib.quasirandom.SobolEngine(dimension)
        drawn = [engine.draw(3), engine.draw(1), engine.fast_forward(7).draw(5)]
        drawn += [engine.reset().draw_base2(4, dtype=lib.float64)]
        logs.append(([np.array(t.tolist()) for t in drawn], engine.num_generated, repr(engine)))
    assert logs[0][1:] == logs[1][1:]
    for got, want in zip(logs[0][0], logs[1][0], strict=True):
        np.testing.assert_array_equal(got, want)


ACTIVATIONS = (
    "elu celu selu hardswish softsign softshrink hardshrink hardtanh hardsigmoid relu relu6 "
    "leaky_relu gelu silu mish softplus tanhshrink logsigmoid sigmoid tanh"
).split()
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3.0, -3.0, 1.0, -0.5)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_special_values(name: str) -> None:
    """PyTorch's answers for vectors: of single elements it has others for gradients at NaN."""

    def answer(lib: Any, value: float, count: int) -> list[float]:
        x = lib.full((count,), value, dtype=lib.float64).requires_grad_()
        out = getattr(lib.nn.functional, name)(x)
        out.sum().backward()
        return [out[0].item(), x.grad[0].item()]

    for value in SPECIAL:
        wanted = answer(torch, value, 64)
        for count in (1, 64, 5000):
            got = answer(ad, value, count)
            np.testing.assert_allclose(got, wanted, 1e-7, 1e-44, err_msg=str((value, count)))


LOSSES: dict[str, Loss] = {
    "huber": lambda f, x, y: f.huber_loss(x, y, reduction="none"),
    "smooth_l1": lambda f, x, y: f.smooth_l1_loss(x, y, reduction="none"),
    "margins": lambda f, x, y: f.margin_ranking_loss(x, y, y.sgn().detach(), 0.5, reduction="none"),
    "gaussian": lambda f, x, y: f.gaussian_nll_loss(x, y, y.abs() + 1, reduction="none"),
    "variances": lambda f, x, y: f.gaussian_nll_loss(x, x * 0, y.abs(), reduction="none"),
    "poisson": lambda f, x, y: f.poisson_nll_loss(x, y, reduction="none"),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_special_values(name: str, compiled: bool) -> None:
    """Values and gradients everywhere; second derivatives at numbers, kinks among them."""
    points = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1.5, 1e-310])
    pairs = [p.ravel() for p in np.meshgrid(points, points)]

    def answer(lib: Any, x: Any, y: Any) -> Any:
        out = LOSSES[name](lib.nn.functional, x, y)
        grads = lib.autograd.grad(out.sum(), (x, y), create_graph=True)
        (second,) = lib.autograd.grad((grads[0] + x * 0).sum(), x)  # also where it is linear
        return out.detach(), grads[0].detach(), grads[1].detach(), second

    def tensors(lib: Any) -> Any:
        return [lib.tensor(p, dtype=lib.float64).requires_grad_() for p in pairs]

    ours_for = partial(answer, ad)
    got = (ad.compile(ours_for) if compiled else ours_for)(*tensors(ad))
    want = answer(torch, *tensors(torch))
    for g, w in zip(got[:3], want[:3], strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), 1e-7, 1e-300)
    numbers = np.isfinite(pairs[0]) & np.isfinite(pairs[1])
    np.testing.assert_allclose(got[3].numpy()[numbers], want[3].numpy()[numbers], 1e-7, 1e-300)
