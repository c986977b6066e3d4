"""Dynamic sizes: one recording for many."""

from __future__ import annotations

import copy
import operator
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import models, nn
from adjoint.engine.backends.llvm.program import planning, sized, sized_plan
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.graph.sizes.extents import (
    Extent,
    ExtentFloat,
    SizeScope,
    computed,
    content,
    evaluate,
    typical,
)
from benchmarks.families import attention_block


def normal(*shape: int) -> Any:
    return ad.tensor(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def step_of(net: nn.Module, opt: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        value = loss(net(x), y)
        opt.zero_grad()
        value.backward()
        opt.step()
        return value

    return step


def mlp() -> Any:
    net = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3)
    )
    return step_of(net, ad.optim.SGD(net.parameters(), lr=0.01), F.cross_entropy)


def cnn() -> Any:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3)
    )
    return step_of(net, ad.optim.AdamW(net.parameters(), lr=0.01), F.cross_entropy)


def gpt() -> Any:
    net = models.GPT2(models.GPT2Config(17, 16, 16, 2, 2, 0.0))
    opt = ad.optim.AdamW(net.parameters(), lr=0.01)

    def loss(out: Any, y: Any) -> Any:
        return F.cross_entropy(out.reshape(-1, 17), y.reshape(-1))

    return step_of(net, opt, loss)


def tokens(batch: int, length: int) -> tuple[Any, Any]:
    x = ad.arange(batch * length).view(batch, length) % 17
    return x, (x + 1) % 17


def with_momentum() -> Any:
    net = nn.Linear(4, 3)
    opt = ad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)  # the first step makes its state
    return step_of(net, opt, F.cross_entropy)


def accumulated() -> Any:
    net = nn.Linear(4, 3)

    def step(x: Any, y: Any) -> Any:
        F.cross_entropy(net(x), y).backward()
        return net.weight.grad * 1

    return step


def classes(n: int, *shape: int) -> tuple[Any, Any]:
    return normal(n, *shape), ad.arange(n) % 3


CASES: dict[str, tuple[Callable[[], Any], list[tuple[Any, ...]]]] = {
    "sum": (lambda: lambda x: (x * x).sum(), [(normal(n, 3),) for n in (4, 5, 9, 30)]),
    "mean": (lambda: lambda x: x.mean(0) / x.shape[0], [(normal(n, 3),) for n in (4, 5, 9, 30)]),
    "variance": (lambda: lambda x: x.var(0), [(normal(n, 3),) for n in (4, 5, 9, 30)]),
    "views": (
        lambda: lambda x: x.view(-1, 2, 3).transpose(0, 1).reshape(x.shape[0], -1)[1:-1],
        [(normal(n, 6),) for n in (4, 5, 9, 30)],
    ),
    "range": (
        lambda: lambda x: x * ad.arange(x.shape[0]).unsqueeze(1),
        [(normal(n, 3),) for n in (4, 5, 9, 30)],
    ),
    "two results": (
        lambda: lambda x, y: (x @ y, ad.cat([x, x], 1)),
        [(normal(n, m), normal(m, 3)) for n, m in ((4, 5), (6, 7), (9, 4), (5, 5))],
    ),
    "mlp": (mlp, [classes(n, 4) for n in (4, 6, 9, 32, 7)]),
    "momentum": (with_momentum, [classes(n, 4) for n in (4, 6, 9, 32, 7)]),
    "accumulated gradients": (accumulated, [classes(n, 4) for n in (4, 6, 9, 32, 7)]),
    "cnn": (cnn, [classes(n, 1, 8, 8) for n in (4, 6, 9, 7)]),
    "gpt": (gpt, [tokens(*s) for s in ((2, 5), (3, 7), (4, 6), (5, 12))]),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_eager_with_few_recordings(name: str) -> None:
    make, calls = CASES[name]
    results = []
    for wrap in (lambda f: f, lambda f: ad.compile(f, dynamic=True)):
        ad.manual_seed(0)
        f = wrap(make())
        outs: list[Any] = []
        for args in calls:
            out = f(*args)
            outs += list(out) if isinstance(out, tuple) else [out]
        results.append(outs)
    for a, b in zip(*results, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert not f.families.reasons
    # Another where a dimension besides the first varies, and where sizes happened to be equal.
    several = {"two results": 3, "gpt": 3, "momentum": 2, "accumulated gradients": 2}
    assert f.traces <= several.get(name, 1)


def test_marked_dimensions_are_dynamic_at_once() -> None:
    calls: list[Any] = []

    def f(x: Any) -> Any:
        calls.append(None)
        return x.sum(0) / x.shape[0]

    compiled = ad.compile(f)
    x = ad.ones(4, 3)
    ad.mark_dynamic(x, 0)
    compiled(x)
    count = len(calls)
    for n in (5, 2, 100):
        np.testing.assert_allclose(compiled(ad.ones(n, 3)).numpy(), 1.0)
    assert len(calls) == count + 3  # what a call appends, each call appends
    assert compiled.traces == 1
    compiled(ad.ones(1, 3))  # a size of 1 broadcasts: a recording of its own
    assert compiled.traces == 2
    with pytest.raises(IndexError, match="dimension 5"):
        ad.mark_dynamic(x, 5)


def test_gradients_of_dynamic_programs() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    model = ad.compile(net, dynamic=True)
    for n in (3, 4, 7, 9):
        x = normal(n, 3).requires_grad_()
        want = ad.autograd.grad(net(x).pow(2).sum(), [x, *net.parameters()])
        got = ad.autograd.grad(model(x).pow(2).sum(), [x, *net.parameters()])
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert model._program.traces == 1


def test_second_derivatives_of_dynamic_programs() -> None:
    def fn(x: Any) -> Any:
        return (x * x.detach() * x).sin().sum()

    run = ad.compile(fn, dynamic=True)
    for n in (4, 7, 30, 2, 4):
        results = []
        for f in (fn, run):
            x = (ad.arange(3.0 * n).view(n, 3) / n).requires_grad_()
            (g,) = ad.autograd.grad(f(x), x, create_graph=True)
            results += [g, *ad.autograd.grad(g.square().sum(), x)]
        assert results[0].allclose(results[2], atol=1e-5)
        assert results[1].allclose(results[3], rtol=1e-4, atol=1e-4)
    assert run.traces == 1


def test_a_branch_on_a_size_is_a_guard() -> None:
    f = ad.compile(lambda x: x * 2 if x.shape[0] > 10 else x * 3, dynamic=True)
    for n in (4, 5, 6, 20, 7, 30, 40):
        np.testing.assert_allclose(f(ad.ones(n)).numpy(), 2.0 if n > 10 else 3.0)
    assert f.traces == 2


def test_roundings_are_followed() -> None:
    f = ad.compile(lambda x: x[: x.shape[0] // 2] * (2 if x.shape[0] % 2 else 3), dynamic=True)
    for n in (4, 5, 6, 7, 20, 31):
        np.testing.assert_allclose(f(ad.ones(n)).numpy(), np.full(n // 2, 2.0 if n % 2 else 3.0))
    assert f.traces == 2  # odd sizes, even sizes


@pytest.mark.parametrize("split", [2, 8])
def test_a_first_size_that_is_one_group_fixes_no_other(split: int) -> None:
    """One group is a size by itself; the sizes after it have one recording."""
    f = ad.compile(lambda x: x.reshape(-1, split).sum(0), dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for groups in (1, 2, 3, 5, 4):
            x = normal(groups * split)
            want = x.numpy().reshape(-1, split).sum(0)
            np.testing.assert_allclose(f(x).numpy(), want, rtol=1e-5, atol=1e-6)
    assert f.traces == 2


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x: sum(x[i] * i for i in range(x.shape[0])), "fixed by what it does"),
        (
            lambda x: x * float(x.shape[0]),
            "fixed by what it does: s0 - 4 == 0, where s0 is dimension 0 of tensor 0",
        ),
    ],
)
def test_what_cannot_be_dynamic_is_recorded_size_by_size(fn: Any, reason: str) -> None:
    f = ad.compile(fn, dynamic=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (4, 5, 6, 7):
            x = normal(n, 2)
            np.testing.assert_allclose(f(x).numpy(), fn(x).numpy(), rtol=1e-6)
    assert f.traces == 4
    assert len(caught) == 1
    assert reason in str(caught[0].message)


def test_structural_changes_start_another_family() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    f = ad.compile(lambda x: net(x), dynamic=True)
    for n in (3, 4, 5):
        f(normal(n, 3))
    net.eval()
    for n in (4, 5, 6, 7):
        x = normal(n, 3)
        np.testing.assert_allclose(f(x).detach().numpy(), net(x).detach().numpy(), rtol=1e-6)
    assert f.traces <= 4


def test_extents_carry_their_polynomial() -> None:
    scope = SizeScope()
    n = Extent.symbol("n", 6, scope)
    m = Extent.symbol("m", 4, scope)
    sizes = {"n": 10, "m": 3}
    for fn in (
        lambda n, m: n + m * 2 - 1,
        lambda n, m: (n * m * 3) // n,
        lambda n, m: -n + n * n,
        lambda n, m: 5 - n,
        lambda n, m: (n * 8) // 4 + 0 * m,
    ):
        made = fn(n, m)
        assert made == fn(6, 4)
        assert evaluate(made.poly, sizes) == fn(10, 3)
    for real in (
        lambda n: 1 / n,
        lambda n: n / (n - 1) * 0.5,
        lambda n: n**-0.5,
        lambda n: n * 0.5,
    ):
        made = real(n)
        assert isinstance(made, ExtentFloat)
        assert made == pytest.approx(real(6))
        assert made.at(sizes) == pytest.approx(real(10))
    assert type(n - n) is int
    scope.guards.clear()
    assert n > 1  # always so
    assert n * m == m * n
    assert not scope.guards
    assert n > 5
    assert n % 4 == 2
    assert scope.allow({"n": 10, "m": 9})
    assert not scope.allow({"n": 11, "m": 9})
    assert evaluate((n // 4).poly, scope.complete({"n": 11, "m": 9})) == 2
    assert operator.index(n) == 6


def test_a_first_call_with_one_element_does_not_keep_later_sizes_apart() -> None:
    f = ad.compile(lambda x: (x * x).sum(0), dynamic=True)
    for n in range(1, 12):
        assert f(ad.ones(n, 3)).tolist() == [n] * 3
    assert f.traces == 2  # one element, and any number from two on


def test_what_a_check_near_by_would_miss_is_found() -> None:
    def halves(x: Any) -> Any:
        for _ in range(x.shape[0] // 16):  # none at small sizes
            x = x / 2
        return x

    f = ad.compile(halves, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (4, 5, 6, 40, 100):
            np.testing.assert_array_equal(f(ad.ones(n)).numpy(), 0.5 ** (n // 16))


def recurrent(layer: Any) -> Callable[..., Any]:
    return lambda x: layer(x)[0]


MORE: dict[str, tuple[Callable[[], Any], list[tuple[Any, ...]], int]] = {
    "length": (lambda: lambda x: x.sum(0) / len(x), [(normal(n, 3),) for n in (4, 5, 9)], 1),
    "last row": (lambda: lambda x: x[x.shape[0] - 1], [(normal(n, 3),) for n in (4, 5, 9)], 1),
    "feature size": (
        lambda: lambda x, w, b: F.linear(x, w, b),
        [(normal(n, 4), normal(3, 4), normal(3)) for n in (2, 3, 4, 5)],
        1,
    ),
    "whole numbers": (
        lambda: lambda x: (x > 0).sum(1) * x.shape[0] + x.shape[0] // 2,
        [(normal(n, 3),) for n in (4, 5, 9)],
        1,
    ),
    "positions": (
        lambda: lambda x: x.argmax(0) + x.argmax(1).sum(),
        [(normal(n, 6),) for n in (4, 5, 9, 12)],
        1,
    ),
    "one and none": (
        lambda: lambda x: F.softmax(x, -1).sum(0) / max(x.shape[0], 1),
        [(normal(n, 3),) for n in (4, 1, 0, 5, 7)],
        3,
    ),
    "dropout": (lambda: lambda x: F.dropout(x, 0.3), [(normal(n, 3),) for n in (4, 5, 9)], 1),
    "draws": (
        lambda: lambda x: x + ad.randn(x.shape) + ad.randint(0, 5, (x.shape[0], 1)),
        [(normal(n, 3),) for n in (4, 5, 9)],
        1,
    ),
    "lstm batch": (
        lambda: recurrent(nn.LSTM(3, 5, batch_first=True)),
        [(normal(n, 6, 3),) for n in (2, 3, 5, 9)],
        1,
    ),
    "lstm length": (
        lambda: recurrent(nn.LSTM(3, 5)),
        [(normal(n, 6, 3),) for n in (2, 3, 5, 9)],
        1,
    ),
    "images": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.AdaptiveAvgPool2d(1)).forward,
        [(normal(2, 2, n, n),) for n in (4, 5, 6, 9)],
        2,
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_recorded_so_often(name: str) -> None:
    make, calls, traces = MORE[name]
    results = []
    for wrap in (lambda f: f, lambda f: ad.compile(f, dynamic=True)):
        ad.manual_seed(0)
        f = wrap(make())
        results.append([f(*args) for args in calls])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert not f.families.reasons
    assert f.traces == traces


# -- one plan for many sizes (Note [sized plans]) -----------------------------------------------


@pytest.fixture
def plans(anew: None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans of compiled functions that are made, none taken from disk."""
    made: list[Any] = []

    def counted(task: Any, *args: Any) -> Any:
        plan = plan_for(task, *args)
        if task.shared is None:  # no fragment of the eager side
            made.append(plan)
        return plan

    monkeypatch.setattr(sized, "plan_for", counted)
    monkeypatch.setattr(planning, "plan_for", counted)
    return made


def small(name: str) -> tuple[Any, Callable[..., Any], Callable[[int], tuple[Any, ...]]]:
    """A little model of each of the benchmarks' families: network, loss, batches."""
    shapes = {"mlp": (8,), "cnn": (1, 8, 8), "residual": (3, 8, 8), "vit": (3, 8, 8)}
    if name in ("gpt", "lstm"):
        tokens = nn.Embedding(7, 8)
        block: Any = (
            attention_block(ad, 8, 2, True) if name == "gpt" else nn.LSTM(8, 8, batch_first=True)
        )
        head = nn.Linear(8, 7)

        def language(net: Any, x: Any, y: Any) -> Any:
            out = net[1](net[0](x))
            return F.cross_entropy(
                net[2](out if name == "gpt" else out[0]).reshape(-1, 7), y.view(-1)
            )

        return (
            nn.ModuleList([tokens, block, head]),
            language,
            lambda n: (ad.arange(n * 5).view(n, 5) % 7, ad.arange(n * 5).view(n, 5) % 5),
        )
    if name == "vae":
        net = nn.ModuleList([nn.Linear(6, 8), nn.Linear(4, 6)])

        def rebuilt(net: Any, x: Any, noise: Any) -> Any:
            mean, wide = net[0](x).chunk(2, dim=1)
            back = net[1](mean + noise * (0.5 * wide).exp())
            loss = F.binary_cross_entropy_with_logits(back, x.sigmoid(), reduction="sum")
            return (loss - 0.5 * (1 + wide - mean.pow(2) - wide.exp()).sum()) / len(x)

        return net, rebuilt, lambda n: (normal(n, 6).double(), normal(n, 4).double())
    parts: dict[str, Callable[[], list[nn.Module]]] = {
        "mlp": lambda: [nn.Linear(8, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 3)],
        "cnn": lambda: [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(64, 3)],
        "residual": lambda: [models.resnet.BasicBlock(3, 3, 1, None), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                             nn.Linear(3, 3)],
        "vit": lambda: [nn.Conv2d(3, 8, 4, stride=4), nn.Flatten(2), Turned(),
                        attention_block(ad, 8, 2, False), nn.Flatten(), nn.Linear(32, 3)],
    }  # fmt: skip
    return (
        nn.Sequential(*parts[name]()),
        lambda net, x, y: F.cross_entropy(net(x), y),
        lambda n: (normal(n, *shapes[name]).double(), ad.arange(n) % 3),
    )


class Turned(nn.Module):
    """The last two dimensions the other way round, after what is learned of none."""

    def forward(self, x: Any) -> Any:
        first = x.new_zeros(1, 1, x.shape[1]).expand(len(x), -1, -1)
        return (ad.cat([first, x.transpose(1, 2)], dim=1) * 1.0)[:, 1:]


@pytest.mark.parametrize("name", ["mlp", "cnn", "residual", "gpt", "vit", "lstm", "vae"])
def test_families_of_models(name: str, plans: list[Any]) -> None:
    """Values, gradients and state are eager's at every batch size, from one recording."""
    ad.manual_seed(0)
    net, loss, batch = small(name)
    net.double()
    other = copy.deepcopy(net)

    def train(net: Any, opt: Any) -> Callable[..., Any]:
        def step(*batch: Any) -> Any:
            value = loss(net, *batch)
            opt.zero_grad()
            value.backward()
            opt.step()
            return value

        return step

    eager = train(net, ad.optim.SGD(net.parameters(), lr=0.125))
    compiled = ad.compile(train(other, ad.optim.SGD(other.parameters(), lr=0.125)), dynamic=True)
    for n in (2, 3, 4, 5, 6, 7, 8, 9, 32, 33):
        want, got = eager(*batch(n)), compiled(*batch(n))
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-9)
        for a, b in zip(net.parameters(), other.parameters(), strict=True):
            np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-6, atol=1e-9)
        for a, b in zip(net.state_dict().values(), other.state_dict().values(), strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-6, atol=1e-9)
    assert compiled.traces == 1
    assert len(plans) <= 4  # of ten sizes


@pytest.mark.parametrize("make", [mlp, cnn], ids=["mlp", "cnn"])
def test_drafts_are_what_would_be_planned(make: Any) -> None:
    tasks: list[Any] = []

    def keeping(task: Any) -> Any:
        tasks.append(task)
        return ad.graph.interpreted(task)

    shape = (4,) if make is mlp else (1, 8, 8)
    ad.compile(make(), dynamic=True, backend=keeping)(*classes(5, *shape))
    plan = sized.sized_plan(tasks[0], Options(), {"s0": 5}, {"s0": 16})
    assert isinstance(plan, sized_plan.Sized)
    allowed = [n for n in (2, 3, 4, 7, 8, 16, 31, 64, 100) if plan.allows({"s0": n})]
    assert len(allowed) > 4
    for n in allowed:
        other = sized.sized_plan(tasks[0], Options(), {"s0": n}, {"s0": 16})
        assert isinstance(other, sized_plan.Sized)
        assert plan.at({"s0": n})[0].same(other.at({"s0": n})[0])
    wrong = plan.at({"s0": 6})[0]
    wrong.words[0] += 1
    assert not wrong.same(plan.at({"s0": 6})[0])


def test_backward_of_eager_loops_is_planned_once(plans: list[Any]) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    model = ad.compile(net, dynamic=True)
    for n in (3, 4, 5, 6, 7, 8):
        x = normal(n, 3).requires_grad_()
        want = ad.autograd.grad(net(x).pow(2).sum(), [x, *net.parameters()])
        got = ad.autograd.grad(model(x).pow(2).sum(), [x, *net.parameters()])
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
        if n == 5:
            before = len(plans)
    assert len(plans) == before


def resident() -> float:
    """Megabytes of memory in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def stream_of_sizes() -> list[float]:
    """Memory in use after each of 200 sizes in any order, after the largest."""
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    step = ad.compile(
        step_of(net, ad.optim.SGD(net.parameters(), lr=0.01), F.mse_loss), dynamic=True
    )
    rng = np.random.default_rng(0)
    sizes = [201, *rng.permutation(np.arange(2, 202)).tolist()]
    taken = []
    for n in sizes:
        step(ad.ones(n, 64), ad.zeros(n, 64))
        taken.append(resident())
    assert sum(map(len, step.programs.values())) <= 32
    assert step.traces == 1
    return taken


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="asks Linux")
def test_a_stream_of_sizes_keeps_few_programs() -> None:
    stream_of_sizes()


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="asks Linux")
def test_a_stream_of_sizes_takes_no_more_memory() -> None:
    taken = stream_of_sizes()
    assert max(taken[100:]) - taken[99] < 4


def test_threads_share_the_memory_of_all_sizes() -> None:
    w = normal(32, 32)
    f = ad.compile(lambda x: ((x @ w).tanh() @ w).softmax(-1), dynamic=True)
    g = lambda x: ((x @ w).tanh() @ w).softmax(-1)
    inputs = {n: normal(n, 32) for n in (2, 5, 9, 30, 70, 110)}
    want = {n: g(x).numpy() for n, x in inputs.items()}
    wrong: list[int] = []

    def work(order: list[int]) -> None:
        got = [(n, f(inputs[n]).numpy()) for n in order * 20]
        wrong.extend(n for n, y in got if not np.allclose(y, want[n], rtol=1e-5, atol=1e-6))

    orders = [list(inputs)[k:] + list(inputs)[:k] for k in range(4)]
    threads = [threading.Thread(target=work, args=(order,)) for order in orders]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_explain_says_for_which_sizes_a_plan_is(plans: list[Any]) -> None:
    f = ad.compile(lambda x: (x * 2).sum(0), dynamic=True)
    for n in (4, 5, 7):
        f(ad.ones(n, 33))
    assert "one plan for the sizes s0 4 to 128" in f.explain()
    assert "(7, 33)" not in f.recordings()
    assert "from a recording with dynamic sizes" in f.recordings()
    f = ad.compile(lambda x: x.mode(0)[0] * 2, dynamic=True)
    f(ad.ones(4, 33))
    assert "each size is planned by itself: the eager table does a part of it" in f.explain()


def test_computed_and_typical_sizes() -> None:
    scope = SizeScope().again({"n": 100})
    n = Extent.symbol("n", 7, scope)
    least = computed(min, n * 3, 50)
    assert int(least) == 21
    assert evaluate((least + 1).poly, scope.complete({"n": 30})) == 51
    assert typical(n * 2 + least) == 250
    assert content(n * 12 + 8) == 4
    assert (computed(min, 3, 4), typical(5), content(6)) == (3, 5, 6)
    assert not scope.guards
    divided = 20 // (n // 5)
    assert int(divided) == 20
    assert divided != 0
    assert not scope.allow({"n": 3})  # nothing to divide by there
    assert scope.allow({"n": 11})
