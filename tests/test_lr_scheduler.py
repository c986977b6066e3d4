"""Schedulers: chained and closed forms agree, call order, state, refusals."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import adjoint as ad

S = ad.optim.lr_scheduler


def sgd(lr: Any = 1.0, **options: Any) -> Any:
    return ad.optim.SGD([ad.ones(1, requires_grad=True)], lr=lr, **options)


def rates(scheduler: Any, optimizer: Any, steps: int) -> list[float]:
    out = [optimizer.param_groups[0]["lr"]]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        out.append(optimizer.param_groups[0]["lr"])
    return out


FORMULAS: dict[str, tuple[Any, Any]] = {
    "lambda": (lambda o: S.LambdaLR(o, lambda e: 1 / (1 + e)), lambda e: 1 / (1 + e)),
    "multiplicative": (lambda o: S.MultiplicativeLR(o, lambda e: 0.9), lambda e: 0.9**e),
    "step": (lambda o: S.StepLR(o, 3, 0.5), lambda e: 0.5 ** (e // 3)),
    "multistep": (lambda o: S.MultiStepLR(o, [2, 5], 0.5), lambda e: 0.5 ** ((e >= 2) + (e >= 5))),
    "constant": (lambda o: S.ConstantLR(o, 0.5, 4), lambda e: 0.5 if e < 4 else 1.0),
    "linear": (lambda o: S.LinearLR(o, 0.2, 1.0, 8), lambda e: 0.2 + 0.8 * min(e, 8) / 8),
    "exponential": (lambda o: S.ExponentialLR(o, 0.8), lambda e: 0.8**e),
    "polynomial": (lambda o: S.PolynomialLR(o, 12, 2.0), lambda e: (1 - min(e, 12) / 12) ** 2),
    "cosine": (lambda o: S.CosineAnnealingLR(o, 7), lambda e: (1 + math.cos(math.pi * e / 7)) / 2),
    "restarts": (
        lambda o: S.CosineAnnealingWarmRestarts(o, 5),
        lambda e: (1 + math.cos(math.pi * (e % 5) / 5)) / 2,
    ),
    "cyclic": (
        lambda o: S.CyclicLR(o, 0.0, 1.0, 4, cycle_momentum=False),
        lambda e: 1 - abs((e % 8) / 4 - 1),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name: str) -> None:
    make, formula = FORMULAS[name]
    optimizer = sgd()
    got = rates(make(optimizer), optimizer, 20)
    assert got == pytest.approx([formula(e) for e in range(21)], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "name", ["step", "multistep", "constant", "linear", "exponential", "polynomial", "cosine"]
)
@pytest.mark.filterwarnings("ignore")
def test_closed_form(name: str) -> None:
    make, formula = FORMULAS[name]
    optimizer = sgd()
    scheduler = make(optimizer)
    scheduler.step(6)
    assert scheduler.get_last_lr() == pytest.approx([formula(6)])


def test_one_cycle_cycles_momentum_against_the_rate() -> None:
    optimizer = sgd(momentum=0.9)
    scheduler = S.OneCycleLR(optimizer, 1.0, total_steps=10, pct_start=0.5)
    seen = []
    for _ in range(9):
        optimizer.step()
        scheduler.step()
        group = optimizer.param_groups[0]
        seen.append((group["lr"], group["momentum"]))
    assert max(seen)[0] == pytest.approx(1.0)
    assert max(seen)[1] == pytest.approx(0.85)
    assert seen[-1][0] == pytest.approx(1 / 25 / 1e4)
    assert seen[-1][1] == pytest.approx(0.95)
    scheduler.step()
    with pytest.raises(ValueError, match="Tried to step"):
        scheduler.step()


def test_sequence_and_chain() -> None:
    optimizer = sgd()
    sequence = S.SequentialLR(
        optimizer, [S.ConstantLR(optimizer, 0.1, 3), S.ExponentialLR(optimizer, 0.5)], [3]
    )
    assert rates(sequence, optimizer, 5) == pytest.approx([0.1, 0.1, 0.1, 1.0, 0.5, 0.25])
    optimizer = sgd()
    chain = S.ChainedScheduler([S.ConstantLR(optimizer, 0.5, 2), S.ExponentialLR(optimizer, 0.5)])
    assert rates(chain, optimizer, 3) == pytest.approx([0.5, 0.25, 0.25, 0.125])


def test_plateau() -> None:
    optimizer = sgd()
    scheduler = S.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, min_lr=0.2)
    for loss in (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0):
        scheduler.step(ad.tensor(loss))
    assert scheduler.get_last_lr() == [0.2]


def test_a_tensor_rate_is_changed_in_place() -> None:
    rate = ad.tensor(1.0)
    optimizer = sgd(rate)
    scheduler = S.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.5


def test_state_dict_resumes() -> None:
    first, second = sgd(), sgd()
    a, b = S.CosineAnnealingLR(first, 9), S.CosineAnnealingLR(second, 9)
    rates(a, first, 4)
    b.load_state_dict(a.state_dict())
    second.load_state_dict(first.state_dict())
    assert rates(b, second, 3) == rates(a, first, 3)


def test_resuming_wants_an_initial_rate() -> None:
    with pytest.raises(KeyError, match="initial_lr"):
        S.StepLR(sgd(), 2, last_epoch=3)


def test_warns_of_the_wrong_order() -> None:
    optimizer = sgd()
    scheduler = S.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    optimizer = sgd()
    scheduler = S.StepLR(optimizer, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda o: S.ConstantLR(o, 2.0), "between 0 and 1"),
        (lambda o: S.LinearLR(o, 0.0), "greater than 0"),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 0), "positive integer T_0"),
        (lambda o: S.OneCycleLR(o, 0.1), "total_steps"),
        (lambda o: S.CyclicLR(o, 0.1, [0.2, 0.3]), "same length"),
        (lambda o: S.SequentialLR(o, [S.StepLR(o, 1)], [1]), "one more"),
        (lambda o: S.ChainedScheduler([S.ReduceLROnPlateau(o)]), "ReduceLROnPlateau"),
        (lambda o: S.ReduceLROnPlateau(o, mode="up"), "unknown"),
        (lambda o: S.LambdaLR(o, [abs, abs]), "lr_lambdas"),
    ],
)
def test_refusals(make: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make(sgd())
    with pytest.raises(TypeError, match="not an Optimizer"):
        S.StepLR(3, 1)  # type: ignore[arg-type]


def test_a_wrapper_without_init_steps_before_its_schedule() -> None:
    """Its step counts as the optimizer's: no warning about the order."""

    class Wrapper(ad.optim.Optimizer):
        def __init__(self, inner: Any) -> None:
            self.inner, self.param_groups, self.state = inner, inner.param_groups, inner.state

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

    weight = ad.nn.Parameter(ad.ones(2))
    wrapper: Any = Wrapper(ad.optim.SGD([weight], lr=0.5))
    schedule = ad.optim.lr_scheduler.StepLR(wrapper, 1, gamma=0.1)
    weight.sum().backward()
    wrapper.step()
    schedule.step()
    assert weight.tolist() == [0.5, 0.5]
    assert schedule.get_last_lr() == [0.05]
