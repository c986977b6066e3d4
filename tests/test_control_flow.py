"""cond, scan and while_loop: equal to plain Python, eager and captured, under every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint import func
from adjoint.engine.core import tree
from adjoint.engine.core.state.host import HostScalar
from adjoint.graph import capture, interpret, load, to_text, verify

Fn = Callable[..., Any]
W = ad.tensor(np.random.default_rng(0).normal(size=(3, 3)))
ROWS = ad.tensor(np.random.default_rng(1).normal(size=(4, 3)))


# -- the same function with control flow and as plain Python ------------------------------------


def carried_sum(x: Any) -> Any:
    total, ys = ad.scan(lambda c, r: ((c * r + x).tanh(), c.sin() * r), x, ROWS)
    return (total * total).sum() + (ys * ys * ys).sum()


def carried_sum_plain(x: Any) -> Any:
    c, ys = x, []
    for r in ROWS:
        ys.append(c.sin() * r)
        c = (c * r + x).tanh()
    return (c * c).sum() + (ad.stack(ys) ** 3).sum()


def from_the_end(x: Any) -> Any:
    xs = {"a": ROWS * x, "b": (ROWS.sum(-1), None)}

    def body(c: Any, r: Any) -> Any:
        h, n = c
        h = (h @ W + r["a"]).sin() * r["b"][0]
        return (h, n + 1), [h.sum(), None]

    (h, n), (ys, _) = ad.scan(body, (x, 0), xs, reverse=True)
    return h.sum() * ys.prod() + n


def from_the_end_plain(x: Any) -> Any:
    h = x
    ys: list[Any] = []
    for r in reversed(list(ROWS)):
        h = (h @ W + r * x).sin() * r.sum()
        ys.insert(0, h.sum())
    return h.sum() * ad.stack(ys).prod() + 4


def either(x: Any) -> Any:
    return ad.cond(
        x.sum() > 0, lambda x: (x @ W).sin().exp(), lambda x: (x * x * W[0]).cos() * x, (x,)
    ).sum()


def either_plain(x: Any) -> Any:
    return ((x @ W).sin().exp() if x.sum() > 0 else (x * x * W[0]).cos() * x).sum()


def bounded(x: Any) -> Any:
    n, y = ad.while_loop(
        lambda n, y: (n < 5) & (y.abs().max() < 3),
        lambda n, y: (n + 1, y * 1.5 + W[0].sin() * y.cos()),
        (0, x),
        max_iterations=6,
    )
    return (y * y).sum() + n


def unbounded(x: Any) -> Any:
    n, y = ad.while_loop(
        lambda n, y: (n < 5) & (y.abs().max() < 3),
        lambda n, y: (n + 1, y * 1.5 + W[0].sin() * y.cos()),
        (0, x),
    )
    return (y * y).sum() + n


def loop_plain(x: Any) -> Any:
    n, y = 0, x
    while n < 5 and y.abs().max() < 3:
        n, y = n + 1, y * 1.5 + W[0].sin() * y.cos()
    return (y * y).sum() + n


def nested(x: Any) -> Any:
    def body(c: Any, r: Any) -> Any:
        d, _ = ad.scan(lambda d, s: (d * s.cos() + x, None), c, W)
        d = ad.cond(d.sum() > 0, lambda d: d * 0.5 - r, lambda d: (d * r).sin() + 1, (d,))
        return d, d.sum()

    c, ys = ad.scan(body, x, ROWS)
    return (c * c).sum() + ys.prod()


def nested_plain(x: Any) -> Any:
    c, ys = x, []
    for r in ROWS:
        for s in W:
            c = c * s.cos() + x
        c = c * 0.5 - r if c.sum() > 0 else (c * r).sin() + 1
        ys.append(c.sum())
    return (c * c).sum() + ad.stack(ys).prod()


def checkpointed(x: Any) -> Any:
    total, ys = ad.scan(lambda c, r: ((c * r + x).tanh(), c.sin() * r), x, ROWS, checkpoint=True)
    return (total * total).sum() + (ys * ys * ys).sum()


def stopped(x: Any) -> Any:
    def body(c: Any, r: Any) -> Any:
        return c.detach() * r + (c * x).sin() + r.detach() * x.detach(), c * x.detach()

    c, ys = ad.scan(body, x * 2, ROWS * x)
    return c.sum() + (ys * ys).sum()


def stopped_plain(x: Any) -> Any:
    c, ys = x * 2, []
    for r in ROWS * x:
        ys.append(c * x.detach())
        c = c.detach() * r + (c * x).sin() + r.detach() * x.detach()
    return c.sum() + (ad.stack(ys) ** 2).sum()


PAIRS: dict[str, tuple[Fn, Fn]] = {
    "scan": (carried_sum, carried_sum_plain),
    "scan_reverse": (from_the_end, from_the_end_plain),
    "scan_checkpoint": (checkpointed, carried_sum_plain),
    "cond": (either, either_plain),
    "while_bounded": (bounded, loop_plain),
    "while": (unbounded, loop_plain),
    "nested": (nested, nested_plain),
    "detach": (stopped, stopped_plain),
}
TRANSFORMS: dict[str, Callable[[Fn], Fn]] = {
    "value": lambda f: f,
    "grad": func.grad,
    "jacfwd": func.jacfwd,
    "hessian": func.hessian,
    "reverse_over_reverse": lambda f: func.jacrev(func.jacrev(f)),
    "reverse_over_forward": lambda f: func.jacrev(func.jacfwd(f)),
    "forward_over_forward": lambda f: func.jacfwd(func.jacfwd(f)),
}
POINTS = [ad.tensor([0.3, -0.2, 0.5]).double(), ad.tensor([-0.4, 0.1, -0.3]).double()]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PAIRS)
def test_equal_to_plain_python(name: str, transform: str) -> None:
    written, plain = (TRANSFORMS[transform](f) for f in PAIRS[name])
    reverse = transform in ("grad", "hessian") or transform.startswith("reverse")
    captured = capture(written)
    want = [plain(x) for x in POINTS]
    for x, w in zip(POINTS, want, strict=True):
        assert np.allclose(written(x).numpy(), w.numpy(), atol=1e-12)
        if name == "while" and reverse:
            with pytest.raises(RuntimeError, match="max_iterations"):
                captured(x)
            continue
        assert np.allclose(captured(x).numpy(), w.numpy(), atol=1e-12)
    both = ad.stack(POINTS)
    batched = func.vmap(written)
    whole = ad.stack(want).numpy()
    assert np.allclose(batched(both).numpy(), whole, atol=1e-11)
    if not (name == "while" and reverse):
        assert np.allclose(capture(batched)(both).numpy(), whole, atol=1e-11)
        assert captured.traces == 1


@pytest.mark.parametrize("name", [n for n in PAIRS if n != "while"])
def test_gradient_of_a_batch(name: str) -> None:
    total = lambda f: func.grad(lambda x: func.vmap(f)(x).sum())
    both = ad.stack(POINTS)
    want = ad.stack([func.grad(PAIRS[name][1])(x) for x in POINTS]).numpy()
    assert np.allclose(total(PAIRS[name][0])(both).numpy(), want, atol=1e-11)
    assert np.allclose(capture(total(PAIRS[name][0]))(both).numpy(), want, atol=1e-11)


@pytest.mark.parametrize("name", [n for n in PAIRS if n != "while"])
def test_tape_and_finite_differences(name: str) -> None:
    written = PAIRS[name][0]

    @capture
    def gradient(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        written(leaf).backward()
        return leaf.grad

    x = POINTS[0]
    step = 1e-6
    want = [
        float(written(x + step * e) - written(x - step * e)) / (2 * step)
        for e in ad.eye(3, dtype=ad.float64)
    ]
    found = gradient(x).numpy()
    if name == "detach":  # finite differences do not know of it
        want = func.grad(stopped_plain)(x).numpy()
    assert np.allclose(found, want, atol=1e-6)


# -- stateful programs, captured five times -----------------------------------------------------


def trained(wrap: Any) -> Any:
    w = ad.tensor([[0.5, -0.3], [0.2, 0.4]], requires_grad=True)
    rate = {"lr": 0.1}
    lr = HostScalar(lambda: rate["lr"], "lr")

    @wrap
    def step(xs: Any) -> Any:
        def body(h: Any, x: Any) -> Any:
            noise = ad.rand(2)
            h = ad.nn.functional.dropout((h @ w + x * lr).tanh(), 0.3) + noise
            return h, h * ad.randn(())

        w.grad = None
        h, ys = ad.scan(body, xs[0], xs)
        loss = (h * h).sum() + ys.sum()
        loss.backward()
        with ad.no_grad():
            w.sub_(w.grad, alpha=0.1)
        return loss.detach(), ad.rand(2)

    def call(i: int) -> Any:
        rate["lr"] = 0.1 / (i + 1)
        return step(ad.full((3, 2), 0.1 * i))

    return call, [w, lambda: w.grad]


def chosen(wrap: Any) -> Any:
    w = ad.tensor([0.5, -0.3], requires_grad=True)
    total = ad.zeros(2)

    @wrap
    def step(x: Any) -> Any:
        y = ad.cond(x.sum() > 1, lambda x: x * w * ad.rand(2), lambda x: (x - w) / ad.rand(2), (x,))
        total.add_(y.detach())
        (y * y).sum().backward()
        return y.detach()

    return lambda i: step(ad.full((2,), 0.3 * i)), [w, total, lambda: w.grad]


@pytest.mark.parametrize("program", [trained, chosen])
def test_five_captured_calls_equal_eager(program: Any) -> None:
    runs = []
    for wrap in (lambda f: f, capture):
        ad.manual_seed(3)
        call, state = program(wrap)
        results = [call(i) for i in range(5)]
        runs.append((results, [s() if callable(s) else s for s in state], ad.rand(3)))
    for a, b in zip(*(tree.flatten(r)[0] for r in runs), strict=True):
        assert np.allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-6)
    assert np.array_equal(runs[0][2].numpy(), runs[1][2].numpy())


@pytest.mark.parametrize("reverse", [False, True])
def test_random_numbers_are_the_loops_own(reverse: bool) -> None:
    def draws() -> Any:
        def inner(c: Any, _: Any) -> Any:
            return c, (ad.rand(2), ad.randn(3))

        def outer(c: Any, _: Any) -> Any:
            first = ad.rand(1)
            _, ys = ad.scan(inner, c, None, length=3)
            return c, (first, ys)

        return ad.rand(1), ad.scan(outer, ad.zeros(()), None, length=2, reverse=reverse), ad.rand(1)

    replayed = capture(draws)
    ad.manual_seed(0)
    eager = [tree.flatten(draws())[0] for _ in range(3)]
    ad.manual_seed(0)
    for want in eager:
        got = tree.flatten(replayed())[0]
        assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(want, got, strict=True))


# -- the graph ----------------------------------------------------------------------------------


def test_one_node_whatever_the_length() -> None:
    def run(x: Any, xs: Any) -> Any:
        return ad.scan(lambda c, r: (c * r, c + r), x, xs)

    captured = capture(run)
    sizes = []
    for n in (2, 50):
        captured(ad.ones(3), ad.ones(n, 3))
        graph = captured.latest.graph
        sizes.append(len(graph))
        assert [node.record.name for node in graph] == ["scan"]
        assert len(graph.nodes[0].params["body"]) == 2
    assert sizes[0] == sizes[1]


def test_residuals_are_what_backward_needs() -> None:
    """Constants are not stacked, nor what is computed from them alone, nor the inputs' rows."""
    w = ad.randn(3, 3, requires_grad=True)

    @capture
    def gradient(h: Any, xs: Any) -> Any:
        h, _ = ad.scan(lambda h, x: ((x + h @ (w * 2).T).tanh(), None), h, xs)
        return ad.autograd.grad(h.sum(), w)[0]

    gradient(ad.ones(2, 3), ad.ones(5, 2, 3))
    forward, backward = (n for n in gradient.latest.graph if n.record.name == "scan")
    shapes = [tuple(v.spec.shape) for v in forward.outputs]
    assert shapes == [(2, 3), (5, 2, 3), (5, 2, 3)]  # the carry; tanh's result; the state before
    assert backward.params["reverse"]


def test_text_runs_and_graph_verifies() -> None:
    captured = capture(func.grad(nested))
    x = POINTS[0]
    want = captured(x)
    graph = captured.latest.graph
    verify(graph)
    inputs = [s.read([x]) for s in captured.latest.sources]
    text = to_text(graph)
    assert "_body(" in text
    assert np.array_equal(load(text)(*inputs)[0].numpy(), want.numpy())
    assert np.array_equal(interpret(graph, inputs)[0].numpy(), want.numpy())


# -- corners ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, capture])
def test_no_iteration(wrap: Any) -> None:
    c, ys = wrap(lambda x, xs: ad.scan(lambda c, r: (c + r, (c, r.sum())), x, xs))(
        ad.ones(2), ad.ones(0, 2)
    )
    assert c.tolist() == [1, 1]
    assert [tuple(y.shape) for y in ys] == [(0, 2), (0,)]


@pytest.mark.parametrize("wrap", [lambda f: f, capture])
def test_no_grad_inside(wrap: Any) -> None:
    def f(x: Any) -> Any:
        def body(c: Any, r: Any) -> Any:
            with ad.no_grad():
                scale = c * r
            return c * scale, None

        leaf = x.detach().requires_grad_()
        c, _ = ad.scan(body, leaf, ROWS)
        c.sum().backward()
        return leaf.grad

    def plain(x: Any) -> Any:
        leaf = c = x.detach().requires_grad_()
        for r in ROWS:
            c = c * (c * r).detach()
        c.sum().backward()
        return leaf.grad

    assert np.allclose(wrap(f)(POINTS[0]).numpy(), plain(POINTS[0]).numpy())


def test_a_custom_function_in_a_body_is_refused_only_by_its_derivative() -> None:
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    run = lambda x: ad.scan(lambda c, r: (Double.apply(c) + r, None), x, ROWS)[0].sum()
    assert np.allclose(capture(run)(POINTS[0]).numpy(), run(POINTS[0]).numpy())
    func.grad(run)(POINTS[0])
    with pytest.raises(NotImplementedError, match="Double"):
        capture(func.grad(run))(POINTS[0])


def grown(c: Any, x: Any) -> Any:
    return ad.cat([c, x]), None


def widened(c: Any, x: Any) -> Any:
    return c.to(ad.float64), None


def written(c: Any, x: Any) -> Any:
    return c.add_(x), None


def no_pair(c: Any, x: Any) -> Any:
    return c


@pytest.mark.parametrize("wrap", [lambda f: f, capture])
@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (grown, TypeError, "must keep shape"),
        (widened, TypeError, "float64"),
        (written, RuntimeError, "in-place write"),
        (no_pair, TypeError, r"\(carry, y\)"),
    ],
)
def test_refused_bodies(wrap: Any, body: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        wrap(lambda x: ad.scan(body, x, ad.ones(3, 2)))(ad.ones(2))


def test_refused_when_captured() -> None:
    outside = ad.zeros(2)

    def writes(c: Any, x: Any) -> Any:
        outside.add_(x)
        return c, None

    with pytest.raises(RuntimeError, match="did not make"):
        capture(lambda x: ad.scan(writes, x, ad.ones(3, 2)))(ad.ones(2))
    assert outside.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="different amounts of random"):
        capture(lambda x: ad.cond(x.sum() > 0, lambda: ad.rand(2), lambda: x))(ad.ones(2))
    with pytest.raises(RuntimeError, match="random draw"):
        capture(lambda x: ad.while_loop(lambda x: x.sum() < 9, lambda x: x + ad.rand(2), (x,)))(
            ad.ones(2)
        )
    with pytest.raises(TypeError, match="false_fn's result"):
        capture(lambda x: ad.cond(x.sum() > 0, lambda: x, lambda: x.sum()))(ad.ones(2))
    with pytest.raises(RuntimeError, match="one element"):
        ad.cond(ad.ones(2) > 0, lambda: 1, lambda: 2)
    with pytest.raises(ValueError, match="length"):
        ad.scan(lambda c, x: (c, x), 0, ad.ones(3), length=2)


def test_a_leaked_body_value_is_an_error() -> None:
    kept: list[Any] = []

    def body(c: Any, x: Any) -> Any:
        kept.append(c * x)
        return c + x, None

    def run(x: Any) -> Any:
        c, _ = ad.scan(body, x, ad.ones(3, 2))
        return c + kept[0]

    with pytest.raises(RuntimeError, match="used outside"):
        capture(run)(ad.ones(2))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_associative_scan(count: int, reverse: bool) -> None:
    a, b = (ad.tensor(np.random.default_rng(k).normal(size=(2, count))) for k in (0, 1))

    def recurrence(a: Any, b: Any) -> Any:
        combine = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])
        return ad.associative_scan(combine, (a, b), dim=1, reverse=reverse)[1]

    def plain(a: Any, b: Any) -> Any:
        total, rows = ad.zeros(2, dtype=ad.float64), []
        for k in reversed(range(count)) if reverse else range(count):
            total = a[:, k] * total + b[:, k]
            rows.append(total)
        return ad.stack(rows[::-1] if reverse else rows, 1)

    want = plain(a, b).numpy()
    slope = lambda f: func.grad(lambda a: f(a, b).sin().sum())
    for wrap in (lambda f: f, capture):
        np.testing.assert_allclose(wrap(recurrence)(a, b).numpy(), want)
        np.testing.assert_allclose(wrap(slope(recurrence))(a).numpy(), slope(plain)(a).numpy())


def test_pytorchs_paths() -> None:
    ops = ad._higher_order_ops
    add = lambda c, x: (c + x, c * x)
    assert ops.scan(add, init=ad.zeros(()), xs=ad.ones(3), reverse=True)[0].item() == 3
    assert ops.map(lambda x, k: x * k, ad.ones(3), 2.0).tolist() == [2, 2, 2]
    assert ops.cond(ad.tensor(True), lambda: ad.ones(()), lambda: ad.zeros(())).item() == 1
    assert ops.while_loop(lambda n: n < 3, lambda n: (n + 1,), (ad.tensor(0),))[0].item() == 3
    assert ops.associative_scan is ad.associative_scan
    pairs = ops.foreach_map(ad.lerp, [ad.zeros(()), ad.ones(())], [ad.ones(()), ad.ones(())], 0.5)
    assert [x.item() for x in pairs] == [0.5, 1.0]
    assert ops.foreach_map(ad.neg, ad.ones(())).item() == -1  # no list: once
    with pytest.raises(RuntimeError, match="of one length, but got lengths"):
        ops.foreach_map(ad.add, [ad.ones(())], [ad.ones(())] * 2)


# -- random programs ----------------------------------------------------------------------------

STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda c, x, k: c + x,
    "mul": lambda c, x, k: c * x.sin(),
    "matmul": lambda c, x, k: c @ k,
    "tanh": lambda c, x, k: (c + k[0]).tanh(),
    "write": lambda c, x, k: _written(c, x),
    "roll": lambda c, x, k: c.roll(1) * k.sum(),
    "choose": lambda c, x, k: ad.cond(x.sum() > 0, lambda: c * x, lambda: c.cos() + x),
    "select": lambda c, x, k: ad.where(c > x, c, k[1]),
}


def _written(c: Any, x: Any) -> Any:
    out = c.clone()
    out[0] = x[1] * c[2]
    out[1:] += x[:2]
    return out


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
    length=st.integers(1, 4),
    reverse=st.booleans(),
    checkpoint=st.booleans(),
    seed=st.integers(0, 99),
)
def test_random_bodies(
    steps: list[str], length: int, reverse: bool, checkpoint: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    start, rows, k = (ad.tensor(rng.normal(size=s)) for s in ((3,), (length, 3), (3, 3)))

    def body(c: Any, x: Any, k: Any) -> Any:
        for name in steps:
            c = STEPS[name](c, x, k)
        return c

    def looped(c: Any, xs: Any, k: Any) -> Any:
        out = 0.0
        for x in list(xs)[::-1] if reverse else xs:
            c = body(c, x, k)
            out = out + (c * c).sum()
        return out + c.sum()

    def scanned(c: Any, xs: Any, k: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = body(c, x, k)
            return c, (c * c).sum()

        c, ys = ad.scan(step, c, xs, reverse=reverse, checkpoint=checkpoint)
        return ys.sum() + c.sum()

    gradient = lambda f: func.grad(f, argnums=(0, 1, 2))
    want = gradient(looped)(start, rows, k)
    got = capture(gradient(scanned))(start, rows, k)
    for a, b in zip(want, got, strict=True):
        assert np.allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-8)
