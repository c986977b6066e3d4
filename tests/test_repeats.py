"""A rule is recorded once for tensors alike, and only where that gives what running it would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.engine.backends.array.lists.many import for_each
from adjoint.graph import capture
from adjoint.optim.stepping import rules
from adjoint.optim.stepping.rules import OWN, RuleOptimizer

Rule = Callable[..., Any]


def rows() -> list[list[Any]]:
    """Pairs of tensors: three alike, one of another shape, one of another layout."""
    ad.manual_seed(0)
    shapes = [(3, 4)] * 3 + [(5,)]
    made = [[ad.randn(*s), ad.randn(*s)] for s in shapes]
    return [*made, [ad.randn(4, 3).t().clone(memory_format=ad.preserve_format), ad.randn(3, 4)]]


OTHER = ad.ones(3, 4)


def writes_another(x: Any, y: Any) -> Any:
    OTHER.add_(1)
    return x * y


RULES: dict[str, Rule] = {
    "makes": lambda x, y: x * y + 1,
    "writes": lambda x, y: x.mul_(y).add_(1),
    "writes both": lambda x, y: (x.add_(y), y.copy_(x * 2))[0],
    "returns a view of its own": lambda x, y: (x * y).reshape(-1)[1:],
    "returns a view of an operand": lambda x, y: x.t() if x.ndim == 2 else x,
    "returns several": lambda x, y: [x + y, None, y, (x - y).reshape(-1)],
    "reads views of operands": lambda x, y: x.reshape(-1)[::2] * y.reshape(-1)[1],
    "writes to what it made": lambda x, y: (x * y).mul_(2).add_(x),
    "draws": lambda x, y: x + ad.rand_like(y),
    "uses a constant": lambda x, y: x * ad.tensor(2.0) + y,
}


def check(rule: Rule, make: Callable[[], list[list[Any]]], **options: Any) -> None:
    """What a capture of `each` gives and changes is what running the rule does."""

    def run(pairs: list[list[Any]]) -> Any:
        with ad.no_grad():
            return for_each(rule, pairs, **options), [x * 1 for pair in pairs for x in pair]

    ad.manual_seed(1)
    expected = run(pairs := make())
    ad.manual_seed(1)
    found = capture(run)(others := make())
    ad.testing.assert_close(found, expected)
    ad.testing.assert_close(others, pairs)


@pytest.mark.parametrize("name", RULES)
def test_repeating_gives_what_running_gives(name: str) -> None:
    check(RULES[name], rows)


def shapes() -> list[list[Any]]:
    """Pairs of one shape each, all different; then other dtypes, and a number beside a tensor."""
    sizes = [(3, 4), (5,), (), (1,), (2, 0), (2, 1, 3)]
    made = [[ad.randn(s), ad.randn(s)] for s in sizes]
    made += [[ad.randn(s, dtype=ad.float64), ad.randn(s)] for s in sizes[:2]]
    return [*made, [ad.randn(4), ad.randn(())], [ad.randn(4, 2).t(), ad.randn(2, 4)]]


FACTOR = ad.full((), 3.0)
OUTSIDE = {tuple(x.shape): ad.full(tuple(x.shape), 2.0) for x, _ in shapes()}
ELEMENTWISE: dict[str, Rule] = {
    "makes": lambda x, y: x * y + 1,
    "writes": lambda x, y: x.mul_(y).add_(1),
    "writes and returns both": lambda x, y: (x.add_(y), [y, x]),
    "meets a number from outside": lambda x, y: x.mul_(FACTOR).sub_(y),
    "makes a tensor of the shape": lambda x, y: x.add_(ad.full_like(x, 2.0)),
    "goes by way of a view": lambda x, y: x.reshape(-1) * 2,
    "meets tensors of each shape": lambda x, y: x.add_(OUTSIDE[tuple(x.shape)]),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_repeating_for_other_shapes_gives_what_running_gives(name: str) -> None:
    check(ELEMENTWISE[name], shapes, elementwise=True)


def test_an_elementwise_rule_runs_once_for_all_shapes() -> None:
    calls: list[Any] = []

    def rule(x: Any) -> None:
        calls.append(x.shape)
        x.mul_(2)

    grown = [ad.ones(*s) for s in [(2, 3), (4,), (3, 2), (1, 1)]]
    with ad.no_grad():
        capture(lambda: for_each(rule, [[x] for x in grown], elementwise=True) and None)()
    assert len(calls) == 1
    assert all((x == 2).all() for x in grown)


def test_one_tensor_twice_is_another_kind() -> None:
    x, y = ad.full((2,), 3.0), ad.full((2,), 5.0)

    def products() -> Any:
        with ad.no_grad():
            return for_each(lambda a, b: a * b, [[x, y], [x, x], [y, x], [y, y]])

    assert [t[0].item() for t in capture(products)()] == [15.0, 9.0, 15.0, 25.0]


def test_views_of_one_tensor_are_written_one_after_the_other() -> None:
    base = ad.arange(6.0)

    def shift() -> None:
        with ad.no_grad():
            for_each(
                lambda a, b: a.add_(b), [[base[i : i + 2], base[i + 1 : i + 3]] for i in range(3)]
            )

    expected = np.arange(6.0)
    for i in range(3):
        expected[i : i + 2] = expected[i : i + 2] + expected[i + 1 : i + 3]
    capture(shift)()
    np.testing.assert_array_equal(base.numpy(), expected)


@pytest.mark.parametrize("elementwise", [False, True])
def test_a_view_is_written_in_its_base_though_whole_tensors_are_like_it(elementwise: bool) -> None:
    whole, base = ad.zeros(2), ad.arange(6.0)

    def add() -> None:
        with ad.no_grad():
            rows = [[whole, ad.ones(2)], [base[1:3], whole], [base[2:4], base[1:3]]]
            for_each(lambda a, b: a.add_(b), rows, elementwise=elementwise)

    capture(add)()
    expected = np.arange(6.0)
    expected[1:3] += 1
    expected[2:4] = expected[2:4] + expected[1:3]
    np.testing.assert_array_equal(base.numpy(), expected)
    assert whole.tolist() == [1.0, 1.0]


def test_a_rule_that_writes_another_tensor_runs_every_time() -> None:
    OTHER.fill_(1)
    pairs = [[ad.ones(3, 4), ad.ones(3, 4)] for _ in range(4)]
    step = capture(lambda: for_each(writes_another, pairs))
    with ad.no_grad():
        step()
        step()
    assert OTHER[0, 0].item() == 9.0


@pytest.mark.parametrize(("by_element", "runs"), [(True, 1), (False, 2)])
def test_an_update_rule_runs_once_for_each_kind_of_parameter(
    by_element: bool, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes recording a large model's step cheap."""

    calls: list[Any] = []

    class Counting(optim.Adam):
        elementwise = by_element

        def update(self, *args: Any) -> None:
            calls.append(args)
            super().update(*args)

    monkeypatch.setattr(
        rules, "OWN", {**OWN, Counting: Counting.update}
    )  # as if it were the package's
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(6)])
    optimizer = Counting(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    captured = capture(step)
    captured(ad.ones(2, 4))
    assert len(calls) == runs
    captured(ad.ones(2, 4))
    assert len(calls) == runs


def test_parameters_with_other_counts_are_of_another_kind() -> None:
    """One joined later: its bias correction is that of its own count."""

    def trained(wrap: Rule) -> list[Any]:
        ad.manual_seed(0)
        early, late = (nn.Parameter(ad.randn(3)) for _ in range(2))
        optimizer = optim.Adam([early, late], lr=0.1)
        early.grad = ad.ones(3)
        optimizer.step()

        def step() -> None:
            early.grad, late.grad = ad.ones(3), ad.full((3,), 2.0)
            optimizer.step()

        step = wrap(step)
        for _ in range(3):
            step()
        return [early, late, *[s["step"] for s in optimizer.state.values()]]

    ad.testing.assert_close(trained(capture), trained(lambda fn: fn))


class Scaled(optim.SGD):
    """Reads an attribute of the parameter, which no recording tells of."""

    def update(self, p: Any, grad: Any, state: Any, group: Any) -> None:
        p.add_(grad, alpha=-p.scale)


class ByRank(optim.Adam):
    """Looks at the parameter as a whole."""

    def update(self, p: Any, grad: Any, state: Any, group: Any) -> None:
        super().update(p, grad * 0.5 if p.ndim > 1 else grad, state, group)


class Counting(optim.SGD):
    """Keeps a table of its own."""

    seen: ClassVar[list[float]] = [0.1, 0.2, 0.3, 0.4, 0.5]

    def update(self, p: Any, grad: Any, state: Any, group: Any) -> None:
        at = next(i for i, q in enumerate(self.param_groups[0]["params"]) if q is p)
        p.sub_(grad * self.seen[at])


class Constructed(optim.SGD):
    """States nothing but how it is made."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr=lr, momentum=0.9)


def train(cls: Any, compiled: bool) -> list[Any]:
    ps = [nn.Parameter(ad.ones(2, 2)) for _ in range(3)]
    ps += [nn.Parameter(ad.ones(4)) for _ in range(2)]
    for i, p in enumerate(ps):
        p.scale = 0.1 * (i + 1)
    optimizer = cls(ps, lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        sum((p * p).sum() for p in ps).backward()  # type: ignore[union-attr]
        optimizer.step()

    run = ad.compile(step) if compiled else step
    for _ in range(3):
        run()
    return [p.detach() for p in ps]


@pytest.mark.parametrize("cls", [Scaled, ByRank, Counting, Constructed])
def test_rules_of_users_run_for_each_parameter(cls: Any) -> None:
    eager, compiled = train(cls, False), train(cls, True)
    ad.testing.assert_close(compiled, eager)
    if cls is Scaled:
        for i, p in enumerate(eager):
            np.testing.assert_allclose(p.numpy(), (1 - 0.2 * (i + 1)) ** 3, atol=1e-6)


@pytest.mark.parametrize("cls", [Scaled, ByRank, Counting])
def test_which_rules_are_the_package_s_own(cls: Any) -> None:
    p = [ad.ones(1, requires_grad=True)]
    assert not cls(p, lr=0.1)._has_own_rule()
    assert Constructed(p, lr=0.1)._has_own_rule()
    own = optim.SGD(p, lr=0.1)
    assert own._has_own_rule()
    own.update = lambda *given: None  # type: ignore[method-assign]
    assert not own._has_own_rule()


def test_every_optimizer_of_the_package_declares_its_rule() -> None:
    found = [c for c in vars(optim).values() if isinstance(c, type)]
    rules = [c for c in found if issubclass(c, RuleOptimizer)]
    assert len(rules) > 10
    assert set(rules) == OWN.keys()
