"""Plans for many sizes on disk: images made from what was kept are those that are planned."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.program import kept_plans, sized, sized_plan
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.draft import Draft
from adjoint.engine.compiler.package.naming import task_key
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.sizes.extents import (
    Extent,
    ExtentFloat,
    Sizes,
    SizeScope,
    computed,
    evaluate,
)
from adjoint.engine.graph.sizes.kept_sizes import (
    NotKept,
    NumberReader,
    NumberWriter,
    found,
    function_name,
    scope_of_rows,
    scope_rows,
)

F = nn.functional


def normal(*shape: int) -> Any:
    rng = np.random.default_rng(sum(shape))
    return ad.from_numpy(rng.standard_normal(shape).astype(np.float32))


def table_of(x: Any) -> Any:
    """Rows that are looked up: their errors tell a size."""
    return x[ad.arange(len(x)) // 2] * (1 / len(x))


FUNCTIONS: dict[str, tuple[Callable[[], Callable[..., Any]], tuple[int, ...]]] = {
    "products": (lambda: nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)), (6,)),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        (1, 8, 8),
    ),
    "means and lookups": (lambda: lambda x: table_of(x.softmax(-1)) + x.mean(0), (5,)),
    "a half": (lambda: lambda x: x[: len(x) // 2].cumsum(0) * len(x), (3,)),
    "attention": (
        lambda: lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        (7, 4),
    ),
    "a loop": (
        lambda: lambda x: ad._higher_order_ops.scan(lambda c, y: (c + y, c * y), x[0], x)[1],
        (3,),
    ),
}


def task_of(fn: Any, *shape: int) -> Task:
    """The task of a call, one of many sizes."""
    tasks: list[Task] = []

    def keeping(task: Task) -> Any:
        tasks.append(task)
        return ad.graph.interpreted(task)

    ad.compile(fn, dynamic=True, backend=keeping)(normal(*shape))
    return tasks[0]


def family(task: Task) -> Task:
    """The task for all sizes."""
    found = kept_plans.family_task(task)
    assert found is not None
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kept_plans_make_the_same_images(name: str) -> None:
    make, rest = FUNCTIONS[name]
    task = task_of(make(), 5, *rest)
    assert task.sizing is not None
    complete = task.sizing.scope.complete
    sizes: Sizes = complete({"s0": 5})
    plan = sized.sized_plan(task, Options(), sizes, sized_plan.reference_of(sizes))
    assert isinstance(plan, sized_plan.Sized), plan
    plan.believe({"s0": 40})
    data = kept_plans.to_bytes([plan])
    again = partial(kept_plans.planned_again, family(task), Options())
    (read,) = kept_plans.from_bytes(data, again)
    assert (read.low, read.high) == (plan.low, plan.high) == ({"s0": 5}, {"s0": 40})
    assert kept_plans.to_bytes([read]) == data
    for n in (2, 3, 5, 8, 17, 31, 64, 100):
        sizes = complete({"s0": n})
        assert plan.allows(sizes) == read.allows(sizes)
        if not plan.allows(sizes):
            continue
        mine, theirs = plan.at(sizes)[0], read.at(sizes)[0]
        assert theirs.same(mine)
    assert theirs.report == mine.report  # told of the last size, by a plan made again
    assert isinstance(read.drafted({"s0": 5})[0], Draft)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The plans for many sizes that are made, with a disk of its own."""
    made: list[Any] = []

    def counted(task: Any, *args: Any) -> Any:
        if task.shared is None:  # no fragment of the eager side
            made.append(task)
        return plan_for(task, *args)

    monkeypatch.setattr(sized, "plan_for", counted)
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("ADJOINT_CACHE_SIZE", raising=False)
    return made


def trained() -> tuple[Any, list[Any]]:
    """A compiled step at some sizes, and what it came to."""
    ad.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
    opt = ad.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss

    compiled = ad.compile(step)
    losses = [compiled(normal(n, 6)).item() for n in (4, 5, 9, 30, 7)]
    return compiled, [*losses, *[p.detach().numpy().tobytes() for p in net.parameters()]]


def test_plans_are_found_by_the_next_who_needs_them(planned: list[Any]) -> None:
    _, first = trained()
    assert planned
    planned.clear()
    compiled, second = trained()
    assert second == first
    assert not planned
    assert "one plan for the sizes" in compiled.explain()
    compiled, third = trained()
    compiled(normal(200, 6))  # sizes that nobody had checked
    assert third == first
    assert planned


@pytest.mark.parametrize("order", [1, -1])
def test_derivatives_that_show_fewer_sizes_than_their_calls_have(
    order: int, planned: list[Any]
) -> None:
    ways: list[list[tuple[int, int]]] = [[(4, 5), (6, 5), (9, 5)], [(4, 5), (6, 7), (9, 8)]]
    for calls in ways[::order] * 2:
        compiled = ad.compile(lambda x, y: x.exp().cumsum(0) * 2 + y.mean())
        for n, m in calls:
            x, own = (normal(n, 3).requires_grad_() for _ in range(2))
            compiled(x, normal(m)).sum().backward()
            own.exp().cumsum(0).mul(2).sum().backward()
            ad.testing.assert_close(x.grad, own.grad)
        assert compiled.traces == 2


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no blocks": lambda rows: rows["draft"].pop("blocks"),
    "a word outside": lambda rows: rows["draft"]["sized"].append([10**6, 0]),
    "an extent outside": lambda rows: rows["draft"]["sized"].append([0, 10**6]),
    "a block outside": lambda rows: rows["draft"]["inside"].append([0, 10**6]),
    "a word before": lambda rows: rows["draft"]["inside"].append([-1, 0]),
    "an unknown symbol": lambda rows: rows["draft"]["table"].append(["sum", [[1, "s9"]]]),
    "a text for a number": lambda rows: rows["draft"]["extents"].append("7"),
    "another's function": lambda rows: rows["scope"]["derived"].append(["q999", ["os", "abs"], []]),
    "no such function": lambda rows: rows["scope"]["derived"].append(["q999", ["", "no"], []]),
    "an unknown sign": lambda rows: rows["scope"]["guards"].append([[[1]], "near", True]),
    "sizes of others": lambda rows: rows["sizes"].update(s7=3),
    "no function there": lambda rows: rows["draft"]["segments"][0][0].__setitem__(0, "absent"),
}


@pytest.mark.parametrize("damage", [*DAMAGES, "cut off", "no text"])
def test_damaged_plans_are_made_again(
    damage: str, planned: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str | None] = []
    keep = kept_plans.keep

    def noted(plans: Any) -> bool:
        keys.append(plans.key)
        return keep(plans)

    monkeypatch.setattr(kept_plans, "keep", noted)
    f = lambda: ad.compile(lambda x: (x * 2).sum(0), dynamic=True)
    want = f()(normal(6, 4)).numpy()
    key = keys[0]
    assert key is not None
    data = store.get(key)
    assert data is not None
    if damage in DAMAGES:
        bounds, rest = data.split(b"\n")
        rows = json.loads(rest)
        DAMAGES[damage](rows)
        data = bounds + b"\n" + json.dumps(rows).encode()
    else:
        data = data[: len(data) // 2] if damage == "cut off" else b"\xff\xfe"
    store.put(key, data)
    planned.clear()
    np.testing.assert_array_equal(f()(normal(6, 4)).numpy(), want)
    assert planned
    planned.clear()
    np.testing.assert_array_equal(f()(normal(6, 4)).numpy(), want)
    assert not planned  # what was damaged is whole again


def test_families_that_are_alike_at_one_size_have_other_names() -> None:
    tasks = [
        task_of(fn, 4, 3)
        for fn in (
            lambda x: ad.zeros(2 * len(x)) + x.sum(),
            lambda x: ad.zeros(len(x) + 4) + x.sum(),
            lambda x: ad.zeros(len(x) * len(x) // 2) + x.sum(),
            lambda x: ad.zeros(2 * len(x)) + x.sum() / len(x),
            lambda x: ad.zeros(2 * len(x)) + x.sum() / (2 * len(x) - 4),
        )
    ]
    assert len({task_key(family(task), Options()) for task in tasks}) == len(tasks)
    alike = task_of(lambda x: ad.zeros(2 * len(x)) + x.sum(), 9, 3)
    assert task_key(family(alike), Options()) == task_key(family(tasks[0]), Options())


def test_numbers_and_scopes_as_plain_data() -> None:
    scope = SizeScope()
    n, m = Extent.symbol("s0", 17, scope), Extent.symbol("s1", 5, scope)
    asked = [n * m + 3, n // 4, computed(min, n, m * 2), 1 / (n * m), (n / m) ** 0.5, 7, 2.5]
    assert n > m
    assert n % 4 == 1
    writer = NumberWriter()
    rows = json.loads(json.dumps([writer.number(x) for x in asked]))
    table = json.loads(json.dumps(writer.table))
    back = scope_of_rows(json.loads(json.dumps(scope_rows(scope))))
    own = {"s0": 17, "s1": 5}
    reader = NumberReader(table, back.complete(own), back)
    for sizes in (own, {"s0": 21, "s1": 9}, {"s0": 8, "s1": 3}, {"s0": 9, "s1": 13}):
        assert back.allow(sizes) == scope.allow(sizes)
        for x, row in zip(asked, rows, strict=True):
            values = []
            for number, known in ((x, scope), (reader.number(row), back)):
                at = known.complete(sizes)
                values.append(
                    evaluate(number.poly, at) if isinstance(number, Extent)
                    else number.at(at) if isinstance(number, ExtentFloat) else number
                )  # fmt: skip
            assert values[0] == values[1]


@pytest.mark.parametrize(
    "fn", [lambda n: n, len, json.dumps, partial(min, key=abs), partial(max, 2.5), operator.neg]
)
def test_functions_without_a_name_are_not_kept(fn: Any) -> None:
    with pytest.raises(NotKept):
        function_name(fn)


@pytest.mark.parametrize(
    "named", [["os", "remove"], ["", "eval"], ["adjoint", "Tensor"], ["adjoint.nowhere", "f"]]
)
def test_only_own_functions_are_found(named: list[str]) -> None:
    with pytest.raises((ValueError, KeyError, ImportError)):
        found(named)
