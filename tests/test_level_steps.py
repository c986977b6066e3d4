"""What levels make of operations as one program: found, the same bits, and only where it may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.autodiff.levels import steps
from adjoint.engine.core.operations import small_calls
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.straight import STRAIGHT
from adjoint.nn import functional as F

OFTEN = 24  # calls by which what is met has its program
CALLS = 3


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs are made from the first calls on, and anew, whatever ran before."""
    monkeypatch.setattr(small_calls, "FIRST", 1 << 30)
    before = STRAIGHT.calls
    STRAIGHT.forget()
    STRAIGHT.calls = 1 << 20  # as in a process that has run for a while
    yield
    STRAIGHT.calls = before


def reference(call: Callable[[], Any]) -> Any:
    """What a call gives where nothing is a step."""
    with CONTEXT.having(in_step=True):
        return call()


def flat(tree: Any) -> list[np.ndarray]:
    """The arrays of a result, in order."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (tuple, list)):
        return [a for t in tree for a in flat(t)]
    return [np.array(tree.detach().numpy())]


def is_as_without(call: Callable[[], Any], times: int = OFTEN) -> None:
    """Each call gives the same bits, which agree with those where nothing is a step."""
    want = flat(reference(call))
    first = flat(call())
    for a, b in zip(first, want, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    for _ in range(times):
        for a, b in zip(flat(call()), first, strict=True):
            np.testing.assert_array_equal(a, b)


def normal(*shape: int, seed: int = 0) -> ad.Tensor:
    """A sample in double precision."""
    return ad.from_numpy(np.random.default_rng(seed).standard_normal(shape))


WEIGHTS = {"w": normal(4, 3, seed=1), "b": normal(4, seed=2)}
CLASSES = ad.tensor([1, 3, 0, 2, 2])


def loss(weights: Any, x: Any, y: Any) -> Any:
    out = F.linear(x, weights["w"], weights["b"]).tanh()
    return F.cross_entropy(out, y)


def per_sample(rows: int) -> Callable[[], Any]:
    """Gradients of each sample by weights that all share."""
    x, y = normal(rows, 1, 3), CLASSES[ad.arange(rows) % 5].unsqueeze(1)
    return lambda: ad.func.vmap(ad.func.grad(loss), (None, 0, 0))(WEIGHTS, x, y)


@pytest.mark.parametrize("rows", [5, 700])  # by kernels, and compiled
def test_per_sample_gradients_have_the_same_bits_every_time(rows: int) -> None:
    is_as_without(per_sample(rows))


def kernel() -> Any:
    """Cotangents, then tangents, in batches of batches: primals have fewer than tangents."""

    def pair(x: Any, y: Any) -> Any:
        _, pull = ad.func.vjp(lambda w: (x @ w).tanh(), WEIGHTS["w"].T.contiguous())

        def product(v: Any) -> Any:
            return ad.func.jvp(lambda w: (y @ w).tanh(), (WEIGHTS["w"].T,), pull(v))[1]

        return ad.func.vmap(product)(ad.eye(4, dtype=ad.float64))

    x = normal(3, 3)
    return ad.func.vmap(ad.func.vmap(pair, (None, 0)), (0, None))(x, x)


def test_a_tangent_kernel_is_the_product_of_jacobians() -> None:
    is_as_without(kernel)
    x, w = normal(3, 3), WEIGHTS["w"].T.contiguous()
    jacobian = ad.func.jacrev(lambda w: (x @ w).tanh())(w).flatten(2)  # (N, 4, all of w)
    want = ad.einsum("naf,mbf->nmab", jacobian, jacobian).transpose(-1, -2)
    np.testing.assert_allclose(kernel().numpy(), want.numpy(), rtol=1e-9)


def adapted(weights: Any) -> Any:
    """Two steps of descent on each of three tasks, and the mean of what is left."""
    x, y = normal(3, 5, 3), normal(3, 5, 4, seed=5)

    def left(w: Any, b: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(F.relu(F.linear(x, w, b)), y)

    def task(w: Any, b: Any, x: Any, y: Any) -> Any:
        for _ in range(2):
            gw, gb = ad.func.grad(left, argnums=(0, 1))(w, b, x, y)
            w, b = w - 0.1 * gw, b - 0.1 * gb
        return left(w, b, x, y)

    each = ad.func.vmap(task, (None, None, 0, 0))
    return each(weights["w"], weights["b"], x, y).mean()


def test_meta_gradients_agree_with_finite_differences() -> None:
    is_as_without(lambda: ad.func.grad(adapted)(WEIGHTS))
    gradient = ad.func.grad(adapted)(WEIGHTS)
    for name, at in WEIGHTS.items():
        direction, step = normal(*at.shape, seed=7), 1e-6
        ends = [adapted({**WEIGHTS, name: at + s * step * direction}).item() for s in (1, -1)]
        want = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose((gradient[name] * direction).sum().item(), want, rtol=1e-6)


def second_derivatives(s: Any) -> Any:
    """A residual: forward over reverse in a batch, beneath a gradient."""

    def at(s: Any, x: Any) -> Any:
        inside = ad.func.jacfwd(ad.func.grad(lambda x: (x * s).tanh().sum() + (x * x * s).sum()))
        return inside(x).diagonal().sum()

    return ad.func.vmap(at, (None, 0))(s, normal(5, 3)).square().mean()


def test_a_gradient_of_second_derivatives_agrees_with_finite_differences() -> None:
    s, v = normal(3, seed=3), normal(3, seed=4)
    is_as_without(lambda: ad.func.grad(second_derivatives)(s))
    ends = [second_derivatives(s + sign * 1e-6 * v).item() for sign in (1, -1)]
    got = (ad.func.grad(second_derivatives)(s) * v).sum().item()
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_programs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some calls native code has all of a step's operations."""
    call, left = per_sample(5), []
    for _ in range(OFTEN):
        call()
    straight = steps.straight

    def looked_at(step: Any, *given: Any) -> Any:
        left.append(step.name)
        return straight(step, *given)

    monkeypatch.setattr(steps, "straight", looked_at)
    call()
    if HOOKS.meet_noted is not None:
        assert not left


def test_gradients_on_the_tape_pass_through_steps() -> None:
    """A network's own parameters, which the tape follows, beneath a batch."""
    x = normal(5, 3)
    w = WEIGHTS["w"].clone().requires_grad_(True)

    def each(x: Any) -> Any:
        return ad.func.grad(lambda x: F.softmax(F.linear(x, w), 0).square().sum())(x)

    def total() -> Any:
        w.grad = None
        ad.func.vmap(each)(x).square().sum().backward()
        return w.grad

    is_as_without(total)
    w.grad = None
    rows = [each(row).square().sum() for row in x]
    ad.stack(rows).sum().backward()
    want = w.grad
    assert want is not None
    np.testing.assert_allclose(total().numpy(), want.numpy(), rtol=1e-9)


def test_a_cotangent_that_is_handed_on_stays_where_it_was_on_the_tape() -> None:
    """The bias of a sample has its layer's cotangent as it is, which others lead back to, too."""
    x, b = normal(5, 3), WEIGHTS["b"].clone().requires_grad_(True)

    def total(batch: Any) -> Any:
        def of_bias(row: Any) -> Any:
            one = ad.func.grad(lambda c: F.linear(row, WEIGHTS["w"], c).tanh().square().sum())
            return one(b)

        return batch(of_bias).square().sum()

    for _ in range(OFTEN):
        (got,) = ad.autograd.grad(total(lambda f: ad.func.vmap(f)(x)), b)
    (want,) = ad.autograd.grad(total(lambda f: ad.stack([f(row) for row in x])), b)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9)


def dropped(randomness: str) -> Any:
    """Dropout in a batch of gradients."""
    x = ad.ones(6, 8, dtype=ad.float64)
    one = ad.func.grad(lambda x: F.dropout(x, 0.5).sum())
    return ad.func.vmap(one, randomness=randomness)(x)


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_draws_are_drawn_anew(randomness: str) -> None:
    seen = set()
    for _ in range(OFTEN):
        g = dropped(randomness)
        seen.add(g.numpy().tobytes())
        assert bool((g == g[0]).all()) is (randomness == "same")
    assert len(seen) > OFTEN // 2
    ad.manual_seed(3)
    first = dropped(randomness)
    ad.manual_seed(3)
    assert ad.equal(first, dropped(randomness))


def test_a_draw_is_refused_as_before() -> None:
    for _ in range(CALLS):
        with pytest.raises(RuntimeError, match="randomness error mode"):
            dropped("error")


def test_a_class_that_does_not_exist_is_refused_after_programs_are_made() -> None:
    x, y = normal(5, 1, 3), CLASSES.unsqueeze(1)
    each = ad.func.vmap(ad.func.grad(loss), (None, 0, 0))
    for _ in range(OFTEN):
        each(WEIGHTS, x, y)
    for _ in range(CALLS):
        with pytest.raises(IndexError, match="out of bounds|Target"):
            each(WEIGHTS, x, y + 3)


def test_floats_that_differ_share_a_program() -> None:
    x = normal(40, 40)
    each = ad.func.vmap(lambda row, k: row.sin() * k, (0, None))
    each(x, 0.5)
    kinds = len(FRAGMENTS.by_kind)
    for k in range(2, 8):
        np.testing.assert_allclose(each(x, 0.1 * k).numpy(), np.sin(x.numpy()) * 0.1 * k)
    assert len(FRAGMENTS.by_kind) <= kinds + 1


def test_parameters_that_compare_equal_are_told_apart() -> None:
    """0 and False, 1 and 1.0 are other parameters; so is a zero of another sign."""
    x = normal(40, 40)
    for _ in range(CALLS):
        for value in (0.0, -0.0):
            filled = ad.func.vmap(lambda row, v=value: row.masked_fill(row < 5, v))(x)
            assert bool(np.signbit(filled.numpy()).all()) is (str(value) == "-0.0")


def test_writes_inside_are_seen() -> None:
    def written(x: Any) -> Any:
        y = x * 2
        y[0] = y[1]
        y.mul_(x)
        return y.sum() + y[0] ** 2

    x = normal(5, 3)
    is_as_without(lambda: ad.func.vmap(ad.func.grad(written))(x))
    x[0] += 1.0
    want = ad.stack([ad.func.grad(written)(row) for row in x])
    np.testing.assert_allclose(ad.func.vmap(ad.func.grad(written))(x).numpy(), want.numpy())


def test_zeros_behind_a_relu_are_zeros() -> None:
    x = normal(5, 3)
    is_as_without(lambda: ad.func.vmap(ad.func.hessian(lambda x: F.relu(x).sum()))(x))


def test_a_finished_transforms_tensor_is_refused() -> None:
    kept: list[Any] = []
    ad.func.vmap(lambda row: kept.append(row) or row)(normal(5, 3))  # type: ignore[func-returns-value]
    for _ in range(CALLS):
        with pytest.raises(RuntimeError, match="finished"):
            ad.func.vmap(lambda row: row * kept[0])(normal(2, 3))


def test_a_sparse_operand_goes_its_own_way() -> None:
    m = ad.eye(3, dtype=ad.float64).to_sparse()
    x = normal(3, 2)
    got = [ad.func.grad(lambda x: (ad.sparse.mm(m, x) ** 2).sum())(x) for _ in range(CALLS)]
    for g in got:
        np.testing.assert_allclose(g.numpy(), 2 * x.numpy())
