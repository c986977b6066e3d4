"""What compiled code can see by name, wherever it is: a change between calls is noticed.

Each row makes a function and a list of changes; after each change the compiled function gives what
the function itself does.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

Row = tuple[Any, list[Callable[[], Any]]]
ROWS: dict[str, Callable[[], Row]] = {}
FACTOR = 1.0


def row(make: Callable[[], Row]) -> Callable[[], Row]:
    ROWS[make.__name__] = make
    return make


def set_factor(value: float) -> None:
    global FACTOR
    FACTOR = value


class Scaled(nn.Module):
    power = 1

    def helper(self, x: Any) -> Any:
        return x * FACTOR**self.power

    def forward(self, x: Any) -> Any:
        return self.helper(x) + 1


@row
def globals_of_methods() -> Row:
    return nn.Sequential(nn.ReLU(), Scaled()), [lambda: set_factor(2.0), lambda: set_factor(1.0)]


@row
def attributes_of_classes() -> Row:
    class Deeper(Scaled):
        pass

    set_factor(3.0)
    net = Deeper()
    change = [
        functools.partial(setattr, Scaled, "power", 2),
        functools.partial(setattr, Deeper, "power", 3),
        functools.partial(setattr, net, "power", 4),
        functools.partial(setattr, Scaled, "power", 1),
    ]
    return net, [*change, lambda: set_factor(1.0)]


@row
def replaced_methods() -> Row:
    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    net = Net()
    return net, [
        lambda: setattr(Net, "forward", lambda self, x: x * 3),
        lambda: setattr(net, "forward", lambda x: x * 5),
    ]


@row
def variables_of_methods() -> Row:
    factor = 1.0

    class Net(nn.Module):
        @property
        def factor(self) -> float:
            return factor * 2

        def forward(self, x: Any) -> Any:
            return x * self.factor

    def change() -> None:
        nonlocal factor
        factor = 4.0

    return Net(), [change]


@row
def classes_as_settings() -> Row:
    class Settings:
        factor = 1.0
        table: Any = {"offset": 0.0}

    return lambda x: x * Settings.factor + Settings.table["offset"], [
        lambda: setattr(Settings, "factor", 2.0),
        lambda: Settings.table.update(offset=3.0),
    ]


@row
def modules_as_settings() -> Row:
    settings = types.ModuleType("settings")
    exec("FACTOR = 1.0\ndef scaled(x):\n    return x * FACTOR", vars(settings))
    return lambda x: settings.scaled(x) + settings.FACTOR, [
        lambda: setattr(settings, "FACTOR", 2.0),
        lambda: setattr(settings, "scaled", lambda x: x - 1),
    ]


@row
def modules_imported_inside() -> Row:
    settings = types.ModuleType("settings_of_a_test")
    settings.FACTOR = 1.0  # type: ignore[attr-defined]
    sys.modules["settings_of_a_test"] = settings

    def fn(x: Any) -> Any:
        import settings_of_a_test  # type: ignore[import-not-found]

        return x * settings_of_a_test.FACTOR

    return fn, [lambda: setattr(settings, "FACTOR", 2.0)]


@row
def patterns() -> Row:
    held = types.SimpleNamespace(kind="twice", other=1)

    def fn(x: Any) -> Any:
        match held:
            case types.SimpleNamespace(kind="twice"):
                return x * 2
        return x

    return fn, [lambda: setattr(held, "kind", "once")]


@dataclasses.dataclass(slots=True)
class Slotted:
    factor: float
    other: int = 0


@row
def slots() -> Row:
    held = Slotted(1.0)
    return lambda x: x * held.factor, [functools.partial(setattr, held, "factor", 2.0)]


@row
def arrays_of_numpy() -> Row:
    weights, limit, live = np.ones(2, "float32"), np.array([True]), np.ones(2, "float32")

    def fn(x: Any) -> Any:
        y = x * ad.tensor(weights) + ad.from_numpy(live)
        return y if limit[0] else y * 2

    return fn, [
        lambda: weights.fill(3.0),
        lambda: limit.fill(False),
        lambda: live.fill(5.0),
    ]


@row
def partial_functions() -> Row:
    class Held:
        factor = ad.ones(2)

        def scaled(self, x: Any, power: int) -> Any:
            return x * self.factor**power

    held = Held()
    return functools.partial(held.scaled, power=2), [
        lambda: setattr(held, "factor", ad.full((2,), 3.0))
    ]


@row
def long_ways() -> Row:
    top = last = types.SimpleNamespace(factor=1.0)
    for _ in range(12):
        top = types.SimpleNamespace(next=top)

    def fn(x: Any) -> Any:
        held = top
        while hasattr(held, "next"):
            held = held.next
        return x * held.factor

    return fn, [functools.partial(setattr, last, "factor", 2.0)]


@row
def names_made_up() -> Row:
    held = types.SimpleNamespace(first=1.0, second=2.0)
    which = ["first"]
    return lambda x: x * getattr(held, which[0]), [
        lambda: which.__setitem__(0, "second"),
        lambda: setattr(held, "second", 3.0),
    ]


@pytest.mark.parametrize("name", ROWS)
def test_a_change_is_seen(name: str) -> None:
    fn, changes = ROWS[name]()
    run = ad.compile(fn)
    x = ad.tensor([0.5, 2.0])
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            assert run(x).equal(fn(x))


class Trainer:
    """Counts and keeps what its compiled step never looks at."""

    def __init__(self) -> None:
        self.net = nn.Linear(2, 1)
        self.optimizer = ad.optim.SGD(self.net.parameters(), lr=0.1)
        self.steps = 0
        self.losses: list[float] = []
        self.last: Any = None

    @ad.compile
    def step(self, x: Any) -> Any:
        loss = self.net(x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self, count: int) -> None:
        for _ in range(count):
            self.last = self.step(ad.ones(3, 2))
            self.losses.append(float(self.last))
            self.steps += 1


def test_what_code_does_not_name_may_change() -> None:
    trainer = Trainer()
    trainer.fit(6)
    assert trainer.steps == 6
    assert sorted(trainer.losses, reverse=True) == trainer.losses
    assert trainer.step.traces == 1


def test_attributes_of_modules_that_code_does_not_name_may_change() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(ad.ones(2))
            self.calls = 0

        def forward(self, x: Any) -> Any:
            return x * self.weight

        def report(self) -> str:
            return f"{self.calls} calls"

    net = Net()
    run = ad.compile(net)
    for _ in range(4):
        run(ad.ones(2))
        net.calls += 1
    assert net.report() == "4 calls"
    assert run.traces == 1


def _codes(code: types.CodeType) -> list[types.CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [code, *[found for c in inner for found in _codes(c)]]
