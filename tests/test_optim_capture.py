"""Whole steps, captured or compiled: each optimizer and scheduler equals eager, with few traces."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.errors import CaptureError
from adjoint.graph import capture
from tests.samples.optimizers import ROWS, Options, Row, ident

optim = ad.optim


def maker(kind: Any, options: Options) -> Callable[[Any], Any]:
    """From parameters to an optimizer; Muon takes the matrices among them."""

    def make(params: Any) -> Any:
        chosen = [p for p in params if p.ndim == 2] if kind is optim.Muon else params
        return kind(chosen, **options)

    return make


MOMENTUM, ADAM = maker(*ROWS[1]), maker(*ROWS[4])

S = ad.optim.lr_scheduler
SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "lambda": lambda o: S.LambdaLR(o, lambda e: 0.9**e),
    "multiplicative": lambda o: S.MultiplicativeLR(o, lambda e: 0.9),
    "step": lambda o: S.StepLR(o, 2),
    "multistep": lambda o: S.MultiStepLR(o, [1, 3]),
    "constant": lambda o: S.ConstantLR(o, 0.5, 2),
    "linear": lambda o: S.LinearLR(o),
    "exponential": lambda o: S.ExponentialLR(o, 0.9),
    "polynomial": lambda o: S.PolynomialLR(o, 10),
    "cosine": lambda o: S.CosineAnnealingLR(o, 4),
    "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 2),
    "cyclic": lambda o: S.CyclicLR(o, 0.01, 0.1, 2),
    "onecycle": lambda o: S.OneCycleLR(o, 0.1, total_steps=10),
    "sequential": lambda o: S.SequentialLR(o, [S.ConstantLR(o), S.ExponentialLR(o, 0.5)], [2]),
    "chained": lambda o: S.ChainedScheduler([S.ConstantLR(o), S.ExponentialLR(o, 0.5)]),
    "plateau": lambda o: S.ReduceLROnPlateau(o, patience=0),
    "swa": lambda o: ad.optim.swa_utils.SWALR(o, 0.02, 3),
}


def train(
    wrap: Callable[[Any], Any],
    make: Callable[[Any], Any],
    schedule: Callable[[Any], Any] | None = None,
    *,
    scaler: Any = None,
    bad: tuple[int, ...] = (),
) -> tuple[list[Any], Any]:
    """Five steps: forward, backward, clip, step; the scheduler outside."""
    ad.manual_seed(0)
    model = ad.nn.Sequential(ad.nn.Linear(4, 5), ad.nn.Tanh(), ad.nn.Linear(5, 2))
    optimizer = make(list(model.parameters()))
    scheduler = None if schedule is None else schedule(optimizer)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
        else:
            loss.backward()
        ad.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        return loss.detach()

    run = wrap(step)
    seen = []
    for i in range(5):
        scale = float("inf") if i in bad else 1.0
        x = ad.tensor(np.linspace(-1, i + 1, 12).reshape(3, 4).astype(np.float32)) * scale
        loss = run(x, ad.ones(3, 2))
        seen.append(loss.item())
        if scheduler is not None:
            scheduler.step(*([loss] if isinstance(scheduler, S.ReduceLROnPlateau) else []))
        seen += [p.detach().numpy().copy() for p in model.parameters()]
    seen += [t.numpy() for held in optimizer.state.values() for t in held.values()]
    return seen, run


# What is compiled is native by default: tests/test_native_steps.py has every optimizer, Adam with
# every scheduler, and the last of the scaler's rows at a lower tolerance.
COMPILED_THERE: Any = (capture,)


def same(*args: Any, wraps: Any = (capture, ad.compile), **kwargs: Any) -> None:
    scaler = kwargs.pop("scaler", lambda: None)
    want, _ = train(lambda fn: fn, *args, scaler=scaler(), **kwargs)
    for wrap in wraps:
        got, recorded = train(wrap, *args, scaler=scaler(), **kwargs)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
        assert recorded.traces <= 2


@pytest.mark.parametrize("row", ROWS, ids=ident)
def test_optimizer(row: Row) -> None:
    kind, options = row
    held = {k: copy.deepcopy(v) for k, v in options.items()}
    same(maker(kind, held), wraps=COMPILED_THERE)


@pytest.mark.parametrize("make", [MOMENTUM, ADAM], ids=["momentum", "adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_scheduler(name: str, make: Any) -> None:
    same(make, SCHEDULERS[name], wraps=COMPILED_THERE if make is ADAM else (capture, ad.compile))


def test_every_scheduler_has_a_row() -> None:
    optimizer = optim.SGD([ad.ones(1, requires_grad=True)], lr=0.1)
    covered = {type(make(optimizer)).__name__ for make in SCHEDULERS.values()}
    kinds = {k for k, v in vars(S).items() if isinstance(v, type) and hasattr(v, "step")}
    assert kinds - covered == {"LRScheduler", "_LRScheduler"}


# How often a step with the scheduler in it is recorded, at most, in twenty of them.
INSIDE: dict[str, tuple[Callable[[Any], Any], int]] = {
    "milestones": (lambda o: S.MultiStepLR(o, [3, 8, 8]), 4),
    "sequence": (
        lambda o: S.SequentialLR(
            o, [S.LinearLR(o, 0.1, total_iters=3), S.PolynomialLR(o, 12, 2.0)], [5]
        ),
        7,
    ),
    "cosine": (lambda o: S.CosineAnnealingLR(o, 10), 4),
}


@pytest.mark.parametrize("name", INSIDE)
def test_schedulers_inside_of_a_step(name: str) -> None:
    make, most = INSIDE[name]
    rates = []
    for compiled in (True, False):
        w = ad.ones(2).requires_grad_()
        optimizer = optim.SGD([w], lr=0.1)
        scheduler = make(optimizer)

        def step(x: Any, w: Any = w, optimizer: Any = optimizer, scheduler: Any = scheduler) -> Any:
            optimizer.zero_grad()
            loss = (w * x).sum()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss

        run: Any = ad.compile(step) if compiled else step
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nobody overrode the optimizer's step
            seen = [(float(run(ad.ones(2)).detach()), scheduler.get_last_lr()) for _ in range(20)]
        rates.append(np.array([(loss, *rate) for loss, rate in seen]))
        assert not compiled or run.traces <= most
    np.testing.assert_allclose(*rates, rtol=1e-6)


SCALED = {
    "momentum": MOMENTUM,
    "adam": ADAM,
    "rprop": maker(optim.Rprop, {"lr": 0.1}),
    "nadam": maker(optim.NAdam, {"lr": 0.1}),
    "asgd": maker(optim.ASGD, {"lr": 0.1, "t0": 2}),
    "radam": maker(optim.RAdam, {"lr": 0.1, "betas": (0.5, 0.6)}),
    "adafactor": maker(optim.Adafactor, {"lr": 0.1}),
}


@pytest.mark.parametrize("kind", SCALED)
@pytest.mark.parametrize("bad", [(), (2,), (0, 3)])
def test_scaler(kind: str, bad: tuple[int, ...]) -> None:
    same(
        SCALED[kind],
        scaler=lambda: ad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2),
        bad=bad,
        wraps=COMPILED_THERE if bad == (0, 3) else (capture, ad.compile),
    )


def scaled_steps(count: int, optimizer: Any, w: Any) -> Callable[[Any], Any]:
    scaler = ad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    def step(x: Any) -> Any:
        for _ in range(count):
            loss = (w * x).square().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return loss

    return step


def test_gradients_are_cleared_after_a_scaled_step() -> None:
    found = []
    for compiled in (True, False):
        w = ad.ones(3).requires_grad_()
        step = scaled_steps(1, optim.AdamW([w], lr=0.1), w)
        run = ad.compile(step) if compiled else step
        for i in range(5):
            run(ad.full((3,), float("inf") if i == 2 else 1.0 + i))
        found.append(w.detach())
    ad.testing.assert_close(*found)


BESIDES = ["a count", "a tensor of its own", "a count in the state", "another gradient", "noise"]


class OwnSteps(optim.Optimizer):
    """A user's optimizer; `kept` says what its steps keep, `rate` may be set between calls."""

    def __init__(self, w: Any, kept: str) -> None:
        super().__init__([w], {})
        self.kept, self.rate, self.steps, self.total = kept, 0.1, 0, ad.zeros(3)
        self.state[w] = {}

    @ad.no_grad()
    def step(self, closure: Any = None) -> None:
        for w in self.param_groups[0]["params"]:
            state = self.state[w]
            if self.kept == "a count":
                self.steps += 1
            elif self.kept == "a tensor of its own":
                self.total.add_(w.grad)
            elif self.kept == "a count in the state":
                state["steps"] = state.get("steps", 0) + 1
            elif self.kept == "noise":
                w.add_(ad.randn(3))
            elif self.kept == "another gradient":
                w.grad = w.grad + w
            elif self.kept == "gradients written to":
                w.grad.add_(w)
            elif self.kept == "state":
                state.setdefault("mean", ad.zeros_like(w)).lerp_(w.grad, 0.5)
            w.sub_(state.get("mean", w.grad), alpha=self.rate)


@pytest.mark.parametrize("kept", ["nothing", "state", "gradients written to"])
def test_a_step_of_ones_own_under_a_scaler(kept: str) -> None:
    found = []
    for compiled in (True, False):
        w = ad.ones(3).requires_grad_()
        optimizer = OwnSteps(w, kept)
        step = scaled_steps(1, optimizer, w)
        run = ad.compile(step) if compiled else step
        for i in range(6):
            run(ad.full((3,), float("inf") if i == 2 else 1.0 + i))
            if i == 3:
                optimizer.rate = 0.3
        found.append(w.detach())
    ad.testing.assert_close(*found)


@pytest.mark.parametrize("kept", [*BESIDES, "hook"])
def test_what_a_step_does_besides_cannot_be_undone_by_a_scaler(kept: str) -> None:
    w = ad.ones(3).requires_grad_()
    optimizer = OwnSteps(w, kept)
    log: list[int] = []
    if kept == "hook":
        optimizer.register_step_post_hook(lambda *_: log.append(1))
    run = ad.compile(scaled_steps(1, optimizer, w))
    if kept == "a count in the state":
        run(ad.ones(3))  # the step that makes the state is Python's
    with pytest.raises(CaptureError, match="OwnSteps.step under a GradScaler: whether it is made"):
        run(ad.ones(3))


def test_a_scaler_is_left_as_it_was_or_the_call_refused() -> None:
    w = ad.ones(3).requires_grad_()
    optimizer, scaler = optim.SGD([w], lr=0.1), ad.amp.GradScaler("cpu", init_scale=8.0)

    def part(x: Any) -> None:
        scaler.scale((w * x).sum()).backward()
        scaler.step(optimizer)

    for _ in range(2):
        with pytest.raises(CaptureError, match="unscale_, step and update all in the compiled"):
            ad.compile(part)(ad.ones(3))
        part(ad.ones(3))  # as if there had been no such call
        scaler.update()


def test_two_scaled_steps_of_one_call_are_refused_where_steps_count() -> None:
    w = ad.ones(3).requires_grad_()
    with pytest.raises(CaptureError, match="a step count of the optimizer was written to"):
        ad.compile(scaled_steps(2, optim.Adam([w], lr=0.1), w))(ad.ones(3))
    found = []
    for wrap in (ad.compile, lambda step: step):  # nothing counts: the second step is as any
        w = ad.ones(3).requires_grad_()
        run = wrap(scaled_steps(2, optim.SGD([w], lr=0.1, momentum=0.9), w))
        for i in range(4):
            run(ad.full((3,), float("inf") if i == 2 else 0.5))
        found.append(w.detach())
    ad.testing.assert_close(*found)


def test_autocast_in_a_captured_step() -> None:
    w = ad.ones(3, 3, requires_grad=True)

    @capture
    def step(x: Any) -> Any:
        with ad.autocast("cpu"):
            out = x @ w
        out.float().sum().backward()
        return out

    assert step(ad.ones(2, 3)).dtype is ad.bfloat16
    assert w.grad is not None
    assert w.grad.dtype is ad.float32


def test_the_autocast_mode_is_part_of_the_signature() -> None:
    product = capture(lambda x: x @ x)
    x = ad.ones(2, 2)
    for _ in range(3):
        with ad.autocast("cpu"):
            assert product(x).dtype is ad.bfloat16
    assert product.traces == 1
    assert product(x).dtype is ad.float32
    assert product.traces == 2


def test_options_and_schedules_are_changed_inside_a_capture() -> None:
    def run(wrap: Any) -> Any:
        w = ad.ones(1, requires_grad=True)
        optimizer = ad.optim.SGD([w], lr=0.1)
        scheduler = S.ExponentialLR(optimizer, 0.5)

        def step(x: Any) -> Any:
            rate = optimizer.param_groups[0]["lr"]
            scheduler.step()  # before the optimizer, which reads what it has set
            loss = (w * x).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            optimizer.param_groups[0]["momentum"] = 0.5
            return loss * rate

        fn = wrap(step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on the order of the two steps
            out = [fn(ad.ones(1)).tolist() for _ in range(4)]
        group = optimizer.param_groups[0]
        return out, w.tolist(), group["lr"], group["momentum"], scheduler.get_last_lr()

    assert run(capture) == run(lambda fn: fn)


def test_what_the_host_decides_is_refused_inside_a_capture() -> None:
    optimizer = ad.optim.SGD([ad.ones(1, requires_grad=True)], lr=0.1)
    scheduler = S.StepLR(optimizer, 1)
    lbfgs = ad.optim.LBFGS([ad.ones(1, requires_grad=True)])
    with ad.graph.Graph(), pytest.raises(RuntimeError, match="Call it outside"):
        scheduler.step()
    with ad.graph.Graph(), pytest.raises(RuntimeError, match="Change it outside"):
        optimizer.param_groups[0]["lr"] = 1.0
    with pytest.raises(
        RuntimeError, match=r"test_optim_capture.py:\d+, .*lbfgs.step.*capture the closure"
    ):
        capture(lambda x: lbfgs.step(lambda: x))(ad.ones(1))


def test_sparse_adam_refuses_dense_gradients_in_a_capture() -> None:
    w = ad.ones(2, requires_grad=True)
    optimizer = optim.SparseAdam([w])

    def step(x: Any) -> None:
        (w * x).sum().backward()
        optimizer.step()

    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        capture(step)(ad.ones(2))
    assert w.grad.tolist() == [1.0, 1.0]  # as Python left it at the raising line
    assert not optimizer.state


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_with_a_captured_closure(search: str | None) -> None:
    def run(wrap: Any) -> Any:
        w = ad.tensor([-1.2, 1.0], requires_grad=True)
        optimizer = optim.LBFGS([w], lr=0.1, max_iter=6, line_search_fn=search)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = 10 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2
            loss.backward()
            return loss

        evaluate = wrap(closure)
        losses = [float(optimizer.step(evaluate)) for _ in range(5)]
        return np.array([*losses, *w.detach().numpy()]), evaluate

    (got, captured), (want, _) = run(capture), run(lambda fn: fn)
    np.testing.assert_allclose(got, want, rtol=1e-4)
    assert captured.traces <= 2


def test_radam_is_traced_once_across_its_rectification() -> None:
    w = ad.ones(2, requires_grad=True)
    optimizer = optim.RAdam([w], lr=0.1)

    @capture
    def step(x: Any) -> None:
        optimizer.zero_grad()
        (w * x).sin().sum().backward()
        optimizer.step()

    for i in range(8):
        step(ad.tensor([1.0 + i, 2.0]))
    assert step.traces == 1


def test_averages_in_a_captured_step() -> None:
    def run(wrap: Any) -> Any:
        ad.manual_seed(0)
        model = ad.nn.Linear(2, 2)
        optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
        average = ad.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=ad.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )

        @wrap
        def step(x: Any) -> None:
            optimizer.zero_grad()
            (model(x) ** 2).sum().backward()
            optimizer.step()
            average.update_parameters(model)

        for i in range(5):
            step(ad.ones(1, 2) * (i + 1))
        return [p.detach().numpy() for p in average.parameters()]

    for g, w in zip(run(capture), run(lambda fn: fn), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)


step = 0  # a counter of that name, as training scripts have


def test_an_attribute_is_not_a_global_of_that_name() -> None:
    global step
    w = ad.ones(2, requires_grad=True)
    optimizer = ad.optim.SGD([w], lr=0.1)

    @capture
    def update(x: Any) -> None:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    for step in range(5):  # noqa: B007
        update(ad.ones(2))
    assert update.traces <= 2


class Lazy(ad.optim.Optimizer):
    """A user's optimizer, which makes its state in the first step."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    def move(self, p: Any, state: dict[str, Any]) -> None:
        if "m" not in state:
            state["m"] = ad.zeros_like(p)
        state["m"].mul_(0.9).add_(p.grad)

    @ad.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                self.move(p, self.state[p])
                p.sub_(self.state[p]["m"] * group["lr"])


class Rebinding(Lazy):
    def move(self, p: Any, state: dict[str, Any]) -> None:
        held = state["m"] * 0.9 if state else 0.0
        state["m"] = held + p.grad


class FromGradient(Lazy):
    def move(self, p: Any, state: dict[str, Any]) -> None:
        if "m" in state:
            state["m"].mul_(0.9).add_(p.grad)
        else:
            state["m"] = p.grad.clone()


class Counting(Lazy):
    """One that counts its steps, acts by the count, and keeps another tensor at each."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, lr)
        self.steps = 0

    def move(self, p: Any, state: dict[str, Any]) -> None:
        super().move(p, state)
        state["ratio"] = p.detach().norm() / (state["m"].norm() + 1)
        if self.steps % 3 == 1:
            p.data.mul_(0.9)

    @ad.no_grad()
    def step(self) -> None:  # type: ignore[override]
        self.steps += 1
        super().step()


def test_a_users_optimizer_that_counts_is_recorded_a_few_times() -> None:
    w = ad.ones(3).requires_grad_()
    optimizer = Counting([w])

    @ad.compile
    def step(x: Any) -> None:
        optimizer.zero_grad()
        (w * x).square().sum().backward()
        optimizer.step()

    for _ in range(12):
        step(ad.ones(3))
    assert optimizer.steps == 12
    assert step.traces <= 4  # without state, and the two ways of `move`


@pytest.mark.parametrize("cls", [Lazy, Rebinding, FromGradient, Counting])
def test_state_that_the_first_step_makes(cls: Any) -> None:
    def trained(wrap: Callable[..., Any]) -> list[Any]:
        ps = [ad.ones(3).requires_grad_(), ad.full((2, 2), 2.0).requires_grad_()]
        optimizer = cls(ps)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = sum(((p * x) ** 2).sum() for p in ps)
            loss.backward()  # type: ignore[union-attr]
            optimizer.step()
            return loss.detach()  # type: ignore[union-attr]

        run = wrap(step)
        found = [run(ad.full((), 1.0 + i / 4)) for i in range(4)]
        optimizer.state.clear()  # and begin again
        found += [run(ad.full((), 1.0 + i / 4)) for i in range(3)]
        kept = optimizer.state_dict()["state"]
        return [*found, *[p.detach() for p in ps], *[kept[i]["m"].clone() for i in kept]]

    ad.testing.assert_close(trained(ad.compile), trained(lambda step: step))


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
@pytest.mark.parametrize("of_another", [False, True])
def test_gradients_that_share_memory_with_parameters_and_then_do_not(
    name: str, of_another: bool
) -> None:
    """What shared memory once is not written to as if it still did."""

    def run(compiled: bool) -> list[Any]:
        p, q = (ad.arange(1.0, 4.0).mul(k).requires_grad_() for k in (1, 2))
        optimizer = getattr(ad.optim, name)([p, q], lr=0.1)
        step = ad.compile(lambda: optimizer.step()) if compiled else optimizer.step
        seen = []
        for shared in (True, False, True, False):
            p.grad = (q if of_another else p).detach() if shared else ad.ones(3)
            q.grad = ad.ones(3) * 2
            step()
            seen += [t.tolist() for t in (p, q, p.grad, q.grad)]
        return seen

    assert run(compiled=True) == run(compiled=False)
