"""Guards looked at together, by native code, say what each says when it is looked at alone."""

from __future__ import annotations

import random
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.runtime import peeking
from adjoint.engine.capture.python import Guard, Guards
from adjoint.engine.capture.python.locations import (
    Answer,
    Cell,
    ClassAttribute,
    Contents,
    Index,
    Item,
    ItemKind,
    Kind,
    Length,
    Location,
    Member,
    Order,
    Slot,
    Table,
)
from adjoint.engine.capture.python.plain import MISSING
from adjoint.engine.core.state.structure_version import TrackedDict

NAMES = ("a", "b", "c")
CHECK = peeking.looks()[1]


class Loud(dict[Any, Any]):
    """A dict that is gone through otherwise than it is kept."""

    def __iter__(self) -> Any:
        return iter(sorted(dict.keys(self), key=str))


class Slotted:
    __slots__ = ("a", "b")


class Base:
    pass


class Other(Base):
    pass


class World:
    """Containers, objects, classes and functions that a program might read and change."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values: list[Any] = [
            0, 1, True, 0.0, -0.0, float("nan"), 10**20, 1.5, "x", None, (1, 2), (1, 2.0),
            [1], {}, object(), Base, ad.ones(2),
        ]  # fmt: skip
        self.dicts: list[Any] = [
            kind(zip(NAMES[:2], self.some(2), strict=True))
            for kind in (dict, TrackedDict, OrderedDict, Loud)
        ]
        self.dicts.append(defaultdict(list, {"a": 1}))
        self.lists: list[Any] = [self.some(3), self.some(0), deque(self.some(2))]
        self.sets: list[Any] = [{1, "x"}, {True}]
        self.slotted = Slotted()
        self.slotted.a = self.one()
        self.kind: Any = type("Kind", (Base,), {"a": 1})
        self.thing = self.kind()
        self.thing.a = self.one()

        def function(x: int = 1000, *, y: int = 1000) -> Any:
            return self.thing

        self.function: Any = function
        self.cell: Any = types.CellType(self.one())
        self.tensor = ad.ones(2)

    def one(self) -> Any:
        """Some value; of numbers often an equal one that is another object."""
        value = self.random.choice(self.values)
        if type(value) in (int, float) and self.random.random() < 0.5:
            return type(value)(repr(value))
        return (*value,) if type(value) is tuple else value

    def some(self, count: int) -> list[Any]:
        return [self.one() for _ in range(count)]

    def places(self) -> list[Location]:
        """A place of each kind, and of each container and object."""
        own, cls = self.thing.__dict__, self.kind
        found: list[Location] = [Item(d, n) for d in (*self.dicts, own) for n in NAMES]
        found += [ItemKind(d, n) for d in self.dicts for n in NAMES]
        found += [Contents(d, k) for d in (*self.dicts, own) for k in ("items", "keys")]
        found += [Contents(x) for x in self.lists]
        found += [Contents(x, "set") for x in self.sets]
        found += [Length(x) for x in (*self.dicts, *self.lists, *self.sets)]
        found += [Member(x, n) for x in (*self.dicts, *self.sets) for n in ("a", "x", 1, True)]
        found += [Index(x, i) for x in self.lists for i in (0, 1, -1, -3)]
        found += [ClassAttribute(cls, n) for n in NAMES]
        found += [Kind(self.thing), Order(cls), Table(self.thing), Cell(self.cell, "cell")]
        found += [Slot(self.slotted, Slotted.__dict__[n]) for n in ("a", "b")]
        functions = types.FunctionType.__dict__
        found += [
            Slot(self.function, functions[n])
            for n in ("__code__", "__defaults__", "__kwdefaults__", "__dict__", "__closure__")
        ]
        found += [Slot(self.tensor, ad.Tensor.__dict__["_requires_grad"])]
        found += [Answer(len, (self.lists[0],)), Answer(dict.copy, (self.dicts[0],))]
        return [*found, Answer(self.lists[1].__getitem__, (0,))]

    def change(self) -> None:
        """Change something, or put an equal value where one is."""
        random, name = self.random, self.random.choice(NAMES)
        table, listed = random.choice([*self.dicts, vars(self.thing)]), random.choice(self.lists)
        members = random.choice(self.sets)

        def clear(container: Any) -> None:
            if random.random() < 0.2:
                container.clear()

        def function() -> Any:
            return None

        changes: list[Callable[[], Any]] = [
            lambda: table.__setitem__(name, self.one()),
            lambda: table.pop(name, None),
            lambda: table.__setitem__("a", table.pop("a")) if "a" in table else None,
            lambda: clear(table),
            lambda: table.update(list(table.items())),
            lambda: listed.append(self.one()),
            lambda: listed.pop() if listed else None,
            lambda: listed.__setitem__(0, self.one()) if listed else None,
            lambda: listed.reverse(),
            lambda: clear(listed),
            lambda: members.symmetric_difference_update({random.choice([1, "x", "a"])}),
            lambda: setattr(self.kind, name, self.one()),
            lambda: delattr(self.kind, name) if name in vars(self.kind) else None,
            lambda: setattr(self.kind, "__bases__", (random.choice([Base, Other]),)),
            lambda: setattr(self.thing, "__dict__", dict(vars(self.thing))),
            lambda: setattr(self.thing, "__class__", random.choice([self.kind, Other])),
            lambda: setattr(self.slotted, random.choice("ab"), self.one()),
            lambda: delattr(self.slotted, "a") if hasattr(self.slotted, "a") else None,
            lambda: setattr(self.cell, "cell_contents", self.one()),
            lambda: setattr(self.function, "__defaults__", random.choice([None, (1000,)])),
            lambda: setattr(self.function, "__kwdefaults__", random.choice([None, {"y": 2}])),
            lambda: (
                setattr(self.function, "__code__", function.__code__)
                if not self.function.__closure__
                else None
            ),
            lambda: self.tensor.requires_grad_(random.random() < 0.5),
        ]
        random.choice(changes)()


def plain(entries: list[Guard]) -> list[bool]:
    """One at a time."""
    return [guard.holds() for guard in entries]


def look(place: Location) -> Any:
    try:
        return place.now()
    except Exception:
        return MISSING


def check_world(seed: int) -> int:
    """Random changes, and at each what guards say together and alone; how often some failed."""
    world, failures = World(seed), 0
    every = world.places()
    entries = [Guard(place, look(place)) for place in every]
    entries = [guard for guard in entries if guard.holds()]
    assert len(entries) > len(every) - 12  # those that make what they give anew
    together, each = Guards(entries, CHECK), [Guards([guard], CHECK) for guard in entries]
    assert together.holds()
    assert all(one.holds() for one in each)
    for _ in range(12):
        world.change()
        alone = plain(entries)
        assert [one.holds() for one in each] == alone
        assert together.holds() == all(alone)
        assert [guard.holds() for guard in entries] == alone  # looking changes nothing
        assert together.failed() == [g for g, ok in zip(entries, alone, strict=True) if not ok]
        failures += not all(alone)
        if random.Random(failures).random() < 0.3:  # guards on the world as it is now
            entries = [Guard(place, look(place)) for place in every]
            entries = [guard for guard in entries if guard.holds()]
            together, each = Guards(entries, CHECK), [Guards([guard], CHECK) for guard in entries]
            assert together.holds()
    return failures


@pytest.mark.parametrize("first", [0, pytest.param(30, marks=pytest.mark.slow)])
def test_guards_together_say_what_each_says_alone(first: int) -> None:
    if CHECK is None:
        pytest.skip("this interpreter lays out objects otherwise: guards are looked at in Python")
    count = 30 if first == 0 else 600
    assert sum(check_world(seed) for seed in range(first, first + count)) > 5 * count


def test_most_kinds_of_guards_have_rows() -> None:
    if CHECK is None:
        pytest.skip("this interpreter lays out objects otherwise: guards are looked at in Python")
    guards = Guards([Guard(place, place.now()) for place in World(0).places()], CHECK)
    guards.holds()
    others = {type(guard.place) for guard in guards._table.others}  # type: ignore[union-attr]
    assert others <= {Contents, Index, Slot, Answer, ItemKind}


def test_an_equal_number_is_looked_for_from_then_on() -> None:
    state = {"rate": 10**20}
    guards = Guards([Guard(Item(state, "rate"), state["rate"])], CHECK)
    for _ in range(3):
        state["rate"] = int("1" + "0" * 20)
        assert guards.holds()
    state["rate"] = 10.0**20  # type: ignore[assignment]
    assert not guards.holds()


def test_a_key_whose_comparison_fails_is_a_change() -> None:
    class Key:
        ready = True

        def __hash__(self) -> int:
            return hash("a")

        def __eq__(self, other: object) -> bool:
            if not Key.ready:
                raise ValueError("not now")
            return False

    state: dict[Any, Any] = {Key(): 1, "a": 2}
    guards = Guards([Guard(Item(state, "a"), 2)], CHECK)
    assert guards.holds()
    Key.ready = False
    assert not guards.holds()
    Key.ready = True
    assert guards.holds()
