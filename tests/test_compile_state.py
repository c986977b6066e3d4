"""Compiled functions and Python's state: the same calls, eager and compiled, give and leave the same.

Each row plays a small program under a transform and returns what can be compared.
"""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import math
import operator
import os
import random
import sys
import types
import warnings
import weakref
from collections import ChainMap, UserDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

Wrap = Callable[[Any], Any]
ROWS: dict[str, Callable[[Wrap], Any]] = {}
SCALE: contextvars.ContextVar[float] = contextvars.ContextVar("scale", default=1.0)
FACTOR = 1.0
FACTORS = [1.0]


def row(play: Callable[[Wrap], Any]) -> Callable[[Wrap], Any]:
    ROWS[play.__name__] = play
    return play


def shown(x: Any) -> Any:
    return x.tolist() if isinstance(x, ad.Tensor) else x


class Holder:
    def __init__(self) -> None:
        self.scale = 1.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Holder) and self.scale == other.scale

    __hash__ = None  # type: ignore[assignment]


def set_factor(value: float) -> None:
    global FACTOR
    FACTOR = value


@functools.wraps(nn.functional.relu)
def activation(x: Any) -> Any:
    return nn.functional.relu(x) * FACTORS[0]


def proxied() -> Any:
    inner = {"a": 1.0}
    return types.SimpleNamespace(inner=inner, proxy=types.MappingProxyType(inner))


# What is read: how it is made, how it is changed, the function.
READS: dict[str, tuple[Callable[[], Any], Callable[[Any, int], Any], Callable[[Any, Any], Any]]] = {
    "userdict": (
        lambda: UserDict(a=1.0),
        lambda s, i: s.update(a=i + 2.0),
        lambda s, x: x * s["a"],
    ),
    "chainmap": (
        lambda: ChainMap({}, {"a": 1.0}),
        lambda s, i: s.maps[0].update(a=i + 2.0),
        lambda s, x: x * s["a"],
    ),
    "proxy": (proxied, lambda s, i: s.inner.update(a=i + 2.0), lambda s, x: x * s.proxy["a"]),
    "bytearray": (
        lambda: bytearray(b"\1\2"),
        lambda s, i: operator.setitem(s, 0, i + 2),
        lambda s, x: x * s[0],
    ),
    "array": (
        lambda: array.array("d", [1.0]),
        lambda s, i: operator.setitem(s, 0, i + 2.0),
        lambda s, x: x * s[0],
    ),
    "memoryview": (
        lambda: memoryview(bytearray(b"\1\2")),
        lambda s, i: operator.setitem(s, 0, i + 2),
        lambda s, x: x * s[0],
    ),
    "attrgetter": (
        Holder,
        lambda s, i: setattr(s, "scale", i + 2.0),
        lambda s, x: x * operator.attrgetter("scale")(s),
    ),
    "weakref": (
        lambda: types.SimpleNamespace(held=(h := Holder()), ref=weakref.ref(h)),
        lambda s, i: setattr(s.held, "scale", i + 2.0),
        lambda s, x: x * s.ref().scale,
    ),
    "comparison": (
        lambda: (Holder(), Holder()),
        lambda s, i: setattr(s[0], "scale", i % 2 + 1.0),
        lambda s, x: x * 2 if s[0] == s[1] else x,
    ),
    "context variable": (
        lambda: SCALE.set(1.0),
        lambda s, i: SCALE.set(i + 2.0),
        lambda s, x: x * SCALE.get(),
    ),
    "environment": (
        lambda: operator.setitem(os.environ, "ADJOINT_TEST_SCALE", "1"),
        lambda s, i: operator.setitem(os.environ, "ADJOINT_TEST_SCALE", str(i + 2)),
        lambda s, x: x * float(os.environ["ADJOINT_TEST_SCALE"]),
    ),
    "globals": (
        lambda: set_factor(1.0),
        lambda s, i: set_factor(i + 2.0),
        lambda s, x: x * globals()["FACTOR"],
    ),
    "wraps": (
        lambda: operator.setitem(FACTORS, 0, 1.0),
        lambda s, i: operator.setitem(FACTORS, 0, i + 2.0),
        lambda s, x: activation(x),
    ),
    "an array's element": (
        lambda: np.ones(2),
        lambda s, i: operator.setitem(s, 0, i + 2.0),
        lambda s, x: x * float(s[0]),
    ),
    "an array's sum": (
        lambda: np.ones(2),
        lambda s, i: operator.setitem(s, 0, i + 2.0),
        lambda s, x: x * float(s.sum()),
    ),
    "an array as tensor and number": (
        lambda: np.ones(2, np.float32),
        lambda s, i: operator.setitem(s, 0, i + 2.0),
        lambda s, x: x * ad.from_numpy(s) * float(s[0]),
    ),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_read_may_change(name: str) -> None:
    make, change, fn = READS[name]
    results = []
    for wrap in (lambda f: f, ad.compile):
        state = make()
        run: Any = wrap(lambda x, state=state: fn(state, x))
        out = [shown(run(ad.ones(2)))]
        for i in range(3):
            change(state, i)
            out.append(shown(run(ad.ones(2))))
        results.append(out)
    assert results[0] == results[1]


@row
def logs_and_counters(wrap: Wrap) -> Any:
    log: list[Any] = []
    seen: list[Any] = []
    count = [0]
    line = deque([1, 2, 3])
    letters: collections.Counter[str] = collections.Counter()

    def f(x: Any, kept: list[int] = []) -> Any:  # noqa: B006
        log.append(1)
        seen.append(x * 2)
        count[0] += 1
        line.rotate(1)
        letters.update("ab")
        letters["n"] += 1
        kept.append(len(log))
        return x * len(log) + line[0]

    run = wrap(f)
    out = [shown(run(ad.ones(1))) for _ in range(4)]
    return out, log, [shown(s) for s in seen], count, list(line), dict(letters), f.__defaults__


@row
def old_value_after_rebinding(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(h=ad.ones(1))

    def f(x: Any) -> Any:
        old = s.h
        s.h = s.h * 2 + x
        return old

    run = wrap(f)
    return [shown(run(ad.ones(1))) for _ in range(4)], shown(s.h)


@row
def tensors_that_change_places(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(a=ad.ones(2), b=ad.zeros(2))

    def f(x: Any) -> Any:
        s.a, s.b = s.b, s.a + x
        return s.a

    run = wrap(f)
    return [shown(run(ad.ones(2))) for _ in range(4)], shown(s.a), shown(s.b)


@row
def auxiliary_loss(wrap: Wrap) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.aux: Any = None
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            h = self.layer(x)
            self.aux = (h * h).mean()
            return h.sum()

    ad.manual_seed(0)
    net = Net()
    run = wrap(net)
    out = []
    for _ in range(3):
        (run(ad.ones(1, 2)) + net.aux).backward()
        out.append([round(v, 4) for v in net.layer.bias.grad.tolist()])
    return out, net.calls


@row
def state_made_lazily(wrap: Wrap) -> Any:
    class Heavy(ad.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})

        @ad.no_grad()
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if "m" not in state:
                        state["m"] = ad.zeros_like(p)
                    state["m"].mul_(0.9).add_(p.grad)
                    p.add_(state["m"], alpha=-group["lr"])

    ad.manual_seed(0)
    layer = nn.Linear(2, 1)
    opt = Heavy(layer.parameters())

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = layer(x).square().sum()
        loss.backward()
        opt.step()
        return loss

    run = wrap(step)
    return [round(float(run(ad.ones(1, 2))), 4) for _ in range(5)]


@row
def gradients_that_were_none(wrap: Wrap) -> Any:
    w = ad.ones(2, requires_grad=True)
    opt = ad.optim.SGD([w], lr=0.1)

    def step(x: Any) -> Any:
        opt.zero_grad()
        (w * x).sum().backward()
        return w.grad.clone()

    run = wrap(step)
    return [shown(run(ad.ones(2))) for _ in range(4)]


@row
def identity_after_reversing(wrap: Wrap) -> Any:
    held = [ad.zeros(1), ad.ones(1)]
    second = held[1]

    def f(x: Any) -> Any:
        held.reverse()
        return x

    run = wrap(f)
    run(ad.ones(1))
    first_time = held[0] is second
    run(ad.ones(1))
    return first_time, held[1] is second


@row
def modules_that_change_places(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(m=nn.Linear(2, 2, bias=False), n=nn.Linear(2, 2, bias=False))
    with ad.no_grad():
        s.m.weight.fill_(1.0)
        s.n.weight.fill_(2.0)

    def f(x: Any) -> Any:
        s.m, s.n = s.n, s.m
        return s.m(x)

    run = wrap(f)
    return [shown(run(ad.ones(1, 2))) for _ in range(4)]


@row
def functions_of_autograd(wrap: Wrap) -> Any:
    scale = [2.0]

    class Square(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * scale[0]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 2 * x * scale[0]

    run = wrap(lambda x: Square.apply(x).sum())
    out = []
    for value in (2.0, 3.0, 4.0):
        scale[0] = value
        x = ad.ones(2, requires_grad=True)
        run(x).backward()
        out.append(shown(x.grad))
    return out


@row
def hooks_of_tensors(wrap: Wrap) -> Any:
    scale = [1.0]
    w = ad.ones(2, requires_grad=True)
    w.register_hook(lambda g: g * scale[0])

    def step(x: Any) -> Any:
        w.grad = None
        (w * x).sum().backward()
        return w.grad.clone()

    run = wrap(step)
    out = []
    for value in (1.0, 5.0, 7.0):
        scale[0] = value
        out.append(shown(run(ad.ones(2))))
    return out


@row
def views_of_leaves_that_are_views(wrap: Wrap) -> Any:
    base = ad.arange(4.0)
    leaf = base[:2].requires_grad_()
    out = []
    for run in (wrap(lambda: leaf[:1]), wrap(lambda: leaf[None][:, 1])):
        for _ in range(2):
            y = run()
            (y * 3).sum().backward()
            out.append((y.requires_grad, y.is_leaf, y.tolist(), leaf.grad.tolist(), y._is_view()))
    argument = wrap(lambda x: x[1:])
    y = argument(leaf)
    (y * 5).sum().backward()
    with ad.no_grad():
        base.mul_(2)
    return [*out, y.requires_grad, y.tolist(), leaf.grad.tolist()]


@row
def views_by_index_tensors(wrap: Wrap) -> Any:
    def written(x: Any, i: Any) -> Any:
        y = x * 1
        v = y[i]
        v.add_(10)
        y[i] += 1
        y[i][1:].mul_(3)
        return y

    def base_written(x: Any, i: Any) -> Any:
        v = x[i]
        x.mul_(2)
        return v + 0

    out = []
    for i in (1, 2):
        x = ad.arange(6.0).reshape(3, 2)
        leaf = ad.ones(3, 2, requires_grad=True)
        y = wrap(written)(leaf, ad.tensor(i))
        (y * y).sum().backward()
        out += [wrap(written)(x, ad.tensor(i)), wrap(base_written)(x, ad.tensor(i)), x]
        out += [y, leaf.grad]
    return [shown(t) for t in out]


@pytest.mark.parametrize("name", ROWS)
def test_state_is_as_without_compile(name: str) -> None:
    assert ROWS[name](lambda f: f) == ROWS[name](ad.compile)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "t_": lambda x: x.t_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x.squeeze_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "resize_": lambda x: x.resize_(2),
    "set_": lambda x: x.set_(x + 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_shapes_of_tensors_are_changed_in_place(name: str) -> None:
    change = CHANGES[name]

    def tell(x: Any, other: Any, out: Any) -> Any:
        return x.tolist(), x.stride(), other.tolist(), out.tolist(), x.requires_grad

    def play(wrap: Wrap) -> list[Any]:
        given, told = wrap(lambda x: change(x) + 0), []
        for _ in range(3):
            x = ad.arange(3.0).reshape(1, 3)
            other = x.detach()
            told.append(tell(x, other, given(x)))
        kept = ad.arange(3.0).reshape(1, 3)
        other = kept.detach()
        state = wrap(lambda: change(kept) + 0)
        told += [tell(kept, other, state()) for _ in range(2)]
        return told

    assert play(ad.compile) == play(lambda fn: fn)
    x = ad.arange(3.0).reshape(1, 3)
    inside = ad.compile(lambda x: change(x * 1) * 2)
    if name not in ("resize_", "set_"):
        assert inside(x).tolist() == (change(x * 1) * 2).tolist()
        detached = ad.compile(lambda x: change(x.detach()) * 2)
        assert detached(x).tolist() == (change(x.detach()) * 2).tolist()
        assert x.shape == (1, 3)


def test_more_memory_than_there_is_cannot_be_recorded() -> None:
    x = ad.arange(3.0)
    with pytest.raises(RuntimeError, match=r"test_compile_state.py:\d+.*resize_ to \[7\]"):
        ad.compile(lambda x: x.resize_(7))(x)
    assert x.tolist() == [0.0, 1.0, 2.0]


ALIASES: dict[str, Callable[[Any, Any], Any]] = {
    "source written": lambda a, b: (a.mul_(2), b)[1],
    "reshape written": lambda a, b: (b.mul_(2), a + 0)[1],
    "through views": lambda a, b: (a[:1].mul_(2), b[:1] + 0)[1],
}


@pytest.mark.parametrize("name", ALIASES)
@pytest.mark.parametrize("again", [lambda a: a.reshape(-1), lambda a: a.contiguous()])
def test_whether_a_reshape_shares_memory_is_not_guessed(name: str, again: Any) -> None:
    def play(x: Any) -> Any:
        a = nn.functional.gelu(x)
        return ALIASES[name](a, again(a))

    def alone(x: Any) -> Any:
        a = again(nn.functional.gelu(x))
        return a.mul_(2)

    x = ad.arange(6.0).reshape(2, 3)
    with pytest.raises(RuntimeError, match=r"test_compile_state.py:\d+.*clone\(\)"):
        ad.compile(play)(x.t())
    ad.testing.assert_close(ad.compile(play)(x), play(x))
    ad.testing.assert_close(ad.compile(alone)(x.t()), alone(x.t()))


SIZES: dict[str, Callable[[Any], Any]] = {
    "in": lambda x: x * 2 if x.shape[0] in {8, 16} else x,
    "bits": lambda x: x * 2 if x.shape[0] & 1 else x,
    "int": lambda x: x * (int(x.shape[0]) % 3),
    "gcd": lambda x: x * math.gcd(x.shape[0], 3),
    "text": lambda x: x * len(str(x.shape[0])),
    "key": lambda x: x * {8: 2.0}.get(x.shape[0], 1.0),
    "loop": lambda x: sum(x[i] * i for i in range(x.shape[0])),
    "returned": lambda x: (x.shape[0], x.shape[0] * 2),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_what_they_are(name: str) -> None:
    fn = SIZES[name]
    run = ad.compile(fn, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (8, 5, 16, 3, 7, 12, 8):
            assert shown(run(ad.ones(n))) == shown(fn(ad.ones(n)))


def test_guards_and_retraces_name_what_changed() -> None:
    config = {"kind": "a"}
    f = ad.compile(lambda x: x * 2 if config["kind"] == "a" else x)
    f(ad.ones(1))
    assert "['kind'] is 'a'" in f.guards()
    assert "test_compile_state.py:" in f.guards()
    config["kind"] = "b"
    f(ad.ones(1))
    assert "was 'a' and is 'b'" in f.recordings()


def test_of_a_large_array_only_what_was_read_counts() -> None:
    big = np.zeros(1 << 20)

    def shape(x: Any) -> Any:
        return x * big.shape[0]

    def element(x: Any) -> Any:
        return x * float(big[5])

    def everything(x: Any) -> Any:
        return x * float(big.sum())

    compiled = [ad.compile(fn) for fn in (shape, element, everything)]
    for changed, traces in ((None, (1, 1, 1)), (7, (1, 1, 2)), (5, (1, 2, 3)), (None, (1, 2, 3))):
        if changed is not None:
            big[changed] += 1
        found = [float(run(ad.ones(1))) for run in compiled]
        assert found == [1 << 20, big[5], big.sum()]
        assert tuple(run.traces for run in compiled) == traces
    held = [guard.value for run in compiled for guard in run.latest.conditions.guards.entries]
    assert all(sys.getsizeof(x) < 1000 for value in held if type(value) is tuple for x in value)


def test_recordings_are_logged_with_their_reasons(caplog: pytest.LogCaptureFixture) -> None:
    config = {"kind": "a"}
    f = ad.compile(lambda x: x * 2 if config["kind"] == "a" else x)
    with caplog.at_level("INFO", "adjoint.compile"):
        f(ad.ones(1))
        assert not caplog.messages
        config["kind"] = "b"
        f(ad.ones(1))
        f(ad.ones(2))
    first, second = caplog.messages
    assert "recorded again (2 recordings)" in first
    assert "['kind'] was 'a' and is 'b'" in first
    assert "test_compile_state.py:" in first
    assert "dimension 0 of x takes the sizes 1, 2" in second


def _in_layout(x: Any, name: str) -> Any:
    """A tensor with the elements of x in another memory layout."""
    if name == "transposed":
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if name == "channels_last":
        return x.contiguous(memory_format=ad.channels_last)
    return ad.stack([x, x], -1)[..., 0] if name == "sliced" else x[:1].expand(x.shape)


LAYOUTS = ("transposed", "channels_last", "sliced", "expanded")
KEEPING: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: x * 2 + 1,
    "two operands": lambda x: x + x.abs(),
    "a bias": lambda x: x + x.new_ones(x.shape[1], 1, 1),
    "comparison": lambda x: x > 1,
    "another type": lambda x: x.to(ad.float64),
    "relu": nn.functional.relu,
    "clone": lambda x: x.clone(),
    "a view of it": lambda x: (x - 1).permute(3, 0, 1, 2),
    "a part of it, off the tape": lambda x: (x - 1)[:, 0].detach(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KEEPING)
def test_results_have_the_strides_of_eager_ones(name: str, layout: str) -> None:
    x = _in_layout(ad.arange(48.0).reshape(2, 3, 2, 4), layout)
    want, got = KEEPING[name](x), ad.compile(KEEPING[name])(x)
    assert got.tolist() == want.tolist()
    assert got.stride() == want.stride()


def _cached_program(seed: int, compiled: bool) -> list[Any]:
    """Calls that ask functions with caches; after each, its result and what the caches counted."""
    draw = random.Random(seed)
    state = {"scale": 1.5}

    @functools.lru_cache(maxsize=draw.choice([0, 1, 2, 3, None]))
    def double(n: int) -> int:
        return n * 2

    @functools.lru_cache(maxsize=2)
    def more(n: int, *, by: int = 1) -> int:
        return double(n) + by

    steps = [[(draw.choice("dm"), draw.randint(0, 3)) for _ in range(4)] for _ in range(2)]

    def fn(x: Any, which: int) -> Any:
        for name, n in steps[which]:
            x = x + (double(n) if name == "d" else more(n, by=n))
        return x * state["scale"]

    run = ad.compile(fn) if compiled else fn
    seen: list[Any] = []
    for _ in range(8):
        seen.append(run(ad.ones(1), draw.randint(0, 1)).item())
        seen += [tuple(double.cache_info()), tuple(more.cache_info())]
        if draw.random() < 0.3:
            double.cache_clear()
        if draw.random() < 0.3:
            double(draw.randint(0, 3))
    return seen


@pytest.mark.filterwarnings("ignore:.*runs as Python again and again")  # caches that are too small
@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_caches_of_functions_count_as_in_python(count: int) -> None:
    for seed in range(count):
        assert _cached_program(seed, True) == _cached_program(seed, False), seed
