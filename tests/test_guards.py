"""Guards looked at together, by native code, say what each says when it is looked at alone."""

from __future__ import annotations

import random
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.runtime import guarding
from adjoint.engine.capture.python.guards.class_versions import version_offset
from adjoint.engine.capture.python.guards.dict_versions import dict_version, dict_version_offset
from adjoint.engine.capture.python.guards.guard import Guard
from adjoint.engine.capture.python.guards.guards import Guards
from adjoint.engine.capture.python.guards.rows import WORDS
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
CHECK = guarding.guard_walk()


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


class Watching(type):
    """A metaclass with attributes of its own, through which its classes are changed."""

    def __setattr__(cls, name: str, value: Any) -> None:
        type.__setattr__(cls, name, value)


class Reordered(type):
    """A metaclass that says itself where attributes are looked for."""

    def mro(cls) -> list[type]:
        return [cls, Outside, *type.mro(cls)[1:]]


class Outside:
    pass


ATTRIBUTES = ("a", "b", "__call__", "__getattr__", "__doc__", "__module__", "__annotations__")


class Classes:
    """Classes above and beside each other, which a program reads attributes of and changes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        kinds: list[Any] = [type("Root", (), {"a": 1}), type("Mixin", (), {"b": 2})]
        kinds.append(type("Middle", (kinds[0],), {}))
        kinds.append(type("Leaf", (kinds[2], kinds[1]), {"__slots__": ("kept",)}))
        kinds.append(type("Twin", (kinds[2],), {"__annotations__": {"a": int}}))
        kinds.append(Watching("Watched", (kinds[0],), {"a": None}))
        kinds.append(Watching("Under", (kinds[5],), {"__annotations__": {}}))
        kinds.append(Reordered("Turned", (kinds[1],), {}))
        kinds.append(ad.nn.Module.__class__("Layer", (ad.nn.Module,), {"__doc__": "words"}))
        self.kinds = kinds
        self.places: list[Location] = [
            ClassAttribute(cls, name) for cls in (*kinds, Outside) for name in ATTRIBUTES
        ]
        self.places += [Order(cls) for cls in kinds]
        self.places = self.random.sample(self.places, self.random.randint(5, len(self.places)))

    def change(self) -> None:
        """Change something, put back what was there, or nothing that a guard would see."""
        random = self.random
        kinds = [*self.kinds, Outside] if random.random() < 0.9 else self.kinds[:4]
        cls, name = random.choice(kinds), random.choice(ATTRIBUTES)
        there = vars(cls)
        value = random.choice([1, 2.5, None, len, "words", {"a": int}, {}])
        if name == "__annotations__" and not isinstance(value, dict):
            value = {}
        chosen = random.random()
        if chosen < 0.35:
            setattr(cls, name, value)
        elif chosen < 0.55 and name in there and name not in ("__doc__", "__module__"):
            delattr(cls, name)
        elif chosen < 0.65 and name in there and name not in ("__doc__", "__module__"):
            kept = there[name]
            delattr(cls, name)
            assert not hasattr(cls, "missing")  # it has a version without the attribute
            setattr(cls, name, kept)
        elif chosen < 0.75:
            cls.other = value  # nobody read it
        elif chosen < 0.8:
            type("Later", (cls,) if type(cls) is type else (Outside,), {"a": 5})
        elif chosen < 0.85:
            cls.__abstractmethods__ = frozenset()
        elif chosen < 0.9:
            getattr(cls, "__annotations__", None)  # made when it is first read
        elif chosen < 0.95:
            self.kinds[4].__bases__ = (random.choice(self.kinds[:3]),)
        else:
            self.kinds[6].__bases__ = (random.choice([self.kinds[5], self.kinds[2]]),)


def check_classes(seed: int, changes: int = 25) -> tuple[int, int]:
    """Random changes of classes; how often guards failed, and how often versions were noted."""
    world = Classes(seed)
    failures = noted = 0
    guards = Guards([Guard(place, look(place)) for place in world.places], CHECK)
    for _ in range(changes):
        for _ in range(world.random.randint(0, 3)):  # the versions are noted by then
            guards.holds()
        world.change()
        alone = plain(list(guards.entries))
        assert guards.holds() == all(alone), guards.failures()
        assert guards.holds() == all(alone), guards.failures()
        failures += not all(alone)
        table = guards._table
        assert table is not None
        noted += sum(table.rows[WORDS * each.at + 3] == each.now() for each in table.versions)
        if not all(alone) and world.random.random() < 0.7:
            guards = Guards([Guard(place, look(place)) for place in world.places], CHECK)
    return failures, noted


@pytest.mark.parametrize("first", [0, pytest.param(40, marks=pytest.mark.slow)])
def test_guards_on_classes_by_their_versions_say_what_each_says_alone(first: int) -> None:
    if CHECK is None:
        pytest.skip("this interpreter lays out objects otherwise: guards are looked at in Python")
    count = 40 if first == 0 else 2000
    results = [check_classes(seed) for seed in range(first, first + count)]
    assert sum(failures for failures, _ in results) > 3 * count
    if version_offset() is not None:
        assert sum(noted for _, noted in results) > 3 * count


def test_a_class_that_keeps_changing_is_looked_at_attribute_by_attribute() -> None:
    cls: Any = type("Counting", (), {"step": 1})
    guards = Guards([Guard(ClassAttribute(cls, "step"), 1)], CHECK)
    for count in range(100):
        cls.count = count
        assert guards.holds()
    cls.step = 2
    assert not guards.holds()
    cls.step = 1
    assert guards.holds()


def test_what_a_dict_holds_is_looked_at_by_its_version() -> None:
    if CHECK is None or dict_version_offset() is None:
        pytest.skip("dicts of this interpreter have no versions")
    state: dict[str, Any] = {"a": 1, "b": 2.5}
    places = [Item(state, "a"), Item(state, "c"), Length(state), ItemKind(state, "b")]
    guards = Guards([Guard(place, place.now()) for place in places], CHECK)
    assert all(guards.holds() for _ in range(3))
    table = guards._table
    assert table is not None
    assert [each.thing for each in table.versions] == [state]
    assert table.rows[WORDS * table.versions[0].at + 3] == dict_version(state)
    for number in range(100):  # one that keeps changing is looked at entry by entry
        state["b"] = float(number)
        assert guards.holds()
    for change in ({"a": 2}, {"c": 1}, {"b": 1}):
        kept = dict(state)
        state.update(change)
        assert not guards.holds()
        state.clear()
        state.update(kept)
        assert guards.holds()


def test_a_base_that_is_no_longer_one_is_still_looked_at() -> None:
    base: Any = type("Base", (), {"a": 1})
    other: Any = type("Other", (), {})
    cls: Any = type("Derived", (base,), {"b": 1})
    places = [ClassAttribute(cls, "b"), ClassAttribute(base, "a")]
    guards = Guards([Guard(place, place.now()) for place in places], CHECK)
    assert guards.holds()
    assert guards.holds()
    cls.__bases__ = (other,)
    for _ in range(3):
        assert guards.holds()
    base.a = 2
    assert not guards.holds()


def test_a_known_key_is_looked_for_where_keys_have_code_of_their_own() -> None:
    class Word(str):
        asked = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Word.asked += 1
            return str.__eq__(self, other)

    state: dict[Any, Any] = {"x": 0, "a": 1}
    guards = Guards([Guard(Item(state, "a"), 1)], CHECK)
    assert all(guards.holds() for _ in range(3))
    del state["a"]
    state[Word("a")] = 1
    before = Word.asked
    assert guards.holds()
    assert Word.asked > before
    state[Word("a")] = 2
    assert not guards.holds()


def test_a_key_is_found_again_where_the_entries_moved() -> None:
    state: dict[str, Any] = {str(i): i for i in range(50)}
    guards = Guards([Guard(Item(state, "49"), 49), Guard(Item(state, "50"), MISSING)], CHECK)
    assert all(guards.holds() for _ in range(3))
    for i in range(48):
        del state[str(i)]
    for i in range(100, 400):
        state[str(i)] = i
        assert guards.holds()
    state["49"] = 50
    assert not guards.holds()
    state["49"] = 49
    assert guards.holds()
    state["50"] = 50
    assert not guards.holds()
