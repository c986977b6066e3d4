"""What people put into bodies: modules, writes, indexing, precision, inner gradients, constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import func, nn
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.tree import flatten
from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.engine.graph.passes.prune import prune
from adjoint.graph import capture, interpret

F = nn.functional
X = ad.tensor(np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32))
USES: dict[str, Callable[[], Callable[[Any], Any]]] = {}


def use(make: Callable[[], Callable[[Any], Any]]) -> Any:
    """A program: makes its state, returns the function of `X` to capture."""
    USES[make.__name__] = make
    return make


def of_gradient(f: Callable[[Any], Any]) -> Callable[[], Callable[[Any], Any]]:
    return lambda: func.grad(f)


@use
def module_with_dropout() -> Any:
    net = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.GELU(), nn.Dropout(0.3))

    def step(x: Any) -> Any:
        net.zero_grad()
        c, ys = ad.scan(lambda c, r: (net(c) + r, c.mean()), x[0], x)
        (c.square().sum() + ys.sum()).backward()
        return [p.grad for p in net.parameters()]

    return step


@use
def module_checkpointed() -> Any:
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Dropout(0.3))

    def step(x: Any) -> Any:
        net.zero_grad()
        c, _ = ad.scan(lambda c, r: (net(c) + r, None), x[0], x, checkpoint=True)
        c.square().sum().backward()
        return [p.grad for p in net.parameters()]

    return step


@use
def autocast() -> Any:
    w = ad.full((3, 3), 0.1, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        with ad.autocast("cpu", dtype=ad.bfloat16):
            c, ys = ad.scan(lambda c, r: ((r @ w).float() + c, c @ w), x[0], x)
        (c.sum() + ys.float().sum()).backward()
        return w.grad, ys

    return step


@use
def half_precision() -> Any:
    f = lambda x: ad.scan(lambda c, r: ((c * r).tanh(), None), x[0], x)[0].sum()
    return lambda x: func.grad(f)(x.bfloat16())


@use
def complex_carry() -> Any:
    f = lambda x: ad.scan(lambda c, r: (c * r + 1j * c, c.abs()), x[0] * 1j, x)[1].sum()
    return func.grad(f)


@use
def gradient_descent_inside() -> Any:
    def step(c: Any, r: Any) -> Any:
        return c - 0.1 * func.grad(lambda c: (c * r).sin().sum())(c), None

    return func.grad(lambda x: ad.scan(step, x[0], x)[0].sum())


@use
def tape_inside() -> Any:
    def body(c: Any, r: Any) -> Any:
        leaf = c.detach().requires_grad_()
        (leaf * leaf * r).sum().backward()
        return c - 0.1 * leaf.grad * c, leaf.grad

    return lambda x: ad.scan(body, x[0], x)


def rewritten(x: Any) -> Any:
    def body(c: Any, r: Any) -> Any:
        buffer = ad.zeros(3)
        buffer[1:] = c[:2] * r[1:]
        buffer[0] += r[0]
        column = buffer.view(3, 1)
        column.mul_(2)
        return buffer, column.sum()

    c, ys = ad.scan(body, x[0], x)
    return c.square().sum() + ys.sin().sum()


USES["writes"] = of_gradient(rewritten)
USES["writes_hessian"] = lambda: func.hessian(rewritten)
USES["indexing"] = of_gradient(
    lambda x: ad.scan(lambda c, i: (c + x[i] * c.sum(), x[i, 0]), x[0], ad.arange(4))[0].sum()
)
USES["solve"] = of_gradient(
    lambda x: ad.scan(
        lambda c, r: (ad.linalg.solve(ad.eye(3) * 3 + ad.outer(r, r), c), None), x[0], x
    )[0].sum()
)
USES["sort"] = of_gradient(
    lambda x: ad.scan(lambda c, r: (c.sort()[0] * r, c.cumsum(0).max()), x[0], x)[0].sum()
)
USES["attention"] = of_gradient(
    lambda x: (
        ad.scan(lambda c, r: ((c @ x.T).softmax(0) @ x + F.layer_norm(r, (3,)), None), x[0], x)[0]
        .square()
        .sum()
    )
)
USES["loss_with_a_constant"] = of_gradient(
    lambda x: ad.scan(
        lambda c, r: (c + F.cross_entropy((r * c)[None], ad.tensor([1])), None), ad.ones(()), x
    )[0]
)
USES["map"] = lambda: lambda x: ad.scan(lambda _, r: (None, r * 2), None, x)[1]
USES["draws_alone"] = lambda: (
    lambda x: ad.scan(lambda _, r: (None, ad.rand(2)), None, None, length=3)[1]
)
USES["results_that_are_arguments"] = lambda: lambda x: ad.scan(lambda c, r: (c, (c, r, r)), x[0], x)
USES["vmap_same_draws"] = lambda: (
    lambda x: func.vmap(
        lambda r: ad.scan(lambda c, _: (c + ad.rand(3), c), r, None, length=2), randomness="same"
    )(x)
)
USES["vmap_of_what_is_closed_over"] = lambda: (
    lambda x: func.vmap(lambda k: ad.scan(lambda c, r: (c * k.sum() + r, c), X[0], X))(x)
)
USES["vmap_of_a_loops_test"] = lambda: (
    lambda x: func.vmap(
        lambda k: ad.while_loop(
            lambda c: c < k.abs().sum() * 3, lambda c: c * 1.5 + 0.1, ad.ones(())
        )
    )(x)
)


@use
def host_numbers() -> Any:
    rate = {"lr": 0.5}
    h = HostScalar(lambda: rate["lr"], "lr")
    f = lambda x: ad.scan(lambda c, r: (c * h + r * (h * 2), None), x[0], x)[0].sum()
    return func.grad(f)


@pytest.mark.parametrize("wrap", [capture, ad.compile], ids=["capture", "compile"])
@pytest.mark.parametrize("name", USES)
def test_equal_to_eager(name: str, wrap: Any) -> None:
    runs = []
    for how in (lambda f: f, wrap):
        ad.manual_seed(0)
        step = how(USES[name]())
        results = [step(X) for _ in range(3)]
        runs.append([t.detach() for t in flatten((results, ad.rand(2)))[0] if t is not None])
    for a, b in zip(*runs, strict=True):
        assert a.dtype is b.dtype
        tolerance = 0.02 if a.dtype is ad.bfloat16 or name == "autocast" else 1e-5
        kind = ad.complex64 if a.dtype.is_complex else ad.float32
        np.testing.assert_allclose(
            a.to(kind).numpy(), b.to(kind).numpy(), rtol=tolerance, atol=tolerance
        )


def test_a_compiled_scan_is_differentiated_from_outside() -> None:
    w = ad.tensor(np.eye(3, dtype=np.float32) * 0.5, requires_grad=True)
    run = lambda x: ad.scan(lambda c, r: ((c @ w + r).tanh(), c.sum()), x[0], x)
    grads = []
    for f in (run, capture(run)):
        w.grad = None
        c, ys = f(X)
        (c.square().sum() + ys.sum()).backward()
        grads.append(w.grad.numpy().copy())
    np.testing.assert_allclose(*grads, rtol=1e-5)


def test_unused_residuals_go() -> None:
    w = ad.tensor(np.eye(3, dtype=np.float32), requires_grad=True)

    def forward(x: Any) -> Any:
        state, _ = ad.scan(
            lambda c, r: (((r + c[0] @ w).tanh(), c[1] + r.sum()), (c[0] * 2, r)), (x[0], 0.0), x
        )
        h = state[0]
        chosen = ad.cond(h.sum() > 0, lambda: (h.sin(), h * w.sum()), lambda: (h * h, h))
        return chosen[0].detach()

    captured = capture(forward)
    want = captured(X)
    graph = captured.latest.graph
    inputs = [s.read([X]) for s in captured.latest.sources]
    counts = {n.record.name: len(n.outputs) for n in graph}
    assert counts["scan"] > 1
    for small in (prune(graph), run_passes(graph, verify=True)):
        left = {n.record.name: (len(n.inputs), len(n.outputs)) for n in small}
        assert left["scan"] == (3, 1)
        assert left["cond"] == (2, 1)
        np.testing.assert_allclose(interpret(small, inputs)[0].numpy(), want.numpy())


def test_unused_carries_go() -> None:
    w = ad.tensor([2.0, 3.0, 4.0])

    def run(x: Any) -> Any:
        def body(n: Any, a: Any, b: Any, c: Any) -> Any:
            return n + 1, a * b.mean(), b + x[1], c * w  # c leads nowhere, and w with it

        test = lambda n, a, b, c: (n < 3) & (x.sum() < 100)
        return ad.while_loop(test, body, (0, x[0], x[2], x[3]))[1]

    captured = capture(run)
    want = captured(X)
    graph = captured.latest.graph
    inputs = [s.read([X]) for s in captured.latest.sources]
    sizes = []
    for small in (graph, prune(graph), run_passes(graph, verify=True)):
        (node,) = (n for n in small if n.record.name == "while_loop")
        sizes.append((len(node.inputs), len(node.outputs), node.params["carries"]))
        np.testing.assert_allclose(interpret(small, inputs)[0].numpy(), want.numpy())
    assert sizes == [(6, 4, 4), (4, 3, 3), (4, 3, 3)]


def test_a_bound_costs_nothing_where_nobody_differentiates() -> None:
    w = ad.tensor([0.5, 0.6, 0.7])

    def run(x: Any, limit: int = 10**7) -> Any:
        small = lambda y: y.abs().max() > 0.01
        return ad.while_loop(small, lambda y: y * w, x, max_iterations=limit)

    kinds: dict[str, Any] = {
        "plain": lambda: capture(run),
        "few": lambda: capture(lambda x: run(x, 3)),
        "none": lambda: capture(lambda x: run(x, 0)),
        "weight": lambda: capture(lambda x: run(x, 30)),
    }
    for name, wrap in kinds.items():
        w.requires_grad_(name == "weight")
        captured = wrap()
        np.testing.assert_allclose(captured(X).detach().numpy(), captured.fn(X).detach().numpy())
        names = [n.record.name for n in captured.latest.graph]
        assert ("scan" if name == "weight" else "while_loop") in names
    assert captured(X).requires_grad


def test_checkpoint_keeps_the_carries_alone() -> None:
    w = ad.tensor(np.eye(3, dtype=np.float32), requires_grad=True)

    def gradient(x: Any, checkpoint: bool) -> Any:
        body = lambda c, r: ((c @ w).sin().tanh().exp() * r, None)
        c, _ = ad.scan(body, x[0], x, checkpoint=checkpoint)
        return ad.autograd.grad(c.sum(), w)[0]

    kept, results = [], []
    for checkpoint in (False, True):
        captured = capture(lambda x, checkpoint=checkpoint: gradient(x, checkpoint))
        results.append(captured(X).numpy())
        node = next(n for n in captured.latest.graph if n.record.name == "scan")
        kept.append(len(node.outputs) - 1)
    assert kept[0] > kept[1] == 1
    np.testing.assert_allclose(*results, rtol=1e-5)


def launched(run: Any, *args: Any) -> str:
    """What a compiled function says it runs as, after checking its results."""
    compiled = ad.compile(run)
    want = flatten(run(*args))[0]
    for _ in range(2):
        for a, b in zip(want, flatten(compiled(*args))[0], strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    return compiled.explain()


def test_compiled_scans_have_no_python_between_iterations() -> None:
    w = ad.tensor(np.eye(3, dtype=np.float32) * 0.3, requires_grad=True)

    def step(x: Any, reverse: bool) -> Any:
        rows = x.unsqueeze(1) * ad.ones(2, 1)
        h, (ys, same) = ad.scan(
            lambda c, r: ((r + c @ w).tanh(), (c * 2, r)), rows[0].T.T, rows, reverse=reverse
        )
        (g,) = ad.autograd.grad(h.square().sum() + ys.sum(), w)
        return h, ys, same, g

    for reverse in (False, True):
        text = launched(lambda x, reverse=reverse: step(x, reverse), X)
        assert "(4 turns)" in text
        assert " 0 calls of the eager table" in text


def test_compiled_scans_nest_and_carry_counts() -> None:
    def step(x: Any) -> Any:
        def inner(c: Any, r: Any) -> Any:
            return c * r.cos(), None

        def outer(c: Any, r: Any) -> Any:
            n, c = c
            return (n + 1, ad.scan(inner, c + r, x)[0]), (n, x.detach().sum() * c)

        return ad.scan(outer, (0, x[0]), x)

    assert " 0 calls of the eager table" in launched(step, X)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_compiled_recurrent_layers(kind: str) -> None:
    ad.manual_seed(0)
    layer = getattr(nn, kind)(3, 5, num_layers=2, bidirectional=True)

    def step(x: Any) -> Any:
        out, _ = layer(x)
        return out.detach(), ad.autograd.grad(out.square().sum(), list(layer.parameters()))

    text = launched(step, X.unsqueeze(1).expand(4, 6, 3))
    assert " 0 calls of the eager table" in text


def test_compiled_draws_are_the_loops_own() -> None:
    def inner(c: Any, _: Any) -> Any:
        return c + ad.rand(3), ad.rand(2)

    def outer(c: Any, r: Any) -> Any:
        c, ys = ad.scan(inner, F.dropout(c * r, 0.5), None, length=3)
        return c, ys

    run = lambda x: (ad.rand(1), ad.scan(outer, x[0], x), ad.rand(1))
    compiled = ad.compile(run)
    for seed in (0, 2**63 + 5):
        ad.manual_seed(seed)
        want = [flatten(run(X))[0] for _ in range(2)]
        ad.manual_seed(seed)
        for each in want:
            for a, b in zip(each, flatten(compiled(X))[0], strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert " 0 calls of the eager table" in compiled.explain()


class Remembering(nn.Module):
    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.reads = reads
        self.hidden = ad.zeros(3)

    def forward(self, x: Any) -> Any:
        self.hidden = (self.hidden + x if self.reads else x * 2).tanh()
        return self.hidden


def test_attributes_are_no_carries() -> None:
    for reads in (False, True):
        net = Remembering(reads)
        held = net.hidden
        run = capture(lambda x, net=net: ad.scan(lambda c, r: (c + net(r), None), x[0], x)[0])
        if reads:
            with pytest.raises(RuntimeError, match="'hidden'.*carry"):
                run(X)
        else:
            want = X[0] + (X * 2).tanh().sum(0)
            np.testing.assert_allclose(run(X).numpy(), want.numpy(), rtol=1e-5)
        assert net.hidden is held


def test_weight_norm_in_a_body() -> None:
    ad.manual_seed(0)
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    run = lambda x: ad.scan(lambda c, r: (layer(c).tanh() + r, None), x[0], x)[0].sum()
    got, want = (f(X).detach().numpy() for f in (capture(func.grad(run)), func.grad(run)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
