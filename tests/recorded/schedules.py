"""Rates, momenta and counts of learning-rate schedulers; averages of models."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tests.recorded import Program, refusal

Make = Callable[[Any, Any], Any]  # (library's lr_scheduler, optimizer) -> scheduler


class Halving:
    def __call__(self, epoch: int) -> float:
        return 1 / (1 + epoch)


SCHEDULERS: dict[str, Make] = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda e: 0.95**e),
    "lambda_list": lambda s, o: s.LambdaLR(o, [lambda e: 0.95**e, Halving()]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95 + 0.001 * e),
    "multiplicative_list": lambda s, o: s.MultiplicativeLR(o, [lambda e: 0.9, lambda e: 1.1]),
    "step": lambda s, o: s.StepLR(o, 7, 0.5),
    "step_default": lambda s, o: s.StepLR(o, 5),
    "multistep": lambda s, o: s.MultiStepLR(o, [3, 3, 10, 40], 0.3),
    "constant": lambda s, o: s.ConstantLR(o, 0.25, 10),
    "constant_default": lambda s, o: s.ConstantLR(o),
    "linear": lambda s, o: s.LinearLR(o, 0.1, 0.9, 20),
    "linear_default": lambda s, o: s.LinearLR(o),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.93),
    "polynomial": lambda s, o: s.PolynomialLR(o, 30, 1.7),
    "polynomial_default": lambda s, o: s.PolynomialLR(o),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 12, 0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 7),
    "restarts_growing": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, 0.001),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 6, 9),
    "cyclic2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 4, mode="triangular2"),
    "cyclic_exp": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 5, mode="exp_range", gamma=0.97),
    "cyclic_momenta": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 3, base_momentum=[0.6, 0.7], max_momentum=[0.8, 0.95]
    ),
    "cyclic_custom": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 5, scale_fn=lambda x: 0.9**x, scale_mode="iterations", cycle_momentum=False
    ),
    "cyclic_custom_cycles": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, scale_fn=lambda x: 1 / x),
    "onecycle": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=51),
    "onecycle_linear": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.3], epochs=10, steps_per_epoch=6, anneal_strategy="linear", three_phase=True
    ),
    "onecycle_apart": lambda s, o: s.OneCycleLR(
        o, 0.5, total_steps=40, pct_start=0.2, base_momentum=0.7, max_momentum=0.9,
        div_factor=10.0, final_div_factor=50.0,
    ),
    "onecycle_rates_alone": lambda s, o: s.OneCycleLR(o, 1, total_steps=40, cycle_momentum=False),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 5), s.CosineAnnealingLR(o, 30), s.ConstantLR(o, 0.1)], [5, 35]
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 10), s.ExponentialLR(o, 0.9)], o
    ),
}  # fmt: skip
CLOSED = ("step", "multistep", "constant", "linear", "exponential", "polynomial", "cosine")
OPTIONS = {"SGD": {"momentum": 0.5}, "Adam": {}}
PLATEAUS: dict[str, dict[str, Any]] = {
    "default": {},
    "max": {"mode": "max", "patience": 2, "factor": 0.5},
    "absolute": {"threshold_mode": "abs", "threshold": 0.1, "patience": 1, "cooldown": 3},
    "absolute_max": {"mode": "max", "threshold_mode": "abs", "threshold": 0.2, "patience": 1},
    "least": {"patience": 0, "min_lr": [0.01, 0.02], "factor": 0.3},
    "eps": {"patience": 0, "factor": 0.9, "eps": 0.006},
    "relative": {"threshold": 0.3, "patience": 3, "factor": 0.7},
}
COUNTS = (
    "last_epoch", "_step_count", "base_lrs", "_last_lr", "best", "num_bad_epochs", "T_cur", "T_i",
    "cooldown_counter", "milestones", "total_steps",
)  # fmt: skip


def optimizer_of(lib: Any, kind: str = "SGD", rates: tuple[Any, ...] = (0.1, 0.05)) -> Any:
    groups = [{"params": [lib.ones(2, requires_grad=True)], "lr": rate} for rate in rates]
    return getattr(lib.optim, kind)(groups, lr=0.1, **OPTIONS[kind])


def seen(optimizer: Any) -> list[float]:
    found = []
    for group in optimizer.param_groups:
        momentum = group["momentum"] if "momentum" in group else group["betas"][0]
        found += [float(group["lr"]), float(momentum)]
    return found


def counts(scheduler: Any) -> dict[str, Any]:
    held = scheduler.state_dict()
    found = {name: held[name] for name in COUNTS if name in held}
    return {k: sorted(v) if k == "milestones" else v for k, v in found.items()}


def followed(lib: Any, make: Make, kind: str, steps: int = 42) -> list[Any]:
    optimizer = optimizer_of(lib, kind)
    scheduler = make(lib.optim.lr_scheduler, optimizer)
    rates = [seen(optimizer)]
    for _ in range(steps - ("onecycle" in kind)):
        if getattr(scheduler, "total_steps", steps + 1) <= len(rates):
            break
        optimizer.step()
        scheduler.step()
        rates.append(seen(optimizer))
    return [rates, scheduler.get_last_lr(), counts(scheduler)]


def resumed(lib: Any, make: Make) -> list[Any]:
    first = optimizer_of(lib)
    scheduler = make(lib.optim.lr_scheduler, first)
    for _ in range(13):
        first.step()
        scheduler.step()
    again = optimizer_of(lib)
    other = make(lib.optim.lr_scheduler, again)
    other.load_state_dict(scheduler.state_dict())
    again.load_state_dict(first.state_dict())
    rates = []
    for _ in range(10):
        again.step()
        other.step()
        rates.append(seen(again))
    return [rates, counts(other)]


def by_epochs(lib: Any, make: Make) -> list[Any]:
    optimizer = optimizer_of(lib)
    scheduler = make(lib.optim.lr_scheduler, optimizer)
    rates = []
    for epoch in (3, 10, 11, 5, 40):
        scheduler.step(epoch)
        rates.append(seen(optimizer))
    return [rates, counts(scheduler)]


def on_a_plateau(lib: Any, options: dict[str, Any], given: bool) -> list[Any]:
    optimizer = optimizer_of(lib)
    scheduler = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    rates = []
    for i in range(40):
        metric = 1 / (1 + i % 7) + 0.01 * (i % 3)
        scheduler.step(
            lib.tensor(metric, dtype=lib.float64) if i % 2 else metric, *([3 * i] * given)
        )
        rates.append([seen(optimizer), scheduler.num_bad_epochs, scheduler.in_cooldown])
    return [rates, counts(scheduler), scheduler.get_last_lr()]


def by_fractions(lib: Any) -> list[Any]:
    optimizer = optimizer_of(lib)
    scheduler = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, 2, 0.001)
    rates = []
    for i in range(60):
        scheduler.step(i / 4)
        rates.append([*seen(optimizer), scheduler.T_cur, scheduler.T_i])
    scheduler.step(4)
    return [rates, seen(optimizer), counts(scheduler)]


def swa(lib: Any, epochs: int, strategy: str, rate: Any) -> list[Any]:
    optimizer = optimizer_of(lib)
    scheduler = lib.optim.swa_utils.SWALR(optimizer, rate, epochs, strategy)
    rates = []
    for _ in range(12):
        optimizer.step()
        scheduler.step()
        rates.append(seen(optimizer))
    return [rates, counts(scheduler)]


def averages(lib: Any, options: Callable[[Any], dict[str, Any]]) -> list[Any]:
    made = lib.optim.swa_utils
    model = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.BatchNorm1d(2)).double()
    with lib.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(lib.arange(p.numel(), dtype=lib.float64).reshape(p.shape).sin() + i)
    average = made.AveragedModel(model, **options(made))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    batches = [lib.arange(15, dtype=lib.float64).add(i).cos().reshape(5, 3) for i in range(4)]
    for x in batches:
        optimizer.zero_grad()
        (model(x) * x[:, :2]).tanh().mean().backward()
        optimizer.step()
        average.update_parameters(model)
    before = list(average.state_dict().values())
    made.update_bn(batches, average)
    return [before, list(average.state_dict().values()), average(batches[0])]


AVERAGES: dict[str, Any] = {
    "default": lambda s: {},
    "ema": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.9)},
    "ema_single": lambda s: {"avg_fn": s.get_ema_avg_fn(0.9)},
    "ema_default": lambda s: {"avg_fn": s.get_ema_avg_fn()},
    "swa": lambda s: {"multi_avg_fn": s.get_swa_multi_avg_fn()},
    "swa_single": lambda s: {"avg_fn": s.get_swa_avg_fn(), "use_buffers": True},
}
REFUSED: dict[str, Callable[[Any, Any, Any], Any]] = {  # lr_scheduler, optimizer, swa_utils
    "no optimizer": lambda s, o, w: s.StepLR(3, 2),
    "plateau of no optimizer": lambda s, o, w: s.ReduceLROnPlateau(3),
    "plateau factor": lambda s, o, w: s.ReduceLROnPlateau(o, factor=1.0),
    "plateau mode": lambda s, o, w: s.ReduceLROnPlateau(o, mode="least"),
    "plateau threshold": lambda s, o, w: s.ReduceLROnPlateau(o, threshold_mode="both"),
    "plateau rates": lambda s, o, w: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    "lambdas": lambda s, o, w: s.LambdaLR(o, [lambda e: 1.0]),
    "multiplicative lambdas": lambda s, o, w: s.MultiplicativeLR(o, [lambda e: 1.0] * 3),
    "constant above": lambda s, o, w: s.ConstantLR(o, factor=1.5),
    "constant below": lambda s, o, w: s.ConstantLR(o, factor=-0.1),
    "linear start": lambda s, o, w: s.LinearLR(o, start_factor=0),
    "linear start above": lambda s, o, w: s.LinearLR(o, start_factor=1.1),
    "linear end": lambda s, o, w: s.LinearLR(o, end_factor=1.1),
    "linear end below": lambda s, o, w: s.LinearLR(o, end_factor=-0.1),
    "restarts T_0": lambda s, o, w: s.CosineAnnealingWarmRestarts(o, 0),
    "restarts T_mult": lambda s, o, w: s.CosineAnnealingWarmRestarts(o, 3, 0),
    "restarts by halves": lambda s, o, w: s.CosineAnnealingWarmRestarts(o, 2.5),
    "restarts before": lambda s, o, w: s.CosineAnnealingWarmRestarts(o, 3).step(-1),
    "cyclic mode": lambda s, o, w: s.CyclicLR(o, 0.1, 0.2, mode="square"),
    "cyclic rates": lambda s, o, w: s.CyclicLR(o, [0.1], 0.2),
    "onecycle strategy": lambda s, o, w: s.OneCycleLR(o, 0.1, total_steps=5, anneal_strategy="x"),
    "onecycle no steps": lambda s, o, w: s.OneCycleLR(o, 0.1),
    "onecycle one of both": lambda s, o, w: s.OneCycleLR(o, 0.1, epochs=3),
    "onecycle total": lambda s, o, w: s.OneCycleLR(o, 0.1, total_steps=0),
    "onecycle total of halves": lambda s, o, w: s.OneCycleLR(o, 0.1, total_steps=2.5),
    "onecycle epochs": lambda s, o, w: s.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=3),
    "onecycle steps": lambda s, o, w: s.OneCycleLR(o, 0.1, epochs=3, steps_per_epoch=-1),
    "onecycle pct below": lambda s, o, w: s.OneCycleLR(o, 0.1, total_steps=5, pct_start=-0.1),
    "onecycle pct above": lambda s, o, w: s.OneCycleLR(o, 0.1, total_steps=5, pct_start=1.1),
    "onecycle pct whole": lambda s, o, w: s.OneCycleLR(o, 0.1, total_steps=5, pct_start=2),
    "onecycle too far": lambda s, o, w: [
        c.step() for c in [s.OneCycleLR(o, 0.1, total_steps=2)] for _ in range(3)
    ],
    "sequential of none": lambda s, o, w: s.SequentialLR(o, [], []),
    "sequential milestones": lambda s, o, w: s.SequentialLR(o, [s.ConstantLR(o)], [3]),
    "chained of none": lambda s, o, w: s.ChainedScheduler([], o),
    "swa strategy": lambda s, o, w: w.SWALR(o, 0.1, 3, "square"),
    "swa epochs": lambda s, o, w: w.SWALR(o, 0.1, -1),
    "swa epochs of halves": lambda s, o, w: w.SWALR(o, 0.1, 2.5),
    "swa rates": lambda s, o, w: w.SWALR(o, [0.1]),
    "ema decay": lambda s, o, w: w.get_ema_avg_fn(1.1),
    "ema decay below": lambda s, o, w: w.get_ema_multi_avg_fn(-0.1),
}


def warned(lib: Any, call: Callable[[Any, Any], Any]) -> str:
    """Whether a call warns, as an error would be told."""
    optimizer = optimizer_of(lib)
    return refusal(lambda: call(lib.optim.lr_scheduler, optimizer), warned=True)


WARNED: dict[str, Callable[[Any, Any], Any]] = {
    "step before the optimizer": lambda s, o: s.StepLR(o, 2).step(),
    "an epoch given": lambda s, o: (s.StepLR(o, 2), o.step())[0].step(3),
    "get_lr outside": lambda s, o: s.StepLR(o, 2).get_lr(),
    "get_lr of lambdas outside": lambda s, o: s.LambdaLR(o, lambda e: 1.0).get_lr(),
    "get_lr of factors outside": lambda s, o: s.MultiplicativeLR(o, lambda e: 1.0).get_lr(),
    "get_lr of constants outside": lambda s, o: s.ConstantLR(o).get_lr(),
    "get_lr of cosines outside": lambda s, o: s.CosineAnnealingLR(o, 3).get_lr(),
    "get_lr of restarts outside": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3).get_lr(),
    "get_lr of cycles outside": lambda s, o: s.CyclicLR(o, 0.1, 0.2).get_lr(),
    "get_lr of one cycle outside": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=4).get_lr(),
    "nothing": lambda s, o: (s.StepLR(o, 2), o.step())[0].step(),
}

PROGRAMS: dict[str, Program] = {
    **{
        f"{name} of {kind}": lambda lib, make=make, kind=kind: followed(lib, make, kind)
        for (name, make), kind in itertools.product(SCHEDULERS.items(), OPTIONS)
    },
    **{
        f"{name} resumed": lambda lib, make=make: resumed(lib, make)
        for name, make in SCHEDULERS.items()
    },
    **{f"{n} by epochs": lambda lib, n=n: by_epochs(lib, SCHEDULERS[n]) for n in CLOSED},
    **{
        f"plateau {name}{' at epochs' * given}": lambda lib, o=o, given=given: on_a_plateau(
            lib, o, given
        )
        for (name, o), given in itertools.product(PLATEAUS.items(), (False, True))
    },
    "restarts by fractions": by_fractions,
    **{
        f"swa {strategy} {epochs} {rate}": lambda lib, e=epochs, s=strategy, r=rate: swa(
            lib, e, s, r
        )
        for strategy, epochs, rate in itertools.product(
            ("cos", "linear"), (0, 1, 7), (0.2, [0.3, 0.01])
        )
    },
    **{f"average {n}": lambda lib, o=o: averages(lib, o) for n, o in AVERAGES.items()},
    **{
        f"refused: {name}": lambda lib, call=call: refusal(
            lambda: call(lib.optim.lr_scheduler, optimizer_of(lib), lib.optim.swa_utils)
        )
        for name, call in REFUSED.items()
    },
    **{
        f"warned: {name}": lambda lib, call=call: warned(lib, call) for name, call in WARNED.items()
    },
}
