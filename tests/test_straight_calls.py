"""Straight calls, and the native code in them, do what the way of every program does."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.program import banks, filling
from adjoint.engine.backends.llvm.runtime.fitting import make_fits
from adjoint.engine.capture.signature import Arguments
from adjoint.engine.capture.tensors.looks import hooks_of
from adjoint.engine.core.state.context import INFERENCE_VERSION
from adjoint.nn import functional as F

SHAPES = ((), (3,), (2, 3), (4, 1, 2), (0, 3))
DTYPES = (ad.float32, ad.float64, ad.int64, ad.bool)


# -- the test of arguments ------------------------------------------------------------------------


def some_tensor(draw: random.Random) -> Any:
    return ad.zeros(draw.choice(SHAPES), dtype=draw.choice(DTYPES))


def otherwise(draw: random.Random, x: Any, others: list[Any]) -> Any:
    """An argument in the place of another: like it, the same, or different in one way."""
    if not isinstance(x, ad.Tensor):
        return draw.choice([x, type(x)(x), x + x, 2.5, None, ad.ones(2)])
    if x.ndim == 0 or draw.random() < 0.3:
        return draw.choice([ad.zeros_like(x), some_tensor(draw), x[...], x.detach(), 1, "x"])
    hooked = ad.zeros(x.shape)
    flagged = hooked.clone().requires_grad_()
    hooked.requires_grad_().register_hook(lambda g: g)
    read = ad.zeros_like(x)
    read._storage.version = INFERENCE_VERSION
    base = np.zeros((3, *x.shape))
    ways: list[Callable[[], Any]] = [
        lambda: x,
        lambda: ad.zeros_like(x),
        lambda: x.clone().mT if x.ndim > 1 else x.clone(),
        lambda: ad.from_numpy(base[0].astype(np.float32)),
        lambda: ad.from_numpy(base[1][None][0]),
        lambda: ad.from_numpy(np.frombuffer(bytes(8 * max(x.numel(), 1)), np.int64)),
        lambda: flagged,
        lambda: flagged * 2,
        lambda: hooked,
        lambda: hooked.requires_grad_(False),
        lambda: ad.nn.Parameter(ad.zeros(x.shape), requires_grad=False),
        lambda: read,
        lambda: draw.choice(others),
        lambda: x.view(x.shape),
        lambda: x.data,
    ]
    return draw.choice(ways)()


def check_fits(seed: int) -> tuple[int, int]:
    """Random arguments: how often the native test said yes, and how often the others did."""
    draw = random.Random(seed)
    args = [draw.choice([some_tensor(draw), 3, 0.5, "x"]) for _ in range(draw.randint(1, 4))]
    states = [ad.zeros(3), ad.zeros(2, 3)]
    identities = frozenset(s._storage.identity for s in states)
    apart, unasked = frozenset({id(states[0])}), frozenset(range(len(args)))
    arguments = Arguments(args, None, identities, frozenset())
    owner = np.zeros((3, 2, 3), np.float32)
    owners = frozenset({id(owner)})
    fits = make_fits(arguments.wanted, identities, apart, owners, unasked)
    assert fits is not None
    assert fits(tuple(args))
    others = [*states, ad.from_numpy(owner[1]), *args]
    native = plain = 0
    for _ in range(12):
        given = tuple(
            otherwise(draw, x, others) if draw.random() < 0.6 else x for x in args
        )  # fmt: skip
        given = given[:-1] if draw.random() < 0.05 else given
        wanted = arguments.fit(given) and apart.isdisjoint(map(id, given))
        tensors = [x for x in given if isinstance(x, ad.Tensor)]
        wanted = wanted and not any(hooks_of(x) for x in tensors)
        for x in tensors:
            root = x._array if x._array.base is None else x._array.base
            wanted = wanted and id(root) not in owners and type(root) is np.ndarray
        assert wanted or not fits(given), given
        native, plain = native + fits(given), plain + wanted
    return native, plain


def test_the_native_test_of_arguments_says_yes_only_where_all_others_do() -> None:
    found = [check_fits(seed) for seed in range(25)]
    native, plain = (sum(counts) for counts in zip(*found, strict=True))
    assert native > 0.5 * plain > 15  # most of what fits is plain
    assert plain < 0.6 * 12 * len(found)


# -- filling in ------------------------------------------------------------------------------------


def an_image(draw: random.Random) -> Any:
    """Where a program wants its arrays and numbers, at random."""
    places = list(range(60))
    draw.shuffle(places)

    def patches() -> list[tuple[int, int]]:
        return [(places.pop(), 4 * draw.randint(0, 3)) for _ in range(draw.randint(1, 3))]

    results = [(k, (draw.randint(1, 3), 2), "float32") for k in range(draw.randint(1, 4))]
    patched = {f"input {i}": patches() for i in (0, 1)}
    patched |= {f"result {k}": patches() for k, _, _ in results}
    numbers = {i: [(places.pop(), 0) for _ in range(draw.randint(1, 3))] for i in (2, 3, 4)}
    return SimpleNamespace(results=results, patches=patched, numbers=numbers)


def check_fill(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of filling in, call after call, with some results held and some inputs unusual."""
    draw = random.Random(seed)
    image = an_image(draw)
    count = len(image.results)
    words = [np.zeros(60, np.int64) for _ in range(2)]
    quick = filling.make_fill(image, {0: False, 1: False}, frozenset({2, 3, 4}), words[0], count)
    monkeypatch.setattr(banks, "can_fill", lambda: False)
    slow = filling.make_fill(image, {0: False, 1: False}, frozenset({2, 3, 4}), words[1], count)
    monkeypatch.undo()
    assert getattr(quick, "__code__", None) is not getattr(slow, "__code__", None)
    held: list[Any] = []
    for _ in range(12):
        masked = np.ma.zeros(3) if draw.random() < 0.2 else np.zeros(3)
        inputs = [np.zeros(2), masked, draw.random(), draw.choice([0.5, 2]), -0.0]
        made = [fill(inputs, []) for fill in (quick, slow)]
        told = [w.copy() for w in words]
        for k, _, _ in image.results:
            for results, said in zip(made, told, strict=True):
                start = banks.address_of(results[k])
                assert [said[at] - shift for at, shift in image.patches[f"result {k}"]] == [
                    start
                ] * len(image.patches[f"result {k}"])
                for at, _ in image.patches[f"result {k}"]:
                    said[at] = 0
        assert told[0].tolist() == told[1].tolist()
        alive = [id(x) for one in held for x in one]
        assert not {id(x) for results in made for x in results} & set(alive)
        if draw.random() < 0.4:
            held.append(made[0])
        if held and draw.random() < 0.3:
            held.pop()
        del made, results


def test_native_code_fills_in_what_the_written_function_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(25):
        check_fill(seed, monkeypatch)


# -- whole calls -----------------------------------------------------------------------------------


class Trained:
    """A small network with its optimizer, and a compiled step."""

    def __init__(self) -> None:
        ad.manual_seed(0)
        self.net = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.Tanh(), ad.nn.Linear(4, 2))
        self.optimizer = ad.optim.AdamW(self.net.parameters(), lr=1e-2)
        self.inputs = ad.tensor(np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3))
        self.kept: list[Any] = []

        @ad.compile
        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return loss

        self.step: Any = step

    def state(self) -> list[Any]:
        """All that a step changes, and how often it was changed."""
        found: list[Any] = []
        for p in self.net.parameters():
            moments = self.optimizer.state[p].values() if p in self.optimizer.state else ()
            tensors = [x for x in (p, p.grad, *moments) if x is not None]
            found += [(x.detach().numpy().tolist(), x._version) for x in tensors]
        return found


def events(draw: random.Random) -> Callable[[Trained], Any]:
    """Something that happens between two steps, to be done to several networks alike."""
    number = draw.random()
    return draw.choice(
        [
            lambda t: None,
            lambda t: None,
            lambda t: t.optimizer.param_groups[0].update(lr=number),
            lambda t: t.optimizer.param_groups[0].update(weight_decay=round(number)),
            lambda t: t.optimizer.param_groups[0].update(betas=(0.5, 0.9)),
            lambda t: t.net[0].weight.data.mul_(0.5),
            lambda t: t.net[0].requires_grad_(number < 0.5),
            lambda t: t.net.train(number < 0.5),
            lambda t: setattr(t.net[1], "note", number),
            lambda t: t.net.__setitem__(1, ad.nn.ReLU() if number < 0.5 else ad.nn.Tanh()),
            lambda t: t.net[2].register_forward_hook(lambda m, i, o: o * 2),
            lambda t: setattr(t, "inputs", t.inputs.clone()),
            lambda t: setattr(t, "inputs", t.inputs[:-1] if len(t.inputs) > 2 else t.inputs),
            lambda t: setattr(t, "inputs", t.inputs.mT.contiguous().mT),
            lambda t: setattr(t, "inputs", ad.from_numpy(t.inputs.numpy())),
            lambda t: t.kept.append(t.net[0].weight.grad),
            lambda t: t.kept.clear(),
            lambda t: setattr(t.net[0].weight, "grad", None),
            lambda t: [state["step"].fill_(7) for state in [*t.optimizer.state.values()][:1]],
        ]
    )


def check_training(seed: int) -> int:
    """Steps by straight calls and without, and what happens between them; how many were straight."""
    draw = random.Random(seed)
    straight, general = Trained(), Trained()
    count = 0
    for _ in range(10):
        happens = events(draw)
        for each in (straight, general):
            happens(each)
        losses = []
        for each in (straight, general):
            targets = ad.tensor([0, 1, 1, 0, 1])[: len(each.inputs)]
            if each is general:
                for recent in each.step.ready:
                    recent.straight, recent.known = None, True
            loss = each.step(each.inputs, targets)
            losses.append((float(loss.detach()), loss.requires_grad, loss.grad_fn.name()))
        count += any(recent.straight is not None for recent in straight.step.ready)
        assert losses[0] == losses[1]
        assert straight.state() == general.state()
    assert straight.step.traces == general.step.traces
    return count


def test_straight_calls_do_what_the_general_way_does() -> None:
    assert sum(check_training(seed) for seed in range(4)) > 10


@pytest.mark.slow
def test_straight_calls_do_what_the_general_way_does_many_times() -> None:
    assert sum(check_training(seed) for seed in range(4, 80)) > 200


def test_a_straight_call_refuses_memory_that_overlaps_with_what_it_writes() -> None:
    memory = np.zeros((2, 3), np.float32)
    state, alias = ad.from_numpy(memory[0]), ad.from_numpy(memory[0])

    def added(x: Any) -> Any:
        state.add_(x)
        return state.sum()

    add: Any = ad.compile(added)
    other = ad.ones(3)
    for _ in range(4):
        add(other)
    assert add.ready[0].straight is not None
    with pytest.raises(RuntimeError, match="overlaps in memory"):
        add(alias)
    assert state.tolist() == [4.0, 4.0, 4.0]
    assert float(add(ad.from_numpy(memory[1]))) == 12


def test_a_straight_call_that_fails_changes_nothing() -> None:
    state, table = ad.zeros(3), ad.arange(4.0)

    @ad.compile
    def look_up(i: Any) -> Any:
        found = table[i]
        state.add_(found)
        return found.sum()

    good = ad.tensor([0, 1, 2])
    for _ in range(4):
        look_up(good)
    before, version = state.tolist(), state._version
    with pytest.raises(IndexError):
        look_up(ad.tensor([0, 9, 1]))
    assert (state.tolist(), state._version) == (before, version)
    assert float(look_up(good)) == 3
