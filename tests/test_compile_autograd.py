"""Compiled functions on the tape: gradients from outside, as the function itself gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.func import grad, jvp, vmap
from adjoint.graph import capture
from adjoint.utils.checkpoint import checkpoint, checkpoint_sequential

CASES: dict[str, Callable[[Callable[[Any], Any]], list[Any]]] = {}


def case(run: Callable[[Callable[[Any], Any]], list[Any]]) -> Any:
    CASES[run.__name__] = run
    return run


@case
def training_of_a_compiled_forward(wrap: Any) -> list[Any]:
    net = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.3), nn.LayerNorm(8)
    )
    forward = wrap(lambda x: net(x))
    opt = ad.optim.SGD(net.parameters(), lr=0.01)  # Adam would blow up rounding in small gradients
    out: list[Any] = []
    for i in range(3):
        # Rows that lie on one line would make batch norm's derivatives differences of equals.
        x = (ad.arange(20.0).view(5, 4) ** 2).sin().add(i).requires_grad_()
        loss = F.cross_entropy(forward(x), ad.tensor([0, 1, 2, 0, 1]))
        opt.zero_grad()
        loss.backward()
        opt.step()
        out += [loss, x.grad]
    return [*out, *net.parameters(), *net.buffers()]


@case
def gradients_accumulate(wrap: Any) -> list[Any]:
    w = ad.ones(3, requires_grad=True)
    f = wrap(lambda x: (w * x).exp().sum())
    for i in range(3):
        f(ad.arange(3.0) / (i + 1)).backward()
    return [w.grad]


@case
def second_derivatives(wrap: Any) -> list[Any]:
    w = ad.tensor([0.3, -0.2, 0.9], requires_grad=True)
    f = wrap(lambda x: ((x * w).sin() * x).sum())
    out: list[Any] = []
    for i in range(2):
        x = (ad.arange(3.0) + i).requires_grad_()
        y = f(x)
        gx, gw = ad.autograd.grad(y, (x, w), create_graph=True)
        (gx.pow(2).sum() + (gw * gx).sum()).backward()
        out += [y, gx, gw, x.grad, w.grad]
    return out


@case
def second_derivative_through_a_window(wrap: Any) -> list[Any]:
    base = ad.arange(6.0).view(2, 3)
    row = base[1].detach().requires_grad_()
    f = wrap(lambda: (row**3).sum())
    (g,) = ad.autograd.grad(f(), row, create_graph=True)
    g.sum().backward()
    return [g, row.grad]


@case
def views_of_a_view_that_was_made_a_leaf(wrap: Any) -> list[Any]:
    with ad.no_grad():
        part = ad.arange(12.0)[3:9]
    part.requires_grad_()
    out: list[Any] = []
    for fn in (lambda x: x[1:3], lambda x: x.view(2, 3).t(), lambda x: x.as_strided((2,), (2,))):
        y = wrap(fn)(part)
        out += [y, *ad.autograd.grad(y.exp().sum(), part)]
    return out


@case
def results_share_memory(wrap: Any) -> list[Any]:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y.detach(), y[0], (y,), x.view(-1), y.detach().requires_grad_()

    compiled = wrap(f)
    out: list[Any] = []
    for i in range(2):
        x = (ad.arange(6.0).view(2, 3) + i).requires_grad_()
        a, b, c, d, e, g = compiled(x * 1)
        assert d[0] is a
        assert b is not a
        assert [t.requires_grad for t in (a, b, c, e, g)] == [True, False, True, True, True]
        assert g.is_leaf
        (a.sum() + (c * 3).sum() + e.pow(2).sum() + (g**2).sum()).backward()
        a.mul_(2)  # on the tape, seen through every alias
        out += [a, b, c, e, g, x.grad, g.grad]
    return out


@case
def an_argument_written_in_place(wrap: Any) -> list[Any]:
    def f(x: Any, w: Any) -> Any:
        x.mul_(w)
        return x.sum()

    compiled = wrap(f)
    out: list[Any] = []
    for i in range(3):
        x = (ad.arange(3.0) + i).requires_grad_()
        w = ad.full((3,), 0.5, requires_grad=True)
        h = x * 2
        s = compiled(h, w)
        (h.pow(2).sum() + s).backward()
        out += [h, s, x.grad, w.grad]
    return out


@case
def the_gradient_of_an_argument_inside(wrap: Any) -> list[Any]:
    def f(x: Any) -> Any:
        (x * x).sum().backward()
        return x.grad

    compiled = wrap(f)
    out: list[Any] = []
    for i in range(3):
        x = ad.full((2,), float(i), requires_grad=True)
        out += [compiled(x), x.grad]
    return [*out, compiled(x), x.grad]


@case
def only_some_results_are_used(wrap: Any) -> list[Any]:
    f = wrap(lambda x, y: (x * y, x.exp(), y.long()))
    x = ad.arange(3.0).requires_grad_()
    y = ad.ones(3, requires_grad=True)
    a, b, c = f(x, y)
    assert not c.requires_grad
    b.sum().backward()
    return [a, b, c, x.grad, y.grad]


@case
def hooks_run_once(wrap: Any) -> list[Any]:
    w = ad.ones(3, requires_grad=True)
    seen: list[Any] = []
    w.register_hook(lambda g: seen.append(g) or g * 2)  # type: ignore[func-returns-value]
    f = wrap(lambda x: (w * x).sum())
    for i in range(2):
        f(ad.arange(3.0) + i).backward()
    assert len(seen) == 2
    return [w.grad, *seen]


@case
def a_tensor_from_outside_that_is_no_leaf(wrap: Any) -> list[Any]:
    x = ad.arange(3.0).requires_grad_()
    h = x * 2
    f = wrap(lambda y: (h * y).sum())
    y = ad.ones(3)
    f(y).backward(retain_graph=True)
    f(y).backward(retain_graph=True)
    (g,) = ad.autograd.grad(f(y), x, create_graph=True)
    return [x.grad, g]


@case
def only_asked_for_gradients(wrap: Any) -> list[Any]:
    w = ad.ones(2, 3, requires_grad=True)
    b = ad.ones(2, requires_grad=True)
    f = wrap(lambda x: F.linear(x, w, b).pow(2).sum())
    (g,) = ad.autograd.grad(f(ad.arange(3.0)), b)
    return [g, w.grad, b.grad]


@case
def gradients_of_arguments_accumulate(wrap: Any) -> list[Any]:
    """Inside the function, into whatever gradient each call's argument has by then."""
    f = wrap(lambda x: (x * x).sum().backward())
    out: list[Any] = []
    for i in range(3):
        x = ad.full((2,), 1.0 + i).requires_grad_()
        (x * 100).sum().backward()
        held = x.grad
        f(x)
        assert x.grad is held
        f(x)
        out.append(x.grad)
    return out


@case
def dropout_in_a_checkpoint(wrap: Any) -> list[Any]:
    """The masks of the second run are those of the first, and later draws are not moved."""
    w = ad.arange(36.0).view(6, 6).div(36).requires_grad_()
    out: list[Any] = []
    for reentrant in (False, True):

        def block(x: Any, reentrant: bool = reentrant) -> Any:
            return checkpoint(
                lambda x: F.dropout(x @ w).tanh() * ad.rand(6), x, use_reentrant=reentrant
            )

        def whole(x: Any, block: Any = block) -> Any:
            loss = (block(x) * ad.rand(6)).sum()
            loss.backward()
            return loss.detach(), ad.rand(2)

        f, g = wrap(block), wrap(whole)
        for _ in range(2):
            x = ad.full((4, 6), 0.1, requires_grad=True)
            f(x).sum().backward()
            out += [*g(x), x.grad.clone(), w.grad.clone(), ad.rand(2)]
    return out


@case
def a_forked_generator(wrap: Any) -> list[Any]:
    def draws(x: Any) -> Any:
        with ad.random.fork_rng():
            first = x + ad.rand(3)
        return first, x + ad.rand(3)

    f = wrap(draws)
    return [t for _ in range(3) for t in f(ad.zeros(3))]


class Cubed(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x * x


def hooked(x: Any) -> Any:
    h = x.sin()
    h.register_hook(lambda g: g * 3)  # linear: docs/compile.md says why
    return h * h


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return x + F.gelu(self.inner(x))


@pytest.mark.parametrize("how", ["module", "method", "sequential", "lambda"])
def test_checkpointed_modules_are_recorded_once(how: str) -> None:
    ad.manual_seed(0)
    net = nn.ModuleList([Gated(), nn.Linear(4, 4), Gated()])
    called: dict[str, Callable[[Any], Any]] = {
        "module": lambda x: checkpoint(
            net[2], checkpoint(net[1], x, use_reentrant=False), use_reentrant=False
        ),
        "method": lambda x: checkpoint(net[2].forward, x, use_reentrant=False),
        "sequential": lambda x: checkpoint_sequential(
            nn.Sequential(*net), 3, x, use_reentrant=False
        ),
        "lambda": lambda x: checkpoint(lambda y: net[2](net[0](y)), x, use_reentrant=False),
    }

    def step(x: Any) -> Any:
        net.zero_grad()
        loss = called[how](x).square().sum()
        loss.backward()
        return loss, [p.grad for p in net.parameters() if p.grad is not None]

    run = ad.compile(step)
    for i in range(4):
        x = ad.arange(8.0).view(2, 4) / (i + 1)
        ad.testing.assert_close(run(x), step(x))
    assert run.traces == 1


def without_gradient(x: Any) -> Any:
    with ad.no_grad():
        scale = x.sum()
    return (x * x.detach() * scale).sin()


# What the tape knows and the graph does not.
ON_THE_TAPE: list[Callable[[Any], Any]] = [
    without_gradient,
    hooked,
    lambda x: Cubed.apply(x) * x,
    lambda x: (x + (x.round() - x).detach()) ** 3,
    lambda x: checkpoint(lambda y: F.dropout(y.sin()) * y, x, use_reentrant=False),
    lambda x: ad.autograd.grad((x**4).sum(), x, create_graph=True)[0] * x,
    lambda x: x.reshape(2, 2).T,
]


@case
def derivatives_of_what_the_tape_knows(wrap: Any) -> list[Any]:
    out: list[Any] = []
    for fn in ON_THE_TAPE:
        f = wrap(fn)
        for i in range(2):
            # Third derivatives cancel: in float32 their last digits are rounding.
            kind: Any = {"dtype": ad.float64, "requires_grad": True}
            x = ad.tensor([0.3, -1.2, 2.6, 0.7 + i], **kind)
            w = ad.tensor([1.0, 2.0, -1.0, 0.5], **kind)
            y = (f(x * w).reshape(-1) * w).sum()
            first = ad.autograd.grad(y, (x, w), create_graph=True)
            second = ad.autograd.grad(first[0].sum() + first[1].prod(), (x, w), create_graph=True)
            out += [*first, *second, *ad.autograd.grad(second[1].sum(), (x, w), allow_unused=True)]
    return out


@case
def gradient_penalties(wrap: Any) -> list[Any]:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    score, opt = wrap(net), ad.optim.SGD(net.parameters(), lr=0.1)
    out: list[Any] = []
    for i in range(3):
        x = (ad.arange(12.0).view(4, 3) / (i + 3)).sin().requires_grad_()
        (slope,) = ad.autograd.grad(score(x).sum(), x, create_graph=True)
        loss = score(x).mean() + ((slope.norm(2, 1) - 1) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        out += [loss, slope]
    return [*out, *net.parameters(), *net.buffers()]


@case
def results_that_others_were_made_of(wrap: Any) -> list[Any]:
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)

    def score(x: Any, retain: bool) -> Any:
        low = first(x).tanh()
        high = (low * low.exp()).sin()
        if retain:
            low.retain_grad()
        return low, high, second(high + low)

    f, out = wrap(score), []
    for i in range(3):
        x = (ad.arange(6.0).view(2, 3) / (i + 4)).requires_grad_()
        low, high, y = f(x, i == 0)
        low.retain_grad()
        before = (low * 2).sum()  # made before the hook, it comes through the hook too
        high.register_hook(lambda g: g.clamp(-0.1, 0.1))
        (y.square().sum() + before + high.sum()).backward(retain_graph=True)
        out += [low.grad, x.grad, *ad.autograd.grad(y.sum(), (high, low, x), allow_unused=True)]
        low, high, y = f(x, True)
        y.sum().backward()
        out += [low.grad, x.grad]
    return [*out, *[p.grad for p in (*first.parameters(), *second.parameters())]]


@case
def results_differentiated_one_by_one(wrap: Any) -> list[Any]:
    used, other = nn.Linear(3, 2), nn.Linear(3, 2)
    written = ad.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        loss = used(x).square().sum()
        loss.backward()
        kept = x * written  # its backward needs what is written over below
        with ad.no_grad():
            written.mul_(2)
        return loss, other(x).tanh().sum(), (x * x).sum(), kept

    f, out = wrap(step), []
    for i in range(3):
        x = ad.full((2, 3), 0.3 * i, requires_grad=True)
        loss, second, third, _ = f(x)
        second.backward()
        third.backward()
        out += [loss, second, x.grad]
    return [*out, *[p.grad for p in (*used.parameters(), *other.parameters())]]


@case
def gradients_of_tensors_made_inside(wrap: Any) -> list[Any]:
    def penalty(x: Any) -> Any:
        middle = (x * 0.5).requires_grad_()
        late = (middle * 2).sin()
        late.retain_grad()
        late.square().sum().backward()
        return middle, {"late": late}

    f, out = wrap(penalty), []
    for i in range(3):
        middle, held = f(ad.full((3,), float(i)))
        out += [middle, middle.grad, held["late"].grad]
    return out


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name: str) -> None:
    results = []
    for wrap in (lambda f: f, ad.compile):
        ad.manual_seed(0)
        results.append(CASES[name](wrap))
    assert len(results[0]) == len(results[1])
    for a, b in zip(*results, strict=True):
        if a is None:
            assert b is None
            continue
        assert (a.requires_grad, a.dtype) == (b.requires_grad, b.dtype)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_backward_is_compiled_once() -> None:
    tasks = []

    def factory(task: Any) -> Any:
        tasks.append(task)
        return ad.graph.interpreted(task)

    w = ad.ones(3, requires_grad=True)
    f = ad.compile(lambda x: (w * x).exp().sum(), backend=factory)
    for _ in range(3):
        f(ad.ones(3)).backward()
    assert len(tasks) == 2  # forward and backward
    assert f.traces == 1


def test_no_gradient_is_prepared_where_none_is_wanted() -> None:
    f = ad.compile(lambda x: x.exp())
    assert not f(ad.ones(3)).requires_grad
    with ad.no_grad():
        assert not f(ad.ones(3, requires_grad=True)).requires_grad
    assert all(p.derivative is None for ps in f.programs.values() for p in ps)


def test_backward_twice_is_refused() -> None:
    y = ad.compile(lambda x: (x * x).sum())(ad.ones(3, requires_grad=True))
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_results_with_a_saved_value_in_common_spoil_each_other() -> None:
    def fn(x: Any) -> Any:
        shared = x.exp()
        return shared.sum(), (shared * 2).sum(), (x * x).sum()

    for f in (fn, ad.compile(fn)):
        a, b, c = f(ad.ones(3, requires_grad=True))
        a.backward(retain_graph=True)
        a.backward()
        c.backward()
        with pytest.raises(RuntimeError, match="second time"):
            b.backward()


def test_backward_after_backward_inside_is_refused() -> None:
    w = ad.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        loss = (w * x).sum() ** 2
        loss.backward()
        return loss

    loss = ad.compile(step)(ad.ones(3))
    assert loss.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_a_saved_input_written_to_is_refused() -> None:
    h = ad.ones(3, requires_grad=True) * 1
    y = ad.compile(lambda x: x * x)(h)
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


def test_a_saved_result_written_to_is_refused() -> None:
    y = ad.compile(lambda x: x.exp())(ad.ones(3, requires_grad=True))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


def test_transforms_see_the_function() -> None:
    def plain(x: Any) -> Any:
        return (x.sin() * x).sum()

    f = ad.compile(plain)
    x = ad.arange(3.0)
    np.testing.assert_allclose(grad(f)(x).numpy(), grad(plain)(x).numpy())
    np.testing.assert_allclose(vmap(f)(ad.ones(2, 3)).numpy(), vmap(plain)(ad.ones(2, 3)).numpy())
    for a, b in zip(jvp(f, (x,), (x,)), jvp(plain, (x,), (x,)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy())


def test_batched_backward() -> None:
    x = ad.arange(3.0).requires_grad_()
    y = ad.compile(lambda x: x.sin() * x.sum())(x)
    (rows,) = ad.autograd.grad(y, x, ad.eye(3), is_grads_batched=True)
    want = ad.autograd.functional.jacobian(lambda x: x.sin() * x.sum(), x)
    np.testing.assert_allclose(rows.numpy(), want.numpy(), rtol=1e-6)


def test_backward_of_a_compiled_result_inside_a_compiled_function() -> None:
    w = ad.ones(3, requires_grad=True)
    y = ad.compile(lambda x: (w * x).exp().sum())(ad.arange(3.0))

    @ad.compile
    def pull(scale: Any) -> Any:
        return ad.autograd.grad(y, w, scale, retain_graph=True)[0]

    for s in (1.0, 2.0):
        want = s * np.arange(3) * np.exp(np.arange(3))
        np.testing.assert_allclose(pull(ad.tensor(s)).numpy(), want, rtol=1e-6)


def test_a_loss_used_up_inside_prints_and_refuses_as_in_eager_execution() -> None:
    net = nn.Linear(4, 3)

    def step(x: Any, y: Any) -> Any:
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        return loss, out

    compiled = ad.compile(step)
    x, y = ad.randn(5, 4), ad.tensor([0, 1, 2, 0, 1])
    eager, native = step(x, y), compiled(x, y)
    assert "grad_fn=<CrossEntropyBackward0>" in repr(native[0])
    for one, other in zip(eager, native, strict=True):
        assert other.grad_fn.name() == one.grad_fn.name()
        assert other.requires_grad
        assert not other.is_leaf
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            other.sum().backward()


def test_hooks_on_a_used_up_loss_stay_with_that_loss() -> None:
    w = ad.ones(2, requires_grad=True)

    def step(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        return loss

    compiled = ad.compile(step)
    first = compiled(ad.ones(2))
    first.grad_fn.register_hook(lambda *_: None)
    assert compiled(ad.ones(2)).grad_fn is not first.grad_fn


@pytest.mark.parametrize("wrap", [lambda f: f, capture, ad.compile])
def test_leaves_that_get_one_cotangent_have_gradients_of_their_own(wrap: Any) -> None:
    a, b, c = (ad.zeros(3, requires_grad=True) for _ in range(3))

    def step(g: Any) -> Any:
        total = a + (b + c)
        total.retain_grad()
        total.backward(g)
        with ad.no_grad():
            a.grad.mul_(2)
            b.grad.add_(1)
        return total.grad * 1, g * 1

    step = wrap(step)
    want = [0.0, 0.0, 0.0]
    for k in (1.0, 2.0, 3.0):
        g = ad.full((3,), k)
        found = [*step(g), g, a.grad, b.grad, c.grad]
        want = [(want[0] + k) * 2, want[1] + k + 1, want[2] + k]
        assert [x.tolist() for x in found] == [[w] * 3 for w in (k, k, k, *want)]


def sines(by_name: bool) -> Any:
    """An operation of one's own, whose derivative asks for another."""
    kind = "named" if by_name else "held"
    sine, cosine = (
        ad.library.custom_op(
            f"tests::{name}_{kind}", function, mutates_args=(), schema="(Tensor x) -> Tensor"
        )
        for name, function in (("sine", ad.sin), ("cosine", ad.cos))
    )
    for operation in (sine, cosine):
        operation.register_fake(ad.empty_like)

    def held(ctx: Any, g: Any) -> Any:
        return g * cosine(ctx.saved_tensors[0])

    def named(ctx: Any, g: Any) -> Any:
        return g * ad.ops.tests.cosine_named(ctx.saved_tensors[0])

    sine.register_autograd(
        named if by_name else held,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return (lambda x: ad.ops.tests.sine_named(x)) if by_name else sine


@pytest.mark.parametrize("by_name", [False, True])
def test_a_derivative_may_ask_for_operations_of_ones_own(by_name: bool) -> None:
    sine = sines(by_name)
    x = ad.tensor([0.5, -1.0], requires_grad=True)
    ad.compile(lambda x: sine(2 * x).sum())(x).backward()
    ad.testing.assert_close(x.grad, 2 * (2 * x.detach()).cos())
