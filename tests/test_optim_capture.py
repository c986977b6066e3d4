"""Whole training steps, captured: every optimizer and scheduler equals eager, traced twice at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.graph import capture

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: ad.optim.SGD(p, lr=0.1),
    "momentum": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "dampening": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, maximize=True),
    "adam": lambda p: ad.optim.Adam(p, lr=0.1),
    "amsgrad": lambda p: ad.optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "tensor_rate": lambda p: ad.optim.Adam(p, lr=ad.tensor(0.1)),
    "adamw": lambda p: ad.optim.AdamW(p, lr=0.1),
    "adagrad": lambda p: ad.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "adadelta": lambda p: ad.optim.Adadelta(p),
    "adamax": lambda p: ad.optim.Adamax(p, lr=0.1),
    "asgd": lambda p: ad.optim.ASGD(p, lr=0.1, t0=2),
    "nadam": lambda p: ad.optim.NAdam(p, lr=0.1),
    "radam": lambda p: ad.optim.RAdam(p, lr=0.1),
    "rmsprop": lambda p: ad.optim.RMSprop(p, lr=0.1, centered=True, momentum=0.9),
    "rprop": lambda p: ad.optim.Rprop(p, lr=0.1),
    "adafactor": lambda p: ad.optim.Adafactor(p, lr=0.1),
    "muon": lambda p: ad.optim.Muon([x for x in p if x.ndim == 2], lr=0.1),
    "lion": lambda p: ad.optim.Lion(p, lr=0.1, weight_decay=0.1),
    "lamb": lambda p: ad.optim.LAMB(p, lr=0.1),
}

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


def same(*args: Any, **kwargs: Any) -> None:
    scaler = kwargs.pop("scaler", lambda: None)
    want, _ = train(lambda fn: fn, *args, scaler=scaler(), **kwargs)
    got, captured = train(capture, *args, scaler=scaler(), **kwargs)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-7)
    assert captured.traces <= 2


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str) -> None:
    same(OPTIMIZERS[name])


@pytest.mark.parametrize("kind", ["momentum", "adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_scheduler(name: str, kind: str) -> None:
    same(OPTIMIZERS[kind], SCHEDULERS[name])


@pytest.mark.parametrize("kind", ["momentum", "adam", "rprop", "nadam", "asgd"])
@pytest.mark.parametrize("bad", [(), (2,), (0, 3)])
def test_scaler(kind: str, bad: tuple[int, ...]) -> None:
    same(
        OPTIMIZERS[kind],
        scaler=lambda: ad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2),
        bad=bad,
    )


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


def test_what_the_host_decides_is_refused_inside_a_capture() -> None:
    optimizer = ad.optim.SGD([ad.ones(1, requires_grad=True)], lr=0.1)
    scheduler = S.StepLR(optimizer, 1)
    lbfgs = ad.optim.LBFGS([ad.ones(1, requires_grad=True)])

    def change(x: Any) -> None:
        optimizer.param_groups[0]["lr"] = 1.0

    with pytest.raises(RuntimeError, match="outside the captured function"):
        capture(lambda x: scheduler.step())(ad.ones(1))
    with pytest.raises(RuntimeError, match="outside the captured"):
        capture(change)(ad.ones(1))
    with pytest.raises(RuntimeError, match="capture the closure"):
        capture(lambda x: lbfgs.step(lambda: x))(ad.ones(1))


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
