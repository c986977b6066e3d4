"""Places a compiled function assigns to: attributes, entries, variables, containers it was given.

Each case is run as it is and compiled; what it gives must be the same.
"""

from __future__ import annotations

import dataclasses
import types
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.tree import flatten

Case = Callable[[Callable[[Any], Any]], list[Any]]
CASES: dict[str, Case] = {}


def case(run: Case) -> Case:
    CASES[run.__name__] = run
    return run


def copied(tree: Any) -> list[Any]:
    """The leaves as they are now."""
    return [x.detach().clone() if isinstance(x, ad.Tensor) else x for x in flatten(tree)[0]]


@case
def attributes_of_an_object(wrap: Any) -> list[Any]:
    it = types.SimpleNamespace(total=ad.zeros(2), before=ad.zeros(2), now=ad.ones(2))

    def step(x: Any) -> Any:
        it.before = it.now
        it.now, it.given, it.part = x * 2, x, x[:1]
        it.total = it.total + x
        return it.total * 2

    run = wrap(step)
    return [copied((run(ad.full((2,), float(i))), dict(vars(it)))) for i in range(4)]


@case
def attributes_that_change_places(wrap: Any) -> list[Any]:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = ad.zeros(2), ad.ones(2)

        def forward(self, x: Any) -> Any:
            self.a, self.b = self.b, self.a + x
            return self.a * 1

    net = Pair()
    run = wrap(net)
    return [copied((run(ad.full((2,), float(i))), net.a, net.b)) for i in range(4)]


@case
def averages_in_a_dict(wrap: Any) -> list[Any]:
    net = nn.Linear(2, 1)
    opt = ad.optim.SGD(net.parameters(), lr=0.1)
    average = {name: p.detach().clone() for name, p in net.named_parameters()}

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        for name, p in net.named_parameters():
            average[name] = 0.9 * average[name] + 0.1 * p.detach()
        return loss

    run = wrap(step)
    return [copied((run(ad.full((3, 2), 0.5 * i)), average)) for i in range(4)]


@case
def what_a_hook_keeps(wrap: Any) -> list[Any]:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    seen: dict[str, Any] = {}
    net[1].register_forward_hook(lambda module, args, out: seen.update(hidden=out))
    run = wrap(lambda x: net(x).sum() + seen["hidden"].sum())
    return [copied((run(ad.full((3, 2), 0.5 * i)), seen)) for i in range(3)]


TOTAL: Any = None


@case
def variables(wrap: Any) -> list[Any]:
    global TOTAL
    TOTAL, last, slots = ad.zeros(()), None, [None, ad.ones(2)]

    def step(x: Any) -> Any:
        global TOTAL
        nonlocal last
        TOTAL, last = TOTAL + x.sum(), x * 2
        slots[0], slots[1] = x + 1, slots[1] * x
        return x

    run = wrap(step)
    return [copied((run(ad.full((2,), float(i))), TOTAL, last, slots)) for i in range(4)]


@dataclasses.dataclass
class Batch:
    x: Any
    made: Any = dataclasses.field(init=False, default=None)
    factor: dataclasses.InitVar[float] = 2.0

    def __post_init__(self, factor: float) -> None:
        self.kept = factor


@case
def containers_that_were_given(wrap: Any) -> list[Any]:
    def step(batch: Any) -> Any:
        batch["mask"] = batch["x"] > 1
        label = batch.pop("label")
        batch["list"].append(batch["x"] * 2)
        batch["list"][0] = batch["list"][0] + 1
        batch["inner"]["label"] = label
        batch["count"] += 1
        return batch["x"].sum() + label

    run, out = wrap(step), []
    for i in range(3):
        batch = {"x": ad.full((2,), float(i)), "label": ad.ones(()), "count": 3}
        batch |= {"list": (held := [ad.zeros(1)]), "inner": {}}
        out += [*copied((run(batch), batch)), list(batch), batch["list"] is held]
    return out


@case
def dataclasses_as_they_are(wrap: Any) -> list[Any]:
    def step(batch: Batch) -> Batch:
        batch.made = batch.x * batch.kept
        again = Batch(batch.made + 1, 5.0)
        again.made = batch.x
        return again

    run, out = wrap(step), []
    for i in range(3):
        batch = Batch(ad.full((2,), float(i)), 3.0)
        again = run(batch)
        out += [*copied((batch, again)), again.kept]
    return out


@case
def other_containers(wrap: Any) -> list[Any]:
    def step(table: Any, line: Any) -> Any:
        table["new"].append(line[0] * 2)
        line.append(line[-1] + 1)
        return defaultdict(list, a=line[0] * 3), deque([line[-1]], 4)

    run, out = wrap(step), []
    for i in range(3):
        table: Any = defaultdict(list)
        line = deque([ad.full((2,), float(i)), ad.ones(2)], 2)
        made, ends = run(table, line)
        out += [*copied((table, line, made, ends)), made["missing"], ends.maxlen, len(line)]
    return out


@case
def a_state_in_a_container(wrap: Any) -> list[Any]:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(2, 3)
            self.hidden: Any = None
            self.seen: dict[str, Any] = {}

        def forward(self, x: Any) -> Any:
            out, hidden = self.layer(x, self.hidden)
            self.hidden = tuple(h.detach() for h in hidden)
            self.seen = {"mean": out.mean(), "parts": [out[0], "first"]}
            return out

    net = Recurrent()
    run, out = wrap(net), []
    for i in range(5):
        if i == 3:
            net.hidden = None
        out += copied((run(ad.full((1, 2, 2), 0.1 * i)), net.hidden, net.seen))
    return out


@case
def a_pair_that_turns(wrap: Any) -> list[Any]:
    it = types.SimpleNamespace(pair=(ad.zeros(2), ad.ones(2)), all=[])

    def step(x: Any) -> Any:
        a, b = it.pair
        it.pair = (b, a + x)
        it.all = [*it.all, x * 2]
        return a * 1

    run = wrap(step)
    return [copied((run(ad.full((2,), float(i))), it.pair, it.all)) for i in range(4)]


@case
def flags(wrap: Any) -> list[Any]:
    class ActNorm(nn.Module):
        started = False

        def __init__(self) -> None:
            super().__init__()
            self.ready, self.mode = False, None
            self.shift = nn.Parameter(ad.zeros(2))

        def forward(self, x: Any) -> Any:
            if not self.ready:
                with ad.no_grad():
                    self.shift.copy_(-x.mean(0))
                self.ready, self.mode = True, "trained"
                ActNorm.started = True
            return x + self.shift

    net = ActNorm()
    run, out = wrap(net), []
    for i in range(5):
        if i == 3:
            net.ready = False
        out += copied((run(ad.full((2, 2), float(i))), net.shift, net.ready, net.mode))
    return [*out, ActNorm.started]


@case
def entries_that_come_and_go(wrap: Any) -> list[Any]:
    first, held = True, {"once": "x", "kept": [1, 2]}

    def step(x: Any, key: str) -> Any:
        nonlocal first
        factor = 3 if held.pop("once", None) else 2
        held[key], held["kept"] = True, [1, 2]
        offset, first = float(first), False
        return x * factor + len(held) + offset

    run = wrap(step)
    return [copied((run(ad.ones(2), key), first, dict(held))) for key in "aabba"]


@case
def a_module_left_in_another_mode(wrap: Any) -> list[Any]:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))

    def score(x: Any) -> Any:
        net.eval()
        return net(x)

    run, out = wrap(score), []
    for i in range(4):
        out += copied((run(ad.ones(2, 2)), net.training, net[1].training))
        net.train(i % 2 == 0)
    return out


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name: str) -> None:
    results = []
    for wrap in (lambda f: f, ad.compile):
        ad.manual_seed(0)
        results.append(flatten(CASES[name](wrap)))
    (want, shape), (got, same_shape) = results
    assert shape == same_shape
    for a, b in zip(want, got, strict=True):
        if isinstance(a, ad.Tensor):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6)
        else:
            assert a == b


def test_a_tensor_that_was_replaced_stays_as_it_is() -> None:
    start = ad.zeros(2)
    it = types.SimpleNamespace(state=start)
    step = ad.compile(lambda x: setattr(it, "state", it.state + x))
    for _ in range(2):
        it.state = start
        for _ in range(3):
            step(ad.ones(2))
        assert it.state.tolist() == [3, 3]
        assert start.tolist() == [0, 0]
    assert step.traces == 1  # the state is read at each call


def test_a_call_that_fails_assigns_nothing() -> None:
    it = types.SimpleNamespace(count=ad.zeros(()))

    def step(batch: dict[str, Any]) -> Any:
        it.count = it.count + 1
        it.last = batch["made"] = batch["at"] * 2
        return ad.arange(3)[batch["at"]]

    run = ad.compile(step)
    for good in range(4):
        kept = dict(vars(it))
        values = copied(kept)
        batch = {"at": ad.tensor([7])}
        with pytest.raises(IndexError):
            run(batch)
        assert list(batch) == ["at"]
        assert dict(vars(it)) == kept
        assert [x.tolist() for x in copied(kept)] == [x.tolist() for x in values]
        run({"at": ad.tensor([1])})
        assert it.count.item() == good + 1


@pytest.mark.parametrize("fails_in", ["recording", "program"])
def test_a_first_step_that_fails_leaves_no_state(fails_in: str) -> None:
    """A buffer of zeros is no buffer at all: the first step of momentum takes no dampening."""
    results = []
    for wrap in (lambda f: f, ad.compile):
        w = ad.ones(2, requires_grad=True)
        opt = ad.optim.SGD([w], lr=0.1, momentum=0.9, dampening=0.5)

        def step(at: Any, fail: bool, w: Any = w, opt: Any = opt) -> Any:
            opt.zero_grad()
            (w * w).sum().backward()
            opt.step()
            if fail:
                w.sum().item()
            return ad.arange(3)[at]

        run = wrap(step)
        if wrap is ad.compile:
            with pytest.raises((IndexError, CaptureError)):
                run(ad.tensor([7]), fails_in == "recording")
            assert not opt.state
            assert w.grad is None
        for _ in range(3):
            run(ad.tensor([1]), False)
        results.append(w.tolist())
    np.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.parametrize("kind", [lambda x: types.SimpleNamespace(x=x), lambda x: {x}])
def test_results_that_hold_a_tensor_are_made_anew(kind: Any) -> None:
    f = ad.compile(lambda x: kind(x * 2))
    first, second = f(ad.ones(2)), f(ad.zeros(2))
    assert type(first) is type(second)
    held = [next(iter(r if isinstance(r, set) else vars(r).values())) for r in (first, second)]
    assert [t.tolist() for t in held] == [[2, 2], [0, 0]]


def test_formatting_a_number_that_is_not_known() -> None:
    with pytest.raises(RuntimeError, match=r"test_compile_places.py:\d+.*it is not known"):
        ad.compile(lambda x: len(f"{x.sum():.2f}"))(ad.ones(2))


@dataclasses.dataclass
class WrittenInto:
    w: Any


def _write_key(p: Any, x: Any) -> Any:
    p["w"] = p["w"] * 3
    return (p["w"] * x).sum()


def _write_deeper(p: Any, x: Any) -> Any:
    p["inner"]["w"] = p["inner"]["w"] * 3
    p["inner"] = {"w": p["inner"]["w"] * x}
    return p["inner"]["w"].sum()


def _write_element(p: Any, x: Any) -> Any:
    p[0] = p[0] * 3
    p.append(p[0] * 2)
    return (p[0] * x * p[1]).sum()


def _write_attribute(p: Any, x: Any) -> Any:
    p.w = p.w * 3
    return (p.w * x).sum()


_WRITERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "dict": (lambda w: {"w": w}, _write_key),
    "defaultdict": (lambda w: defaultdict(int, w=w), _write_key),
    "nested dicts": (lambda w: {"inner": {"w": w}}, _write_deeper),
    "list": (lambda w: [w], _write_element),
    "dataclass": (WrittenInto, _write_attribute),
}
_TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": ad.func.grad,
    "vjp": lambda f: lambda p, x: ad.func.vjp(f, p, x)[1](ad.tensor(1.0)),
    "jvp": lambda f: lambda p, x: ad.func.jvp(f, (p, x), (p, x)),
    "vmap": ad.func.vmap,
    "hessian": lambda f: ad.func.hessian(lambda p, x: f(p, x) ** 2),
}


@pytest.mark.parametrize(
    ("kind", "transform"),
    [*[(kind, "grad") for kind in _WRITERS], *[("dict", name) for name in _TRANSFORMS][1:]],
)
def test_what_a_transform_makes_is_the_functions_own(kind: str, transform: str) -> None:
    make, f = _WRITERS[kind]
    plain = _TRANSFORMS[transform](f)
    compiled = ad.compile(plain)
    for i in range(3):
        x, w = ad.arange(3.0) + i, ad.arange(1.0, 4.0)
        given = make(w)
        got, want = flatten(compiled(given, x))[0], flatten(plain(make(w), x))[0]
        assert flatten(given)[0] == [w]  # the caller's stays as it is
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    assert compiled.traces == 1


@pytest.mark.parametrize("fullgraph", [True, False])
def test_recording_anew_comes_to_an_end(fullgraph: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the cause: here, each recording is said to show a place that was not known."""
    compiled = ad.compile(lambda x: x + 1, fullgraph=fullgraph)
    known = iter(range(1_000_000))
    monkeypatch.setattr(compiled, "_known_places", lambda: (next(known), 0))
    x = ad.arange(3.0)
    if fullgraph:
        with pytest.raises(CaptureError, match="was recorded 32 times for one call"):
            compiled(x)
    else:
        assert compiled(x).tolist() == [1.0, 2.0, 3.0]
    monkeypatch.undo()
    assert compiled(x).tolist() == [1.0, 2.0, 3.0]
