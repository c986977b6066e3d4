"""Sizes and numbers that differ between calls are found out: each call is what eager mode gives."""

from __future__ import annotations

import logging
import math
import operator
import random
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.engine.core.spec import is_larger
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, SizeScope
from adjoint.engine.graph.sizes.quotients import whole_part
from adjoint.engine.ops.nn import attention_rows

SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 40)
Program = Callable[..., Any]


class Pair(NamedTuple):
    first: Any
    second: Any


def ramp(*shape: int) -> Any:
    return ad.arange(1.0, 1.0 + int(np.prod(shape))).view(*shape) / 8


def kept(notes: list[Any]) -> Program:
    """What is noted of a size is that of the call."""

    def f(x: Any, n: int) -> Any:
        notes.append(x.shape[0] + n)
        notes.append(str(x.shape) if n == 4 else len(x) * 0.5)
        return Pair(x * n, (x.shape[0], n + 1))

    return f


def counted() -> Program:
    seen = {"rows": 0}

    def f(x: Any) -> Any:
        seen["rows"] += x.shape[0]
        return x.sum() * seen["rows"], seen["rows"]

    return f


def nested(batch: dict[str, Any]) -> Any:
    x, (y, scale) = batch["x"], batch["rest"]
    return {"sum": x.sum(0) + y.sum(0) * scale, "rows": [x.shape[0], y.shape[0]]}


# What is called with a size and a number, and what makes arguments of them.
PROGRAMS: dict[str, tuple[Callable[[], Program], Callable[[int, int], tuple[Any, ...]]]] = {
    "rows": (lambda: lambda x: x / (1 + x.sum(0)) * len(x), lambda n, k: (ramp(n, 3),)),
    "two": (lambda: lambda x, y: (x @ y, x.sum() + y), lambda n, k: (ramp(n, k), ramp(k, 2))),
    "square": (lambda: lambda x: x + x.mT, lambda n, k: (ramp(n, n),)),
    "views": (
        lambda: lambda x: (x[1:-1], x.view(-1), x[::2], x[x.shape[0] // 2 :]),
        lambda n, k: (ramp(n, 3),),
    ),
    "branch": (lambda: lambda x: x * 2 if x.shape[0] > 6 else x - 1, lambda n, k: (ramp(n, 2),)),
    "loop": (lambda: lambda x: sum(row * i for i, row in enumerate(x)), lambda n, k: (ramp(n, 2),)),
    "number": (lambda: lambda x, n: x * n + n, lambda n, k: (ramp(n, 2), k)),
    "float": (lambda: lambda x, n: x * n, lambda n, k: (ramp(n, 2), k / 4)),
    "both": (lambda: lambda x, n, r: x[:n] * r + n, lambda n, k: (ramp(n, 2), k, k / 2)),
    "made": (lambda: lambda x, n: x.sum() + ad.zeros(n, 2), lambda n, k: (ramp(n, 2), k)),
    "repeated": (lambda: lambda x, n: sum([x] * n, x), lambda n, k: (ramp(n, 2), k)),
    "split": (
        lambda: lambda x, n: [part.sum() for part in x.split(n)],
        lambda n, k: (ramp(n, 2), max(k, 1)),
    ),
    "kept": (lambda: kept([]), lambda n, k: (ramp(n, 2), k)),
    "counted": (counted, lambda n, k: (ramp(n, 2),)),
    "nested": (
        lambda: nested,
        lambda n, k: ({"x": ramp(n, 3), "rest": (ramp(k, 3), k * 0.5)},),
    ),
    "written": (lambda: lambda x: x.add_(x.shape[0]), lambda n, k: (ramp(n, 2),)),
    "constants": (
        lambda: lambda x: (ad.tensor([1.0, 2.0]).add_(x.sum(0)), ad.tensor(len(x) % 3), x * 2),
        lambda n, k: (ramp(n, 2),),
    ),
}


def told(value: Any) -> Any:
    """A result in a form that can be compared."""
    if isinstance(value, ad.Tensor):
        return ("tensor", str(value.dtype), tuple(value.shape), value.detach().tolist())
    if isinstance(value, dict):
        return {key: told(x) for key, x in value.items()}
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *map(told, value))
    return (type(value).__name__, value)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_of_random_sizes_are_as_in_eager_mode(name: str, seed: int) -> None:
    make, arguments = PROGRAMS[name]
    draw = random.Random(f"{name} {seed}")
    dynamic = (None, None, True)[seed]
    eager, run = make(), ad.compile(make(), backend="interpret", dynamic=dynamic)
    few = draw.sample(SIZES, 6)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="compile: ")
        for _ in range(14):
            n, k = draw.choice(few), draw.choice(few)
            given, again = arguments(n, k), arguments(n, k)
            assert told(run(*given)) == told(eager(*again)), (n, k)
            assert told(given) == told(again)


@pytest.mark.parametrize(
    ("fn", "calls", "traces"),
    [
        (lambda x: x.softmax(0), [(ramp(n, 2),) for n in (8, 5, 3, 40, 8, 7)], 2),
        (lambda x, y: x.sum() + y, [(ramp(n, 2), ramp(m)) for n, m in ((8, 3), (5, 3), (4, 3))], 2),
        (lambda x: x @ x.mT, [(ramp(n, m),) for n, m in ((4, 8), (4, 5), (4, 6), (3, 7))], 3),
        (lambda x, rate: x * rate, [(ramp(n), n / 3) for n in (4, 5, 6, 7)], 2),
        (lambda x, n: x * n, [(ramp(5), n) for n in (2, 3, -7, 5, 6)], 2),
        (lambda x, n: x[:n], [(ramp(9), n) for n in (2, 3, 4, 5, 6)], 2),
        (lambda x: (x * 2, x.shape[0]), [(ramp(n),) for n in (4, 5, 6, 7)], 2),
        (lambda x: x.where(x > 2, ad.tensor(0.5)), [(ramp(n),) for n in (4, 5, 6, 7)], 2),
        (lambda x: (x + 1 / len(x)) + ad.zeros(len(x)), [(ramp(n),) for n in (4, 5, 6, 7)], 2),
        (lambda x: x[ad.tensor([1, 0])] * x.sum(), [(ramp(n),) for n in (4, 5, 6, 7)], 2),
        (
            lambda x: F.layer_norm(x.transpose(0, 1) + x.transpose(0, 1).contiguous(), (3,)),
            [(ramp(n, 2, 3),) for n in (4, 5, 6, 7)],
            2,
        ),
        (
            lambda x: ad.sub(*ad.cat((x, x * 2)).chunk(2)) + ad.cat((x, x)).split(len(x))[1],
            [(ramp(n, 3),) for n in (4, 5, 6, 7)],
            2,
        ),
        (
            lambda x: x.view(int(x.shape[0] / (16 / 2 / 4)), -1) * math.ceil(len(x) * 0.25),
            [(ramp(2 * n, 3),) for n in (4, 5, 6, 7)],
            2,
        ),
        (
            lambda x: ad.zeros(math.floor(1.25 * len(x) / 6), math.ceil(len(x) / 3)) + x.sum(),
            [(ramp(n, 3),) for n in (24, 29, 30, 31, 47)],
            2,
        ),
        (
            lambda x, y: x.transpose(0, 1) + y,  # the first's order in memory
            [(ramp(n, 3, 2), ramp(3, n, 2)) for n in (4, 5, 6, 7)],
            2,
        ),
    ],
)
def test_recordings_are_few(fn: Program, calls: list[Any], traces: int) -> None:
    run = ad.compile(fn)
    for given in calls:
        ad.testing.assert_close(run(*given), fn(*given), check_stride=True)
    assert run.traces == traces
    assert not run.families.reasons


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_number_that_is_needed_keeps_nothing_else_from_being_free(dynamic: bool | None) -> None:
    def f(x: Any, rate: float, n: int) -> Any:
        return sum([x * rate] * n, x)

    run = ad.compile(f, backend="interpret", dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(12):
            given = ramp(5 + k, 2), k / 3, 2 + k % 3
            assert told(run(*given)) == told(f(*given))
    assert run.traces <= 4  # one for the first sizes, and one for each of three numbers


def stepped(wrap: Callable[[Any], Any], batches: list[int]) -> list[Any]:
    """What steps with state, draws, a schedule and autocast come to."""
    ad.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    opt = ad.optim.AdamW(net.parameters(), lr=0.01)
    schedule = ad.optim.lr_scheduler.StepLR(opt, 2, 0.5)

    def step(x: Any, y: Any) -> Any:
        with ad.autocast("cpu", ad.bfloat16):
            out = net(x)
        loss = F.cross_entropy(out.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, x.shape[0]

    run, seen = wrap(step), []
    for n in batches:
        loss, rows = run(ramp(n, 3), ad.arange(n) % 2)
        schedule.step()
        seen += [loss.detach(), ad.tensor(rows)]
    return [*seen, *net.state_dict().values(), ad.rand(2)]


@pytest.mark.parametrize("fullgraph", [True, False])
def test_steps_over_batches_of_several_sizes(fullgraph: bool) -> None:
    batches = [8, 8, 5, 8, 7, 12, 5]
    made: list[Any] = []

    def compiled(step: Any) -> Any:
        made.append(ad.compile(step, fullgraph=fullgraph, backend="interpret"))
        return made[-1]

    for got, want in zip(stepped(compiled, batches), stepped(lambda f: f, batches), strict=True):
        ad.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert made[0].traces == 2


def test_gradients_of_modules_over_several_sizes() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    model = ad.compile(net)
    for n in (8, 5, 7, 5, 9):
        x = ramp(n, 3).requires_grad_()
        want = ad.autograd.grad(net(x).pow(2).sum(), [x, *net.parameters()])
        got = ad.autograd.grad(model(x).pow(2).sum(), [x, *net.parameters()])
        ad.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    assert model._program.traces == 2


@pytest.mark.parametrize(
    ("take", "lengths", "most"),
    [
        # Parts of queries (from 96 on) are chosen by a length that is known alone.
        (lambda x: x, (5, 9, 100, 131, 7), 2),
        (lambda x: x[:, :, :-1], (5, 9, 97), 2),
        # Blocks (here from 256 on) hold for one length: others are served by what was recorded.
        (lambda x: x, (60, 70, 300, 40), 3),
    ],
)
def test_causal_attention_over_several_lengths(
    take: Any, lengths: tuple[int, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_rows, "LONG", 1 << 16)

    def attend(x: Any) -> Any:
        q, k, v = take(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).square().sum()

    compiled = ad.compile(attend)
    for length in lengths:
        values = np.random.default_rng(length).standard_normal((2, 1, length, 12))
        got, want = (ad.tensor(values, requires_grad=True) for _ in range(2))
        compiled(got).backward()
        attend(want).backward()
        np.testing.assert_allclose(got.grad.numpy(), want.grad.numpy(), rtol=1e-9, atol=1e-12)
    assert compiled.traces <= most


def test_an_argument_that_is_state_is_no_free_one() -> None:
    w = ramp(6)

    def f(x: Any) -> Any:
        w.mul_(2)
        return x + 1

    run = ad.compile(f)
    for n in (3, 4, 5):
        assert run(ramp(n)).tolist() == (ramp(n) + 1).tolist()
    given = w[2:]
    want = given * 2 + 1  # written before it is read
    assert run(given).tolist() == want.tolist()


def test_what_cannot_be_free_is_tried_once_and_told(caplog: pytest.LogCaptureFixture) -> None:
    refused: list[int] = []

    run = ad.compile(lambda x: sum(row * i for i, row in enumerate(x)))
    with caplog.at_level(logging.INFO, "adjoint.compile"):
        for n in (3, 4, 5, 6):
            refused.append(len(run.families.refused))
            run(ramp(n, 2))
    assert refused == [0, 0, 1, 1]
    assert run.traces == 4
    reason = next(iter(run.families.reasons))
    assert f"each size by itself: {reason}" in run.recordings()
    assert f"each size is recorded by itself: {reason}" in run.explain()
    assert sum("for each size by itself" in record.message for record in caplog.records) == 1


def test_marks_and_dynamic_false() -> None:
    def counted(dynamic: bool | None, mark: Callable[[Any], None]) -> int:
        run = ad.compile(lambda x: x.sum(0), backend="interpret", dynamic=dynamic)
        for n in (4, 5, 6, 7):
            x = ramp(n, 3)
            mark(x)
            run(x)
        return run.traces

    def nothing(x: Any) -> None: ...

    assert counted(None, nothing) == 2
    assert counted(False, nothing) == 4
    assert counted(None, ad.compiler.mark_static) == 4
    assert counted(True, lambda x: ad.compiler.mark_static(x, 0)) == 4
    assert counted(None, lambda x: ad.compiler.mark_static(x, 1)) == 2
    assert counted(False, lambda x: ad.compiler.maybe_mark_dynamic(x, 0)) == 1
    assert counted(False, lambda x: ad.mark_dynamic(x, 0)) == 1
    with pytest.raises(IndexError, match="mark_static: dimension 2"):
        ad.compiler.mark_static(ramp(2, 2), 2)


# Each is another at one size between those that a recording with free sizes is checked at.
ASKED: dict[str, Callable[[int], Any]] = {
    "equal to a float": lambda n: n == 5.0,
    "a float equal to it": lambda n: operator.eq(5.0, n),
    "unequal to a float": lambda n: n != 5.0,
    "between floats": lambda n: 4.5 < n < 5.5,
    "compared with infinity": lambda n: (n < float("inf"), n == float("nan"), n == 5),
    "least of floats": lambda n: min(n, 5.5) == 5,
    "in order among floats": lambda n: sorted([n, 5.5, 4.5])[1] == 5,
    "of NumPy's": lambda n: (bool(np.int64(5) == n), bool(n == np.float32(5))),
    "a fraction": lambda n: Fraction(5) == n,
    "by Python's method": lambda n: Five() == n,
    "times a float": lambda n: 0.5 * n == 2.5,
    "in a table of floats": lambda n: {2.5: "half"}.get(0.5 * n),
    "complex": lambda n: n + 1j == 5 + 1j,
    "whether a float is zero": lambda n: bool(n - 5.0),
    "rounded": lambda n: (round(n / 5) == 1, round(n, -1) == 0),
    "by a method of int's": lambda n: (int.__and__(n, 1), int.__eq__(n, 5)),
    "the text of sizes": lambda n: str(ad.ones(n).shape) == "adjoint.Size([5])",
    "a text with sizes": lambda n: {f"{ad.ones(n).shape}": 1}.get("adjoint.Size([5])", 0),
}


class Five:
    def __eq__(self, other: object) -> bool:
        return other == 5

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("name", ASKED)
def test_what_only_one_size_has_is_found(name: str) -> None:
    ask = ASKED[name]
    of_size, of_number = ad.compile(lambda x: (x * 2, ask(x.shape[0]))), ad.compile(numbered(ask))
    for n in (128, 10, 5, 64, 7, 12):
        assert of_size(ramp(n, 2))[1] == ask(n)
        assert of_number(ramp(4), n)[1] == ask(n)


def numbered(ask: Callable[[int], Any]) -> Program:
    return lambda x, n: (x.sum() + ad.zeros(n), ask(n))


def test_a_float_times_a_size_stays_free() -> None:
    f = ad.compile(lambda x: (0.5 * x.shape[0] * x, 2.0 - len(x)))
    for n in (8, 5, 7, 100, 31):
        y, rest = f(ramp(n, 2))
        assert rest == 2.0 - n
        assert bool((y == ramp(n, 2) * (0.5 * n)).all())
    assert f.traces == 2


@hypothesis.given(
    st.lists(st.integers(-3, 3), min_size=4, max_size=4),
    st.lists(st.integers(-3, 3), min_size=4, max_size=4),
)
def test_what_is_larger_at_all_sizes_is(one: list[int], other: list[int]) -> None:
    scope = SizeScope()
    n, m = Extent.symbol("n", 6, scope), Extent.symbol("m", 4, scope)

    def value(factors: list[int], n: int, m: int) -> int:
        return factors[0] + factors[1] * n + factors[2] * m + factors[3] * n * m

    told = is_larger(value(one, n, m), value(other, n, m))
    sizes = [(a, b) for a in range(2, 9) for b in range(2, 9)]
    assert told is None or {value(one, *at) > value(other, *at) for at in sizes} == {told}
    assert not scope.guards
    assert [is_larger(n * m, m), is_larger(2 * n, m), is_larger(n, n * m)] == [True, None, False]


@hypothesis.given(
    st.integers(2, 2**36),
    st.lists(st.tuples(st.booleans(), st.sampled_from([1, 3, 6, 7.0, 0.5, 1.25, 0.1, 64]))),
)
def test_whole_parts_of_quotients_are_those_of_floats(n: int, steps: list[Any]) -> None:
    size: Any = Extent.symbol("n", n, SizeScope())
    number: Any = n
    for divided, factor in steps:
        size = size / factor if divided else size * factor
        number = number / factor if divided else number * factor
    if isinstance(size, ExtentFloat):
        told = [whole_part(size), whole_part(size, round_up=True)]
        want = [math.floor(number), math.ceil(number)]
        assert all(a is None or int(a) == b for a, b in zip(told, want, strict=True))
