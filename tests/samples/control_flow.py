"""Samples of control flow: functions of tensors among the arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.samples import S, T


class Body:
    """A function whose repr does not change from run to run, since rows are seeded by theirs."""

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        self.name = name
        self.fn = fn

    def __call__(self, *args: Any) -> Any:
        return self.fn(*args)

    def __repr__(self) -> str:
        return self.name


mix = Body("mix", lambda c, x: ((c * x).sin() + c, c * x))
product = Body("product", lambda c, x: ((c @ x).tanh(), None))
count = Body("count", lambda c, x: (c * 1.1, c.sum()))
double = Body("double", lambda x: x * 2 + x.sin())
square = Body("square", lambda x: x * x)
small = Body("small", lambda x: x.abs().max() < 5)

ROWS = [
    S("scan", mix, T(3), T(4, 3)),
    S("scan", mix, T(3), T(4, 3), reverse=True),
    S("scan", mix, T(3), T(3, 4), dim=1),
    S("scan", mix, T(2), T(3, 2), checkpoint=True),
    S("scan", product, T(2, 2), T(3, 2, 2, kind="unit")),
    S("scan", count, T(2), None, 3),
    S("cond", T(1, kind="positive", grad=False), double, square, [T(3)]),
    S("cond", T(1, kind="bool"), double, square, [T(2, 2)]),
    S("while_loop", small, double, [T(3, kind="positive")], max_iterations=4),
    # Without a bound, a captured loop has no reverse derivative.
    S("while_loop", small, double, [T(3, kind="positive")], _capture=False),
]
