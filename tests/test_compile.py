"""compile: what may be compiled, how it is called, when it is recorded again."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.norm = nn.BatchNorm1d(2)
        self.scale = 1.0

    def forward(self, x: Any) -> Any:
        return self.norm(self.layers(x)) * self.scale


# -- what may be compiled ------------------------------------------------------------------------


def test_decorator_forms() -> None:
    @ad.compile
    def f(x: Any) -> Any:
        """Doubles."""
        return x * 2

    @ad.compile(mode="default", backend="interpret")
    def g(x: Any) -> Any:
        return x * 3

    assert f.__name__ == "f"
    assert f.__doc__ == "Doubles."
    same(f(ad.ones(2)), ad.full((2,), 2.0))
    same(g(ad.ones(2)), ad.full((2,), 3.0))
    plain = ad.compile(lambda x: x, disable=True)
    assert not hasattr(plain, "traces")


def test_bad_arguments_of_compile() -> None:
    with pytest.raises(TypeError, match="by name"):
        ad.compile(3)
    with pytest.raises(TypeError, match="instance of it"):
        ad.compile(Net)
    with pytest.raises(RuntimeError, match="no backend 'nope'.*interpret"):
        ad.compile(lambda x: x, backend="nope")
    with pytest.raises(RuntimeError, match="unrecognized mode"):
        ad.compile(lambda x: x, mode="fastest")


def test_methods_keep_to_their_instances() -> None:
    class Counter:
        def __init__(self, step: float) -> None:
            self.step = step
            self.total = ad.zeros(2)

        @ad.compile
        def add(self, x: Any) -> Any:
            self.total += x * self.step
            return self.total.clone()

    a, b = Counter(1.0), Counter(10.0)
    for _ in range(2):
        a.add(ad.ones(2))
        b.add(ad.ones(2))
    same(a.total, ad.full((2,), 2.0))
    same(b.total, ad.full((2,), 20.0))
    assert a.add.traces == b.add.traces == 1
    a.step = 5.0
    same(a.add(ad.ones(2)), ad.full((2,), 7.0))
    c = copy.deepcopy(a)
    same(c.add(ad.ones(2)), ad.full((2,), 12.0))
    same(a.total, ad.full((2,), 7.0))


def test_a_compiled_forward_method() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(ad.ones(3))

        @ad.compile
        def forward(self, x: Any) -> Any:
            return x * self.w * 2

    layer = Twice()
    for _ in range(3):
        layer(ad.ones(3)).sum().backward()
    same(layer.w.grad, ad.full((3,), 6.0))
    assert layer.forward.traces == 1
    again = copy.deepcopy(layer)
    same(again(ad.ones(3)), ad.full((3,), 2.0))


def test_a_bound_method() -> None:
    net = Net().eval()
    f = ad.compile(net.forward)
    x = ad.randn(5, 3)
    same(f(x), net(x))


def test_a_callable_object() -> None:
    class Power:
        def __init__(self) -> None:
            self.exponent = 2

        def __call__(self, x: Any) -> Any:
            return x**self.exponent

    power = Power()
    f = ad.compile(power)
    same(f(ad.full((2,), 3.0)), ad.full((2,), 9.0))
    power.exponent = 3
    same(f(ad.full((2,), 3.0)), ad.full((2,), 27.0))


def test_nested_compiled_functions_are_one_program() -> None:
    inner = ad.compile(lambda x: x.sin())
    outer = ad.compile(lambda x: inner(x) * 2)
    same(outer(ad.ones(3)), ad.ones(3).sin() * 2)
    assert inner.traces == 0
    assert [n.record.name for n in outer.latest.graph] == ["sin", "mul"]


# -- modules ------------------------------------------------------------------------------------


def test_a_compiled_module_is_the_module() -> None:
    net = Net()
    compiled = ad.compile(net)
    assert isinstance(compiled, Net)
    assert type(compiled).__name__ == "Net"
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert all(a is b for a, b in zip(compiled.parameters(), net.parameters(), strict=True))
    assert repr(compiled) == repr(net)
    compiled.eval()
    assert not net.training
    compiled.scale = 3.0
    assert net.scale == 3.0
    x = ad.randn(5, 3)
    same(compiled(x), net(x))
    net.layers[0] = nn.Linear(3, 4)
    same(compiled(x), net(x))


def test_training_through_a_compiled_module() -> None:
    results = []
    for wrap in (lambda m: m, ad.compile):
        ad.manual_seed(0)
        net = Net()
        model = wrap(net)
        opt = ad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for i in range(4):
            x = ad.arange(15.0).view(5, 3) / 10 + i
            loss = F.mse_loss(model(x), ad.ones(5, 2))
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        results.append([loss, model(x), *net.parameters(), *net.buffers()])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_hooks_of_a_compiled_module() -> None:
    net = nn.Linear(3, 3)
    compiled = ad.compile(net)
    x = ad.ones(2, 3)
    before = compiled(x)
    handle = compiled.register_forward_hook(lambda module, args, out: out * 2)
    same(compiled(x), before * 2)
    handle.remove()
    same(compiled(x), before)


def test_module_compile_in_place() -> None:
    net = Net()
    x = ad.randn(5, 3)
    want = copy.deepcopy(net)(x)
    net.compile()
    assert type(net) is Net
    same(net(x), want)
    assert net._compiled_call_impl.traces == 1
    other = copy.deepcopy(net)
    assert other._compiled_call_impl is None
    nn.Sequential(net, nn.ReLU())(x).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_copies_and_pickles_of_compiled_modules() -> None:
    compiled = ad.compile(nn.Linear(3, 2))
    x = ad.randn(4, 3)
    want = compiled(x)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert isinstance(other, nn.Linear)
        assert other.weight is not compiled.weight
        same(other(x), want)
        with ad.no_grad():
            other.weight.zero_()
            other.bias.zero_()
        same(other(x), ad.zeros(4, 2))
    same(compiled(x), want)


def test_what_a_compiled_module_says_of_its_program() -> None:
    net = ad.compile(nn.Linear(3, 2))
    with pytest.raises(RuntimeError, match="not been called yet"):
        net.graph  # noqa: B018
    net(ad.ones(4, 3))
    net(ad.ones(5, 3))
    assert net.traces == 2
    assert net.explain()
    text = net.recordings()
    assert "recorded because dimension 0 of input takes the sizes 4, 5" in text
    assert "2 states, 1 argument" in text
    assert "backward of" in text
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        net.nothing  # noqa: B018


@ad.compile
def doubled(x: Any) -> Any:
    return x * 2


def test_pickles_of_compiled_functions() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(ad.compile(lambda x: x))


def test_recordings_are_bounded_and_can_be_forgotten() -> None:
    f = ad.compile(lambda x, name: x + len(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(70):
            same(f(ad.zeros(1), "a" * i), ad.full((1,), float(i)))
    assert sum(map(len, f.programs.values())) <= 64
    ad.compiler.reset()
    assert not f.programs
    same(f(ad.zeros(1), "abc"), ad.full((1,), 3.0))


def test_compiling_twice_compiles_once() -> None:
    net = nn.Linear(3, 2)
    again = ad.compile(ad.compile(net))
    assert again._orig_mod is net
    assert isinstance(again, ad._dynamo.OptimizedModule)
    assert not isinstance(net, ad._dynamo.OptimizedModule)
    f = ad.compile(ad.compile(lambda x: x + 1))
    same(f(ad.zeros(2)), ad.ones(2))
    assert f.traces == 1


class Slotted(nn.Module):
    __slots__ = ("scale",)

    def __init__(self) -> None:
        super().__init__()
        self.scale = 3.0

    def forward(self, x: Any) -> Any:
        return x * self.scale


@pytest.mark.parametrize("kind", [Slotted, nn.ReLU])
def test_a_compiled_module_may_become_that_of_another(kind: Any) -> None:
    net, x = nn.Linear(2, 2), ad.tensor([[-1.0, 2.0]])
    compiled = ad.compile(nn.Sequential(net))
    compiled._orig_mod = compiled._orig_mod
    same(compiled(x), net(x))
    compiled._orig_mod = net
    assert isinstance(compiled, nn.Linear)
    assert compiled.weight is net.weight
    assert not net._modules
    same(compiled(x), net(x))
    other = kind()
    same(ad.compile(other)(x), other(x))


# -- arguments and results ----------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Batch:
    image: Any
    label: Any
    name: str = "batch"


def test_nested_arguments_and_results() -> None:
    @ad.compile
    def f(batch: Batch, pair: Pair, *rest: Any, scale: float, extra: Any = None) -> Any:
        total = batch.image * scale + pair.first["x"] + sum(r.sum() for r in rest)
        return {"total": total, "pair": Pair(pair.second, [total, None, batch.name])}

    for i in range(3):
        batch = Batch(ad.ones(2) * i, ad.zeros(2))
        out = f(batch, Pair({"x": ad.ones(2)}, ad.arange(3.0)), ad.ones(2), ad.ones(1), scale=2.0)
        same(out["total"], ad.full((2,), 2.0 * i + 4))
        assert isinstance(out["pair"], Pair)
        assert out["pair"].second[0] is out["total"]
        assert out["pair"].second[1:] == [None, "batch"]
    assert f.traces == 1
    f(batch, Pair({"x": ad.ones(2)}, ad.arange(3.0)), ad.ones(2), ad.ones(1), scale=3.0)
    assert f.traces == 2


def test_dataclass_results() -> None:
    f = ad.compile(lambda x: Batch(x * 2, x + 1, name="made"))
    out = f(ad.ones(2))
    assert isinstance(out, Batch)
    assert out.name == "made"
    same(out.image, ad.full((2,), 2.0))


def test_arguments_that_cannot_be_hashed_are_named() -> None:
    f = ad.compile(lambda x, options: x)
    named = (
        r"args\[1\]\['a'\] is a bytearray, which cannot be hashed.* at test_compile.py:\d+.*b'ab'"
    )
    with pytest.raises(TypeError, match=named):
        f(ad.ones(2), {"a": bytearray(b"ab")})
    with pytest.raises(TypeError, match="is a ndarray.*as_tensor"):
        f(np.array(["a"]), {})


def test_windows_and_roots_share_a_program() -> None:
    f = ad.compile(lambda x: x + 1)
    same(f(ad.zeros(3)), ad.ones(3))
    same(f(ad.arange(6.0).view(2, 3)[1]), ad.tensor([4.0, 5.0, 6.0]))
    assert f.traces == 1


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.detach() * 2,
        lambda x: x.data * 2,
        lambda x: x.clone().mul_(2),
        lambda x: x[0].detach(),
    ],
)
def test_aliases_of_arguments_are_followed(fn: Any) -> None:
    f = ad.compile(fn)
    for i in range(3):
        x = ad.full((2, 2), float(i))
        same(f(x), fn(x))
    assert f.traces == 1


def test_complex_states_are_copied() -> None:
    a, b = ad.zeros(2, dtype=ad.complex64), ad.tensor([1 + 2j, 3j])

    @ad.compile
    def swap(x: Any) -> Any:
        held = a.clone()
        a.copy_(b)
        b.copy_(held)
        return x.clone()

    for _ in range(3):
        same(swap(ad.tensor([5j])), ad.tensor([5j]))
    same(a, ad.tensor([1 + 2j, 3j]))
    same(b, ad.zeros(2, dtype=ad.complex64))


def test_an_alias_handed_back_is_the_calls_own() -> None:
    f = ad.compile(lambda x: x.detach())
    f(ad.ones(2))
    x = ad.zeros(2)
    out = f(x)
    assert out is not x
    out.add_(5)
    same(x, ad.full((2,), 5.0))


# -- recording again ----------------------------------------------------------------------------


def tiny_step() -> tuple[nn.Module, Any, Any]:
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    opt = ad.optim.AdamW(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return net, opt, step


def swap_parameter(net: Any, opt: Any) -> None:
    net[0].weight = nn.Parameter(ad.ones(4, 3))
    opt.param_groups[0]["params"][0] = net[0].weight


CHANGES: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "replaced parameter": (swap_parameter, True),
    "assigned state dict": (
        lambda net, opt: net.load_state_dict(copy.deepcopy(net.state_dict()), assign=True),
        True,
    ),
    "loaded state dict": (
        lambda net, opt: net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()}),
        False,
    ),
    "new submodule": (lambda net, opt: net.append(nn.Tanh()), True),
    "eval": (lambda net, opt: net.eval(), True),
    "frozen": (lambda net, opt: net[0].requires_grad_(False), True),
    "changed attribute": (lambda net, opt: setattr(net[1], "p", 0.25), True),
    "parameter data": (lambda net, opt: setattr(net[0].weight, "data", ad.ones(4, 3)), True),
    "hook on a leaf": (lambda net, opt: net[0].weight.register_hook(lambda g: g * 2), True),
    "hook before a step": (
        lambda net, opt: opt.register_step_pre_hook(
            lambda opt, args, kwargs: setattr(net[0].weight, "grad", net[0].weight.grad * 3)
        ),
        True,
    ),
    "hook after a step": (
        lambda net, opt: opt.register_step_post_hook(
            lambda opt, args, kwargs: net[0].weight.data.mul_(0.5)
        ),
        True,
    ),
    "learning rate": (lambda net, opt: opt.param_groups[0].update(lr=0.01), False),
    "learning rate as a tensor": (
        lambda net, opt: dict.update(opt.param_groups[0], lr=ad.tensor(0.01)),
        True,
    ),
    "betas": (lambda net, opt: dict.update(opt.param_groups[0], betas=(0.5, 0.9)), False),
    "eps": (lambda net, opt: dict.update(opt.param_groups[0], eps=0.1), True),
    "maximize": (lambda net, opt: dict.update(opt.param_groups[0], maximize=True), True),
    "optimizer state": (lambda net, opt: opt.load_state_dict(opt.state_dict()), True),
    "one step count": (
        lambda net, opt: opt.state[net[0].weight]["step"].add_(5),
        True,
    ),
    "all step counts": (
        lambda net, opt: [s["step"].add_(5) for s in opt.state.values()],
        False,
    ),
    "elements": (lambda net, opt: net[0].weight.data.add_(1), False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name: str) -> None:
    change, retraces = CHANGES[name]
    results = []
    for wrap in (lambda f: f, ad.compile):
        ad.manual_seed(0)
        net, opt, step = tiny_step()
        run = wrap(step)
        x = ad.arange(6.0).view(2, 3) / 5
        for _ in range(3):
            run(x)
        if wrap is ad.compile:
            assert run.traces == 1
        change(net, opt)
        losses = [run(x), run(x)]
        if wrap is ad.compile:
            assert (run.traces > 1) == retraces
        results.append([*losses, *net.parameters(), *[p.grad for p in net.parameters()]])
    for a, b in zip(*results, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)


SCALE = 2.0


def test_globals_cells_and_modes_are_seen() -> None:
    global SCALE
    offset = 1.0
    table = {"power": 2}

    @ad.compile
    def f(x: Any) -> Any:
        return (x * SCALE + offset) ** table["power"]

    x = ad.ones(2, requires_grad=True)
    same(f(x), ad.full((2,), 9.0))
    SCALE = 3.0
    same(f(x), ad.full((2,), 16.0))
    offset = 2.0
    same(f(x), ad.full((2,), 25.0))
    table["power"] = 1
    same(f(x), ad.full((2,), 5.0))
    with ad.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad
    with ad.autocast("cpu", dtype=ad.bfloat16):
        g = ad.compile(lambda a: a @ a)
        assert g(ad.ones(2, 2)).dtype is ad.bfloat16
    assert g(ad.ones(2, 2)).dtype is ad.float32
    h = ad.compile(lambda: ad.zeros(2) + 1.0)
    assert h().dtype is ad.float32
    ad.set_default_dtype(ad.float64)
    try:
        assert h().dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)
    SCALE = 2.0


def test_gradients_present_or_not() -> None:
    w = ad.ones(2, requires_grad=True)

    @ad.compile
    def accumulate(x: Any) -> None:
        (w * x).sum().backward()

    for _ in range(3):
        accumulate(ad.ones(2))
    same(w.grad, ad.full((2,), 3.0))
    assert accumulate.traces == 2
    w.grad = None
    accumulate(ad.ones(2))
    same(w.grad, ad.ones(2))
    assert accumulate.traces == 2


def test_many_recordings_warn_once_and_name_the_dimension() -> None:
    for f, why in (
        (ad.compile(lambda x, y: x.sum() + y, dynamic=False), "dynamic=False was asked for"),
        (ad.compile(lambda x, y: sum(x) + y), "parts here"),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for n in range(2, 14):
                f(ad.ones(n, 3), 1.0)
        assert len(caught) == 1
        text = str(caught[0].message)
        assert "dimension 0 of x takes the sizes 2, 3, 4" in text
        assert "Each size is recorded by itself: " in text
        assert why in text


def test_many_recordings_for_another_reason() -> None:
    class Host:
        count = 0

    host = Host()
    host.count = 0
    f = ad.compile(lambda x: x + len(str(host.count)))  # text of a number needs the number
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(12):
            host.count += 1
            f(ad.ones(2))
    assert len(caught) == 1
    assert "count" in str(caught[0].message)


# -- failures -----------------------------------------------------------------------------------


def test_an_exception_in_a_call_changes_nothing() -> None:
    ad.manual_seed(0)
    net = nn.Sequential(nn.Embedding(4, 3), nn.Dropout(0.5), nn.Linear(3, 1))
    opt = ad.optim.Adam(net.parameters(), lr=0.1)

    @ad.compile
    def step(i: Any) -> Any:
        loss = net(i).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    step(ad.tensor([0, 1]))

    def state() -> list[Any]:
        held = [*net.parameters(), *[p.grad for p in net.parameters()]]
        held += [t for s in opt.state.values() for t in s.values()]
        return [t.detach().clone() for t in held] + [ad.get_rng_state()]

    before = state()
    for bad in (ad.tensor([0, 9]), ad.tensor([0, 9, 1])):  # replayed, and in its first call
        with pytest.raises(IndexError):
            step(bad)
        for a, b in zip(before, state(), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    step(ad.tensor([0, 1]))


# -- threads ------------------------------------------------------------------------------------


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(i: int) -> None:
        try:
            barrier.wait()
            work(i)
        except BaseException as error:  # reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors


def test_concurrent_first_calls_record_once() -> None:
    net = Net().eval()
    f = ad.compile(lambda x: net(x))
    xs = [ad.full((5, 3), float(i)) for i in range(4)]
    outs: list[Any] = [None] * 4

    def work(i: int) -> None:
        for _ in range(5):
            outs[i] = f(xs[i])

    in_threads(work)
    assert f.traces == 1
    for x, out in zip(xs, outs, strict=True):
        same(out, net(x))


def test_concurrent_steps_are_all_carried_out() -> None:
    total = ad.zeros(3)

    @ad.compile
    def add(x: Any) -> Any:
        total.add_(x)
        return total.sum()

    in_threads(lambda i: [add(ad.ones(3)) for _ in range(20)])
    same(total, ad.full((3,), 80.0))
    assert add.traces == 1


def test_what_concurrent_first_calls_replace_is_read_under_their_lock() -> None:
    held = {"total": ad.zeros(1)}
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for turn in range(1, 5):

            @ad.compile
            def add(x: Any) -> None:
                held["total"] = held["total"] + x

            in_threads(lambda i, add=add: [add(ad.ones(1)) for _ in range(50)], 5)
            assert held["total"].item() == turn * 250
    finally:
        sys.setswitchinterval(interval)


def test_recording_in_one_thread_leaves_another_alone() -> None:
    w = ad.ones(3, requires_grad=True)

    @ad.compile
    def step(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        w.grad = None
        return loss.detach()

    def work(i: int) -> None:
        for n in range(2, 6):
            if i % 2:
                assert float(step(ad.ones(n, 3))) == 3.0 * n
            else:
                assert float(step(ad.ones(3))) == 3.0

    in_threads(work)


@pytest.mark.parametrize("kind", [list, deque, set])
def test_a_tensor_is_appended_at_each_call(kind: Any) -> None:
    losses = kind([1.0])

    def step(x: Any) -> Any:
        getattr(losses, "append", getattr(losses, "add", None))(x.sum())  # type: ignore[misc]
        return x * 2

    compiled = ad.compile(step)
    for n in (1.0, 2.0, 3.0):
        compiled(ad.full((3,), n))
    kept = sorted(float(x) for x in losses if isinstance(x, ad.Tensor))
    assert kept == [3.0, 6.0, 9.0]
    assert compiled.traces == 1


BATCHES = (n for n in [1.0, 2.0, 3.0])  # nobody can look ahead in a generator
NUMBERS = np.random.default_rng(0)
MOVING: dict[str, Callable[[Any], Any]] = {
    "next": lambda x: x * next(BATCHES),
    "a loop": lambda x: [x * n for n in BATCHES],
}
DRAWN: dict[str, Callable[[Any], Any]] = {
    "random": lambda x: x * random.random(),
    "a function of random's": lambda x: x * random.uniform(2.0, 3.0),
    "numpy": lambda x: x * float(np.random.rand()),
    "a generator": lambda x: x * NUMBERS.random(),
}


@pytest.mark.parametrize("name", MOVING)
def test_generators_from_outside_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"generator from outside.*test_compile.py:\d+"):
        ad.compile(MOVING[name])(ad.ones(2))
    if name == "next":
        assert next(BATCHES) == 1.0


@pytest.mark.parametrize("name", DRAWN)
def test_numbers_are_drawn_at_each_call(name: str) -> None:
    results = []
    for wrap in (lambda fn: fn, ad.compile):
        random.seed(3)
        np.random.seed(3)
        NUMBERS.bit_generator.state = np.random.default_rng(5).bit_generator.state
        fn: Any = wrap(DRAWN[name])
        results.append([fn(ad.ones(2)).tolist() for _ in range(4)])
    np.testing.assert_allclose(*results, rtol=1e-6)
    assert fn.traces == 1


def test_what_a_drawn_number_decides() -> None:
    def fn(x: Any) -> Any:
        return x * 2 if random.random() < 0.5 else x * random.randint(1, 6)

    results = []
    for wrap in (lambda fn: fn, ad.compile):
        random.seed(3)
        run: Any = wrap(fn)
        results.append([*[run(ad.ones(2)).tolist() for _ in range(8)], random.random()])
    assert results[0] == results[1]
    assert run.traces < 8


def test_numbers_that_settle_are_carried() -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.longest, self.table = 0, ad.zeros(0)

        def forward(self, x: Any) -> Any:
            if x.shape[0] > self.longest:
                self.longest = x.shape[0]
                self.table = ad.cos(ad.arange(float(self.longest)))
            return x * self.table[: x.shape[0]]

    plain, net = Rotary(), Rotary()
    run = ad.compile(net)
    for n in (3, 3, 5, 4, 5, 3):
        assert run(ad.ones(n)).allclose(plain(ad.ones(n)))
        assert net.longest == plain.longest


def test_hooks_of_all_modules_are_seen() -> None:
    net = nn.Linear(2, 1)
    run = ad.compile(lambda x: net(x))
    before = run(ad.ones(1, 2))
    with nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 2):
        assert run(ad.ones(1, 2)).equal(before * 2)
    assert run(ad.ones(1, 2)).equal(before)


def test_a_list_of_the_functions_own_may_grow() -> None:
    def stack(x: Any) -> Any:
        parts = [x]
        parts.append(x * 2)
        return ad.stack(parts).sum(0)

    assert ad.compile(stack)(ad.ones(2)).tolist() == [3, 3]


def test_generators_are_refused() -> None:
    def parts(x: Any) -> Any:
        yield x * 2

    with pytest.raises(TypeError, match="parts is a generator or coroutine"):
        ad.compile(parts)
