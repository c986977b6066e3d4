"""Objects among the arguments of compiled functions in which tensors and numbers change."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn

Wrap = Callable[[Callable[..., Any]], Any]
WRAPS: dict[str, Wrap] = {
    "whole": ad.compile,
    "parts": functools.partial(ad.compile, fullgraph=False),
}


class Layer:
    """The keys of one layer."""

    def __init__(self) -> None:
        self.keys: Any = None

    def update(self, new: Any) -> Any:
        self.keys = new if self.keys is None else ad.cat([self.keys, new])
        return self.keys


class Cache:
    """Layers that are made when they are met first."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    def update(self, new: Any, index: int) -> Any:
        while len(self.layers) <= index:
            self.layers.append(Layer())
        return self.layers[index].update(new)


def attend(x: Any, cache: Cache) -> tuple[Any, Cache]:
    for index in range(2):
        keys = cache.update(x * (index + 1), index)
        x = (x @ keys.T).softmax(-1) @ keys
    return x, cache


def test_a_growing_cache_is_recorded_for_few_lengths_and_no_cache() -> None:
    compiled = ad.compile(attend)
    traces = []
    for text in range(3):
        ours, theirs = Cache(), Cache()
        for length in (5, *[1] * 9):
            x = ad.linspace(-1.0, 1.0, length * 4).reshape(length, 4) + text
            result, cache = compiled(x, ours)
            wanted, _ = attend(x, theirs)
            assert cache is ours
            ad.testing.assert_close(result, wanted)
            for mine, expected in zip(ours.layers, theirs.layers, strict=True):
                assert type(mine) is Layer
                ad.testing.assert_close(mine.keys, expected.keys)
        traces.append(compiled.traces)
    assert traces[0] <= 5
    assert traces[2] == traces[1]


class Holder:
    """A tensor and a number, history from others by identity."""

    def __init__(self) -> None:
        self.tensor = ad.ones(2)
        self.count = 1


class World:
    """What functions find outside."""

    def __init__(self, first: Holder) -> None:
        self.holders = [first]
        self.numbers = {first: 2.0}
        self.weakly: Any = weakref.WeakKeyDictionary({first: 2.0})
        self.seen: set[Any] = set()


Use = Callable[[World, Holder, Any], Any]


def remembered(world: World, holder: Holder, x: Any) -> Any:
    world.holders.append(holder)
    return x * len(world.holders)


def written_by_another_way(world: World, holder: Holder, x: Any) -> Any:
    world.holders[0].tensor = world.holders[0].tensor * 2
    return holder.tensor * x


def counted(world: World, holder: Holder, x: Any) -> Any:
    holder.count += 1
    return x * holder.count


def in_a_set(world: World, holder: Holder, x: Any) -> Any:
    world.seen.add(holder)
    return x * len(world.seen)


USES: dict[str, Use] = {
    "no more": lambda world, holder, x: x,
    "is": lambda world, holder, x: x * (2 if holder is world.holders[0] else 3),
    "equal": lambda world, holder, x: x * (2 if holder == world.holders[0] else 3),
    "among": lambda world, holder, x: x * (2 if holder in world.holders else 3),
    "key": lambda world, holder, x: x * world.numbers.get(holder, 5.0),
    "weak key": lambda world, holder, x: x * world.weakly.get(holder, 5.0),
    "hash": lambda world, holder, x: x * (hash(holder) == hash(world.holders[0])),
    "identity": lambda world, holder, x: x * (id(holder) == id(world.holders[0])),
    "reference": lambda world, holder, x: x * (weakref.ref(holder)() is holder),
    "own key": lambda world, holder, x: x * {holder: 2.0}[holder],
    "set": in_a_set,
    "remembered": remembered,
    "written elsewhere": written_by_another_way,
    "counted": counted,
}


def histories(use: Use, wrap: Wrap) -> list[Any]:
    first, second = Holder(), Holder()
    world = World(first)

    def change(holder: Holder, x: Any) -> Any:
        holder.tensor = holder.tensor + x
        return use(world, holder, holder.tensor)

    function = wrap(change)
    history: list[Any] = []
    for holder in (second, second, first, second, Holder(), first):
        history.append(function(holder, ad.ones(2)).tolist())
        history.append((first.tensor.tolist(), first.count, second.tensor.tolist(), second.count))
        names = {id(first): "first", id(second): "second"}
        history.append([names.get(id(one), "other") for one in world.holders])
        history.append((len(world.seen), first in world.seen, second in world.seen))
    return history


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("use", USES)
def test_which_object_it_is_counts_as_in_python(use: str, wrap: str) -> None:
    assert histories(USES[use], WRAPS[wrap]) == histories(USES[use], lambda fn: fn)


@pytest.mark.parametrize("wrap", WRAPS)
def test_one_object_given_twice(wrap: str) -> None:
    def add(a: Holder, b: Holder) -> Any:
        a.tensor = a.tensor + b.tensor
        return a.tensor * b.tensor

    def run(function: Any) -> list[Any]:
        one, other = Holder(), Holder()
        pairs = ((one, other), (one, other), (other, one), (one, one), (other, other), (one, other))
        return [function(a, b).tolist() for a, b in pairs]

    assert run(WRAPS[wrap](add)) == run(add)


@dataclass(eq=False)
class Record:
    """A dataclass with a hash: known by what it holds from its first call."""

    number: float = 1.0


def test_a_record_in_sets_and_weak_dicts_is_the_callers() -> None:
    def run(wrap: Wrap) -> list[Any]:
        first, seen = Record(), set[Record]()
        weakly: Any = weakref.WeakKeyDictionary({first: 2.0})

        def look(record: Record, x: Any) -> Any:
            seen.add(record)
            return x * weakly.get(record, 5.0) * len(seen)

        function = wrap(look)
        return [function(one, ad.ones(1)).tolist() for one in (first, Record(), first, Record())]

    with pytest.warns(UserWarning, match="the identity of a Record"):
        results = run(WRAPS["parts"])
    assert results == run(lambda fn: fn)


class Averages(nn.Module):
    """A module that puts another tensor in the place of its buffer."""

    mean: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", ad.zeros(2))
        self.weight = nn.Parameter(ad.ones(2))


def test_a_module_among_the_arguments_stays_itself() -> None:
    def step(module: Averages, x: Any) -> Any:
        module.mean = module.mean * 0.5 + x
        return (module.mean * module.weight).sum()

    module, compiled = Averages(), ad.compile(step)
    for _ in range(3):
        compiled(module, ad.ones(2)).backward()
    assert module.weight.grad is not None
    ad.testing.assert_close(module.weight.grad, ad.tensor([4.25, 4.25]))


def test_a_finalizer_runs_for_the_object_alone() -> None:
    ended: list[int] = []

    class Watched(Holder):
        def __del__(self) -> None:
            ended.append(1)

    def change(holder: Holder, x: Any) -> Any:
        holder.tensor = holder.tensor + x
        return holder.tensor * 2

    compiled, holder = ad.compile(change), Watched()
    for count in range(1, 4):
        assert compiled(holder, ad.ones(2)).tolist() == [2.0 * (count + 1)] * 2
    del compiled, holder
    gc.collect()
    assert len(ended) == 1
