"""cond, scan and while_loop in native programs: one native call, equal to plain Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import func
from adjoint.engine.backends.llvm.program import native
from adjoint.engine.compiler.schedule.calls import HostCall
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.tree import flatten
from adjoint.nn import functional as F
from tests.pressing import interrupted

Fn = Callable[..., Any]
SMALL = ad.tensor(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))
LARGE = ad.tensor(np.random.default_rng(1).normal(size=(256, 256)).astype(np.float32))


@pytest.fixture(autouse=True)
def _as_many_threads() -> Iterator[None]:
    before = ad.get_num_threads()
    yield
    ad.set_num_threads(before)


# -- programs: functions of a matrix that run eagerly as plain Python ------------------------------


def newton(x: Any) -> Any:
    a = x.abs() + 0.5
    close = lambda n, y: ((y * y - a).abs() > 1e-4 * a).any() & (n < 40)
    return ad.while_loop(close, lambda n, y: (n + 1, (y + a / y) * 0.5), (ad.tensor(0), a))


def no_turn(x: Any) -> Any:
    return ad.while_loop(lambda y: y.sum() > 1e9, lambda y: y * 2, (x,))


def one_turn(x: Any) -> Any:
    return ad.while_loop(lambda n, y: n < 1, lambda n, y: (n + 1, y.sin()), (0, x.T))


def many_turns(x: Any) -> Any:
    """More than the driver walks without a pause."""
    return ad.while_loop(lambda n, y: n < 1000, lambda n, y: (n + 1, (y + n).cos()), (0, x[0]))


def swapped(x: Any) -> Any:
    body = lambda n, a, b: (n + 1, b, (a + b).sin())
    return ad.while_loop(lambda n, a, b: n < 7, body, (0, x, x * 0.5))


def kept_as_they_were(x: Any) -> Any:
    body = lambda n, y, same, flag: (n + 1, y * 0.9 + same, same, ~flag)
    return ad.while_loop(lambda n, *_: n < 5, body, (0, x, x * 0.1, ad.tensor(True)))


def products(x: Any) -> Any:
    w = x.T @ x / x.numel()
    body = lambda y: (y @ w).softmax(-1) * 0.5 + y * 0.4
    return ad.while_loop(lambda y: y.abs().max() > 0.3, body, x)


def halves(x: Any) -> Any:
    y = x.to(ad.bfloat16)
    body = lambda n, y: (n + 1, y * 0.75 + 0.125)
    return ad.while_loop(lambda n, y: n < 6, body, (0, y))


def either(x: Any) -> Any:
    yes = lambda x: ((x * 2).sin(), x.sum(0))
    no = lambda x: (x.cos() + 1, x.amax(0))
    return [ad.cond(x.sum() * s > 0, yes, no, (x,)) for s in (1, -1)]


def by_number(x: Any) -> Any:
    """Predicates that are no booleans: a float of shape (1,), an integer."""
    pick = lambda p: ad.cond(p, lambda x: x * 2, lambda x: x - 1, (x,))
    return pick(x[0, :1]), pick(x[0, :1] * 0.0), pick((x > 0).sum()), pick(x[0, :1] * ad.nan)


def operands_themselves(x: Any) -> Any:
    yes, no = (lambda x, y: (x, x, y)), (lambda x, y: (y.T.T, y * 2, x))
    return ad.cond(x.sum() > 0, yes, no, (x, x.sin())), ad.cond(x.sum() < 0, yes, no, (x.T, x.T))


def constants(x: Any) -> Any:
    return ad.cond(x.sum() > 0, lambda: ad.ones(3), lambda: ad.zeros(3)) + x[0, :3]


def conds_at_the_end(x: Any) -> Any:
    """Branches that end in branches: every way out leads past all of them."""

    def deep(level: int) -> Fn:
        if not level:
            return lambda y: y * 1.5
        test = lambda y: y.sum() * (-1) ** level > level
        return lambda y: ad.cond(test(y), deep(level - 1), lambda y: deep(level - 1)(y + 1), (y,))

    return [deep(3)(x + shift) for shift in (-2.0, -0.1, 0.3, 4.0)]


def while_in_cond(x: Any) -> Any:
    shrink = lambda y: ad.while_loop(lambda y: y.abs().max() > 1, lambda y: y * 0.5, y)
    return [ad.cond(x[0, 0] * s > 0, shrink, lambda y: y + 1, (x,)) for s in (1, -1)]


def cond_in_while(x: Any) -> Any:
    def body(n: Any, y: Any) -> Any:
        return n + 1, ad.cond(n % 2 == 0, lambda y: y.sin() + x, lambda y: y * 0.5, (y,))

    return ad.while_loop(lambda n, y: n < 5, body, (0, x))


def while_in_while(x: Any) -> Any:
    inner = lambda m, y: (m + 1, y * 0.9 + 0.1 * m)

    def outer(n: Any, y: Any) -> Any:
        _, y = ad.while_loop(lambda m, y: m < n, inner, (0, y))
        return n + 1, y

    return ad.while_loop(lambda n, y: n < 6, outer, (0, x))


def cond_in_scan(x: Any) -> Any:
    def body(c: Any, r: Any) -> Any:
        c = ad.cond(r.sum() > 0, lambda c: c * 0.5 + r, lambda c: (c * r).sin(), (c,))
        return c, c.sum()

    return ad.scan(body, x[0], x[:6]), ad.scan(body, x[0], x[:6], reverse=True)


def while_in_scan(x: Any) -> Any:
    def body(c: Any, r: Any) -> Any:
        c = ad.while_loop(lambda c: c.abs().max() > 0.7, lambda c: c * 0.6, c + r)
        return c, c * 2

    return ad.scan(body, x[0], x[:5])


def scan_in_cond(x: Any) -> Any:
    run = lambda y: ad.scan(lambda c, r: (c.sin() + r, c), y, x[:4])
    return ad.cond(x.sum() > 0, run, lambda y: (y, x[:4] * 1.0), (x[0],))


def scan_in_while(x: Any) -> Any:
    def body(n: Any, y: Any) -> Any:
        y, ys = ad.scan(lambda c, r: (c * 0.5 + r, c.sum()), y, x[:3])
        return n + 1, y + ys.sum() * 0.01

    return ad.while_loop(lambda n, y: n < 4, body, (0, x[0]))


def gradient_of_cond(x: Any) -> Any:
    def loss(y: Any, s: float) -> Any:
        yes, no = (lambda y: (y.sin() * x).exp()), (lambda y: y * y * x)
        return ad.cond(y.sum() * s > 0, yes, no, (y,)).sum()

    return [func.grad(loss)(x * 0.1, s) for s in (1.0, -1.0)]


def second_derivatives(x: Any) -> Any:
    f = lambda y: ad.cond(y.sum() > 0, lambda y: y.sin() * y, lambda y: y**3, (y,)).sum()
    return func.hessian(f)(x[0, :3]), func.hessian(f)(-x[0, :3])


def gradient_through_state(x: Any) -> Any:
    leaf = x.detach().requires_grad_()
    y = ad.cond(leaf.sum() > 0, lambda y: y.tanh() * y, lambda y: y.exp(), (leaf,))
    (y * y).sum().backward()
    return leaf.grad


def forward_derivative(x: Any) -> Any:
    f = lambda y: newton(y)[1]
    return func.jvp(f, (x,), (x.cos(),)), func.jacfwd(lambda y: newton(y)[1].sum(0))(x[:2, :3])


def bounded_gradient(x: Any) -> Any:
    def root(y: Any) -> Any:
        a = y.abs() + 0.5
        close = lambda z: ((z * z - a).abs() > 1e-3).any()
        return ad.while_loop(close, lambda z: (z + a / z) / 2, a, max_iterations=12).sum()

    return func.grad(root)(x), root(x)


def gradient_of_the_nested(x: Any) -> Any:
    def loss(y: Any) -> Any:
        def body(c: Any, r: Any) -> Any:
            c = ad.cond(c.sum() > 0, lambda c: c * r, lambda c: (c + r).sin(), (c,))
            return c, c.sum()

        c, ys = ad.scan(body, y, x[:4])
        return (c * c).sum() + ys.sum()

    return func.grad(loss)(x[0])


def batched_loop(x: Any) -> Any:
    f = lambda k: ad.while_loop(lambda c: c < k.abs().sum(), lambda c: c * 1.5 + 0.1, ad.ones(()))
    return func.vmap(f)(x[:, :3])


def batched_cond(x: Any) -> Any:
    f = lambda p, r: ad.cond(p, lambda r: r.sin(), lambda r: r.cumsum(0), (r,))
    return func.vmap(f, in_dims=(None, 0))(x.sum() > 0, x)


def picked(x: Any) -> Any:
    at = ad.tensor([0, 2, 1])
    body = lambda n, y: (n + 1, y[at] * 0.5 + x[n, :3])
    return ad.while_loop(lambda n, y: n < 3, body, (0, x[0, :3]))


def drawn(x: Any) -> Any:
    a = ad.rand(3)
    pick = lambda s: ad.cond(
        x.sum() * s > 0, lambda: ad.rand(3) + ad.randn(3), lambda: ad.randn(3) - ad.rand(3)
    )
    step = lambda c, r: (c + ad.cond(r.sum() > 0, lambda: ad.rand(3), lambda: -ad.rand(3)), None)
    return a, pick(1), pick(-1), ad.scan(step, a, x[:5])[0], ad.rand(2)


PROGRAMS: dict[str, Fn] = {
    f.__name__: f
    for f in (
        newton, no_turn, one_turn, many_turns, swapped, kept_as_they_were, products, halves,
        either, by_number, operands_themselves, constants, conds_at_the_end, while_in_cond,
        cond_in_while, while_in_while, cond_in_scan, while_in_scan, scan_in_cond, scan_in_while,
        gradient_of_cond, second_derivatives, gradient_through_state, forward_derivative,
        bounded_gradient, gradient_of_the_nested, batched_loop, batched_cond, picked, drawn,
    )
}  # fmt: skip


def leaves(tree: Any) -> list[Any]:
    return [t.detach() for t in flatten(tree)[0] if t is not None]


def observed(run: Fn, x: Any) -> list[Any]:
    """What three calls give, of x and of -x, and what is drawn after them."""
    ad.manual_seed(2)
    return leaves([run(y) for y in (x, -x, x)] + [ad.rand(2)])


def one_native_call(compiled: Any) -> None:
    segments = compiled.latest.executable.segments
    assert len(segments) == 1, compiled.explain()
    assert not isinstance(segments[0], HostCall), compiled.explain()


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_native_call_equal_to_plain_python(name: str, size: str) -> None:
    run, x = PROGRAMS[name], SMALL if size == "small" else LARGE
    want = observed(run, x)
    runs = []
    for threads in (1, 2, 3):
        ad.set_num_threads(threads)
        compiled = ad.compile(run)
        runs.append(observed(compiled, x))
        one_native_call(compiled)
    for w, first, *others in zip(want, *runs, strict=True):
        assert first.dtype is w.dtype
        wide = ad.float64 if w.dtype.is_floating_point else w.dtype
        scale = float(w.to(ad.float64).abs().nan_to_num().max()) or 1.0
        np.testing.assert_allclose(
            first.to(wide).numpy(), w.to(wide).numpy(), rtol=2e-3, atol=2e-4 * scale
        )
        for other in others:  # bit for bit, whatever the number of threads
            np.testing.assert_array_equal(other.to(wide).numpy(), first.to(wide).numpy())


@pytest.mark.parametrize("kind", ["drawn", "large"])
def test_the_numbers_drawn_are_eagers(kind: str) -> None:
    x = SMALL if kind == "drawn" else LARGE
    want, got = observed(drawn, x), observed(ad.compile(drawn), x)
    for a, b in zip(want[:3] + want[-1:], got[:3] + got[-1:], strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_differentiated_from_outside() -> None:
    """A compiled forward with branches gets a compiled backward with branches."""
    w = ad.tensor([0.5, -0.3, 0.8], requires_grad=True)

    def run(x: Any) -> Any:
        y = ad.cond(x.sum() > 0, lambda: (x * w).sin(), lambda: (x - w).square())
        small = lambda z: z.abs().max() > 0.2
        return ad.while_loop(small, lambda z: z * w.sigmoid(), y, max_iterations=9)

    compiled, grads = ad.compile(run), []
    for f in (run, compiled):
        for x in (SMALL[0], -SMALL[0]):
            w.grad = None
            f(x).square().sum().backward()
            grads.append(w.grad.numpy().copy())
    one_native_call(compiled)
    np.testing.assert_allclose(grads[2:], grads[:2], rtol=1e-4)


# -- state ----------------------------------------------------------------------------------------


def stateful(wrap: Any) -> Any:
    """State changed before, by and after branches and loops; a host number read inside."""
    w, total, count = ad.ones(3), ad.zeros(3), ad.tensor(0)
    rate = {"lr": 0.0}
    lr = HostScalar(lambda: rate["lr"], "lr")

    @wrap
    def step(x: Any) -> Any:
        count.add_(1)
        w.mul_(0.9)
        new = ad.cond(x.sum() > 0, lambda: w + x * lr, lambda: w - x * lr)
        total.add_(new)
        w.copy_(ad.while_loop(lambda v: v.abs().max() > 1, lambda v: v * lr, new * 3))
        total.copy_(ad.cond(total.sum() > 2, lambda: total * 0.5, lambda: total + 1.0))
        count.copy_(ad.while_loop(lambda c: c % 3 == 1, lambda c: c + 1, count))
        return new * 2

    def call(i: int) -> Any:
        rate["lr"] = 0.5 / (i + 1)
        return step(SMALL[i % 4] * (-1) ** i)

    return step, call, [w, total, count]


def test_state_before_and_after() -> None:
    runs = []
    for wrap in (lambda f: f, ad.compile):
        step, call, state = stateful(wrap)
        runs.append([[t.numpy().copy() for t in (call(i), *state)] for i in range(6)])
    one_native_call(step)
    for want, got in zip(*runs, strict=True):
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def adaptive(wrap: Any) -> Any:
    """A training step through an adaptive solver: how many steps it takes depends on the data."""
    ad.manual_seed(0)
    net = ad.nn.Sequential(ad.nn.Linear(2, 16), ad.nn.Tanh(), ad.nn.Linear(16, 2))
    optimizer = ad.optim.Adam(net.parameters(), lr=1e-2)

    def body(t: Any, h: Any, y: Any, n: Any) -> Any:
        k1 = net(y)
        k2 = net(y + h * k1)
        fine = ((k2 - k1) * h).abs().max().detach() < 1e-3
        t, y = ad.cond(fine, lambda: (t + h, y + h * 0.5 * (k1 + k2)), lambda: (t * 1, y * 1))
        return t, ad.minimum(h * ad.where(fine, 1.5, 0.5), 1 - t).clamp(min=1e-3), y, n + 1

    @wrap
    def step(y: Any) -> Any:
        start = (ad.zeros(()), ad.full((), 0.4), y, 0)
        goes_on = lambda t, h, y, n: t < 0.999
        _, _, y, n = ad.while_loop(goes_on, body, start, max_iterations=25)
        loss = (y - 1.0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        ad.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach(), n

    return step


def test_a_training_step_through_an_adaptive_solver() -> None:
    runs = []
    for wrap in (lambda f: f, ad.compile):
        step = adaptive(wrap)
        made = [step(LARGE[:8, :2] * s) for s in (1.0, 0.01, 3.0, 1.0)]
        runs.append(([float(loss) for loss, _ in made], [int(n) for _, n in made]))
    np.testing.assert_allclose(runs[1][0], runs[0][0], rtol=1e-4)
    assert runs[1][1] == runs[0][1]
    assert len(set(runs[0][1])) > 1
    one_native_call(step)


def test_long_scans_of_arguments() -> None:
    """Addresses that many turns need are filled in at every call."""

    def run(rows: Any, weight: Any) -> Any:
        return ad.scan(lambda c, r: (c * 0.5 + r * weight, c.sin()), weight, rows)

    compiled = ad.compile(run)
    for k in range(4):
        rows, weight = LARGE[k : k + 200].clone(), LARGE[k].clone()
        want, got = leaves(run(rows, weight)), leaves(compiled(rows, weight))
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)
    one_native_call(compiled)


# -- errors ---------------------------------------------------------------------------------------


def looked_up(x: Any, at: Any, which: Any) -> Any:
    return ad.cond(which, lambda: F.embedding(at, x), lambda: x[: at.shape[0]] * 2.0)


def walked(x: Any, at: Any, which: Any) -> Any:
    body = lambda n, y: (n + 1, y + F.embedding(at + n, x))
    return ad.while_loop(lambda n, y: which & (n < 2), body, (0, x[: at.shape[0]]))[1]


@pytest.mark.parametrize("run", [looked_up, walked])
def test_faults_are_of_what_runs(run: Fn) -> None:
    count = ad.zeros(())

    def counting(*args: Any) -> Any:
        count.add_(1)
        return run(*args)

    compiled = ad.compile(counting)
    good, bad = ad.tensor([0, 1]), ad.tensor([0, 4])
    taken, left = ad.tensor(True), ad.tensor(False)
    for args in ((SMALL, good, taken), (SMALL, bad, left), (SMALL, good, left)):
        np.testing.assert_allclose(compiled(*args).numpy(), run(*args).numpy())
    one_native_call(compiled)
    assert count.item() == 3
    with pytest.raises(IndexError) as eager:
        run(SMALL, bad, taken)
    with pytest.raises(IndexError) as native:
        compiled(SMALL, bad, taken)
    assert str(native.value) == str(eager.value)
    assert count.item() == 3
    np.testing.assert_allclose(
        compiled(SMALL, good, taken).numpy(), run(SMALL, good, taken).numpy()
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("x", [SMALL, LARGE], ids=["small", "large"])
def test_a_loop_without_end_is_interrupted(x: Any, threads: int) -> None:
    ad.set_num_threads(threads)
    state, stop = ad.zeros(x.shape), 3.0

    @ad.compile
    def step(y: Any, limit: Any) -> Any:
        state.add_(1)
        loop = lambda n, v: (n + 1, (v * 1.01).sin())
        n, v = ad.while_loop(lambda n, v: n < limit, loop, (ad.tensor(0.0), y))
        state.add_(v)
        return n

    step(x, ad.tensor(stop))
    one_native_call(step)
    held = state.numpy().copy()
    with interrupted(0.1):
        step(x, ad.tensor(float("inf")))
    np.testing.assert_array_equal(state.numpy(), held)  # as it was before the call
    assert step(x, ad.tensor(stop)).item() == stop


# -- what falls back, sizes, disk, explain --------------------------------------------------------


def test_what_has_no_native_code_falls_back_and_says_why() -> None:
    curve = lambda x: ad.geqrf(x.reshape(-1, 1))[0].reshape(x.shape)
    kinds: dict[str, Fn] = {
        "geqrf inside it": lambda x: ad.cond(x.sum() > 0, lambda: curve(x), lambda: x),
        "complex64": lambda x: ad.cond(x.sum() > 0, lambda: x * 1j, lambda: x + 1j).real,
        "nothing to compute": lambda x: ad.cond(x.sum() > 0, lambda: x[:0] * 2, lambda: x[:0]),
        "cond inside it: geqrf inside it": lambda x: ad.while_loop(
            lambda n, y: n < 2,
            lambda n, y: (n + 1, ad.cond(n > 0, lambda: curve(y) + y, lambda: y)),
            (0, x),
        )[1],
    }
    for reason, run in kinds.items():
        compiled = ad.compile(run)
        np.testing.assert_allclose(compiled(SMALL).numpy(), run(SMALL).numpy())
        assert reason in compiled.explain(), compiled.explain()


def sizes_vary(x: Any) -> Any:
    def body(n: Any, y: Any) -> Any:
        y = ad.cond(y.sum() > 0, lambda y: y * 0.5, lambda y: y.sin() + 1, (y,))
        return n + 1, y + x.mean(0)

    return ad.while_loop(lambda n, y: (n < 9) & (y.abs().max() > 0.1), body, (0, x * 2))


def test_one_plan_for_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "from_disk", lambda *args: None)  # so that a plan is made
    compiled = ad.compile(sizes_vary, dynamic=True)
    for n in (4, 7, 30, 2, 100):
        x = LARGE[:n, :3].contiguous()
        for a, b in zip(compiled(x), sizes_vary(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)
        one_native_call(compiled)
    assert "one plan for the sizes" in compiled.explain()
    assert "planned by itself" not in compiled.explain()


def test_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program made from what another left on disk: no plan, the same results."""
    monkeypatch.delenv("ADJOINT_VALIDATE", raising=False)  # what is validated is always planned

    def run(x: Any) -> Any:
        shrink = lambda y: ad.while_loop(lambda y: y.sum() > 1, lambda y: y * 0.5, y)
        return ad.cond(x[0] > 0, shrink, lambda y: y - 1, (x,))

    told = []
    for again in (False, True):
        compiled = ad.compile(run)
        assert compiled(ad.ones(5)).tolist() == [0.125] * 5
        assert compiled(-ad.ones(5)).tolist() == [-2.0] * 5
        assert not again or compiled.latest.executable.plan is None
        told.append(compiled.explain())
    assert told[0] == told[1]


def test_explain_shows_what_is_inside() -> None:
    def run(x: Any) -> Any:
        y = ad.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cumsum(0).cos(), (x,))
        return ad.while_loop(lambda y: y.sum() > 1, lambda y: y.cos() * 0.1, y)

    compiled = ad.compile(run)
    compiled(SMALL)
    lines = compiled.explain().splitlines()
    assert "3 steps: 1 launches of fused kernels" in lines[0]
    assert "2 loops and branches" in lines[0]
    told = [" ".join(line.split()[:4]) for line in lines[1:9]]
    assert told == [
        "1 kernel sum+gt 13",  # floating-point operations: 12 elements, one comparison
        "2 branch cond 24",  # the larger part: cumsum and cos
        "2.1 kernel true: sin",
        "2.2 template false: cumsum",
        "2.3 kernel false: cos",
        "3 loop while_loop 37",  # a turn: 13 and 24
        "3.1 kernel test: sum+gt",
        "3.2 kernel body: cos+mul",
    ]
    assert "FLOPs a turn" in lines[6]


def test_what_a_body_makes_takes_little_room() -> None:
    """Values inside a body are dead after their last reader there, not only after the loop."""

    def body(n: Any, y: Any) -> Any:
        for _ in range(10):
            y = y @ SQUARE
        return n + 1, y

    SQUARE = LARGE * 0.05
    run = lambda x: ad.while_loop(lambda n, y: n < 3, body, (0, x))[1]
    compiled = ad.compile(run)
    np.testing.assert_allclose(compiled(LARGE).numpy(), run(LARGE).numpy(), rtol=1e-2, atol=1e-3)
    one_native_call(compiled)
    assert compiled.latest.executable.image.arena < 5.1 * 256 * 256 * 4
