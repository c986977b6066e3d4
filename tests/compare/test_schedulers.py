"""Fifty steps of every scheduler, beside PyTorch's: rates, momenta and state dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]

Make = Callable[[Any, Any], Any]  # (library's lr_scheduler, optimizer) -> scheduler


class Halving:
    def __call__(self, epoch: int) -> float:
        return 1 / (1 + epoch)


CASES: dict[str, Make] = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda e: 0.95**e),
    "lambda_list": lambda s, o: s.LambdaLR(o, [lambda e: 0.95**e, Halving()]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95 + 0.001 * e),
    "step": lambda s, o: s.StepLR(o, 7, 0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [3, 3, 10, 40], 0.3),
    "constant": lambda s, o: s.ConstantLR(o, 0.25, 10),
    "linear": lambda s, o: s.LinearLR(o, 0.1, 0.9, 20),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.93),
    "polynomial": lambda s, o: s.PolynomialLR(o, 30, 1.7),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 12, 0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 7),
    "restarts_growing": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, 0.001),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 6, 9),
    "cyclic2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 4, mode="triangular2"),
    "cyclic_exp": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 5, mode="exp_range", gamma=0.97),
    "cyclic_custom": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 5, scale_fn=lambda x: 0.9**x, scale_mode="iterations", cycle_momentum=False
    ),
    "onecycle": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=51),
    "onecycle_linear": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.3], epochs=10, steps_per_epoch=6, anneal_strategy="linear", three_phase=True
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 5), s.CosineAnnealingLR(o, 30), s.ConstantLR(o, 0.1)], [5, 35]
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 10), s.ExponentialLR(o, 0.9)], o
    ),
}
OPTIMIZERS = {"SGD": {"momentum": 0.5}, "Adam": {}}


def optimizer_of(lib: Any, kind: str, tensor_rate: bool = False) -> Any:
    rates = [0.1, 0.05]
    params = [lib.ones(2, requires_grad=True) for _ in rates]
    groups = [
        {"params": [p], "lr": lib.tensor(r, dtype=lib.float64) if tensor_rate else r}
        for p, r in zip(params, rates, strict=True)
    ]
    return getattr(lib.optim, kind)(groups, lr=0.1, **OPTIMIZERS[kind])


def seen(optimizer: Any) -> list[float]:
    out = []
    for group in optimizer.param_groups:
        out.append(float(group["lr"]))
        out.append(float(group["momentum"] if "momentum" in group else group["betas"][0]))
    return out


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", CASES)
def test_rates(name: str, kind: str) -> None:
    runs = []
    for lib in (torch, ad):
        optimizer = optimizer_of(lib, kind)
        scheduler = CASES[name](lib.optim.lr_scheduler, optimizer)
        rates = [seen(optimizer)]
        for _ in range(50):
            optimizer.step()
            scheduler.step()
            rates.append(seen(optimizer))
        runs.append((rates, scheduler.get_last_lr(), scheduler.state_dict()))
    (want, last, state), (got, our_last, our_state) = runs
    for g, w in zip(got, want, strict=True):
        assert g == pytest.approx(w, rel=1e-12, abs=1e-15)
    assert our_last == pytest.approx(last, rel=1e-12, abs=1e-15)
    assert sorted(k for k in our_state if k != "_scale_fn_ref") == sorted(
        k for k in state if k not in ("_scale_fn_ref", "anneal_func")
    )


@pytest.mark.parametrize("name", [n for n in CASES if n != "cyclic_custom"])
def test_tensor_rates(name: str) -> None:
    runs = []
    for lib in (torch, ad):
        optimizer = optimizer_of(lib, "SGD", tensor_rate=True)
        held = [g["lr"] for g in optimizer.param_groups]
        scheduler = CASES[name](lib.optim.lr_scheduler, optimizer)
        rates = []
        for _ in range(20):
            optimizer.step()
            scheduler.step()
            rates.append(seen(optimizer))
        assert all(g["lr"] is h for g, h in zip(optimizer.param_groups, held, strict=True))
        runs.append(rates)
    for g, w in zip(runs[1], runs[0], strict=True):
        assert g == pytest.approx(w, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_resumed_from_a_state_dict(name: str) -> None:
    runs = []
    for lib in (torch, ad):
        optimizer = optimizer_of(lib, "SGD")
        scheduler = CASES[name](lib.optim.lr_scheduler, optimizer)
        for _ in range(13):
            optimizer.step()
            scheduler.step()
        again = optimizer_of(lib, "SGD")
        resumed = CASES[name](lib.optim.lr_scheduler, again)
        resumed.load_state_dict(scheduler.state_dict())
        again.load_state_dict(optimizer.state_dict())
        rates = []
        for _ in range(10):
            again.step()
            resumed.step()
            rates.append(seen(again))
        runs.append(rates)
    for g, w in zip(runs[1], runs[0], strict=True):
        assert g == pytest.approx(w, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    "name", ["step", "multistep", "constant", "linear", "exponential", "polynomial", "cosine"]
)
def test_closed_forms(name: str) -> None:
    runs = []
    for lib in (torch, ad):
        optimizer = optimizer_of(lib, "SGD")
        scheduler = CASES[name](lib.optim.lr_scheduler, optimizer)
        rates = []
        for epoch in (3, 10, 11, 5, 40):
            scheduler.step(epoch)
            rates.append(seen(optimizer))
        runs.append(rates)
    for g, w in zip(runs[1], runs[0], strict=True):
        assert g == pytest.approx(w, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max", "patience": 2, "factor": 0.5},
        {"threshold_mode": "abs", "threshold": 0.1, "patience": 1, "cooldown": 3},
        {"patience": 0, "min_lr": [0.01, 0.02], "factor": 0.3},
    ],
)
def test_plateau(options: dict[str, Any]) -> None:
    metrics = [1 / (1 + i % 7) + 0.01 * (i % 3) for i in range(50)]
    runs = []
    for lib in (torch, ad):
        optimizer = optimizer_of(lib, "SGD")
        scheduler = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rates = []
        for m in metrics:
            scheduler.step(m)
            rates.append(seen(optimizer))
        runs.append((rates, sorted(scheduler.state_dict())))
    assert runs[0] == runs[1]


def test_fractional_restarts() -> None:
    runs = []
    for lib in (torch, ad):
        optimizer = optimizer_of(lib, "SGD")
        scheduler = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, 2)
        rates = []
        for i in range(60):
            scheduler.step(i / 4)
            rates.append(seen(optimizer))
        runs.append(rates)
    for g, w in zip(runs[1], runs[0], strict=True):
        assert g == pytest.approx(w, rel=1e-12)
