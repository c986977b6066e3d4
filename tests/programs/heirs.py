"""Heirs of Python's containers with methods of their own, which ask those they inherit."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, type-arg, override"

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import adjoint as ad

from .playing import Wrap, ones, program, tried


class Row(list):
    def __getitem__(self, index):
        found = super().__getitem__(index)
        return [*found, -1] if isinstance(index, slice) else found * 10

    def __iter__(self):
        return (x + 100 for x in super().__iter__())

    def __len__(self):
        return super().__len__() + 5

    def __contains__(self, value):
        return super().__contains__(value - 1)

    def __setitem__(self, index, value):
        super().__setitem__(index, value * 2)

    def append(self, value):
        super().append(value + 1)

    def pop(self, *index):
        return super().pop(*index) + 1000

    def index(self, value):
        return super().index(value) + 7

    def count(self, value):
        return super().count(value) + 3


class Table(dict):
    def __getitem__(self, key):
        return super().__getitem__(key) * 10

    def __iter__(self):
        return iter(list(super().__iter__())[::-1])

    def __len__(self):
        return super().__len__() + 5

    def __contains__(self, key):
        return super().__contains__(key.lower())

    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


class Ordered(OrderedDict):
    def __getitem__(self, key):
        return super().__getitem__(key) * 10

    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value + 1)

    def __contains__(self, key):
        return super().__contains__(key.lower())

    def __len__(self):
        return super().__len__() + 5


class Bag(set):
    def __iter__(self):
        return iter(sorted(x + 100 for x in super().__iter__()))

    def __len__(self):
        return super().__len__() + 5

    def __contains__(self, value):
        return super().__contains__(value - 1)


class Queue(deque):
    def __getitem__(self, index):
        return super().__getitem__(index) * 10

    def __iter__(self):
        return (x + 100 for x in super().__iter__())

    def __len__(self):
        return super().__len__() + 5

    def append(self, value):
        super().append(value + 1)


class Pair(tuple):
    def __getitem__(self, index):
        return super().__getitem__(index) * 10

    def __len__(self):
        return super().__len__() + 5

    def __iter__(self):
        return (x + 100 for x in super().__iter__())

    def __contains__(self, value):
        return super().__contains__(value - 1)


def _put(owner, key, value):
    owner[key] = value


SEQUENCE: list[Callable[[Any], Any]] = [
    lambda o: o[0], lambda o: o[-1], len, bool, list, lambda o: o.index(3), lambda o: o.count(3),
    sum, lambda o: [*o],
]  # fmt: skip
CHANGING: list[Callable[[Any], Any]] = [
    lambda o: o.append(4), lambda o: _put(o, 1, 5), lambda o: o.remove(3),
    lambda o: o.extend([1, 2]),
]  # fmt: skip
USES: list[tuple[Any, Any, Any, list[Callable[[Any], Any]]]] = [
    (Row, list, [1, 2, 3, 4], [
        *SEQUENCE, *CHANGING, lambda o: o[1:], lambda o: list.__getitem__(o, slice(0, 2)),
        list.__len__, lambda o: 4 in o, lambda o: list.__contains__(o, 3), lambda o: o.sort(),
        lambda o: o.pop(), lambda o: list.pop(o, -2),
    ]),
    (Table, dict, {"a": 1, "b": 2}, [
        len, list, dict, sorted, bool, dict.__len__, lambda o: o["a"], lambda o: "A" in o,
        lambda o: _put(o, "a", 7), lambda o: {**o}, lambda o: o.update(b=3),
        lambda o: o.setdefault("q", 3), lambda o: list(o.items()), lambda o: o.pop("a", 4),
    ]),
    (Ordered, OrderedDict, {"a": 1, "b": 2}, [
        len, list, dict, lambda o: o["a"], lambda o: "A" in o, lambda o: _put(o, "A", 7),
        lambda o: {**o}, lambda o: o.update(B=3), lambda o: o.setdefault("A", 3),
        lambda o: o.setdefault(key="Q", default=3), lambda o: o.pop(key="z", default=3),
    ]),
    (Bag, set, [1, 2, 3], [
        len, sorted, lambda o: 4 in o, lambda o: set.__contains__(o, 3), set.__len__,
        lambda o: o.add(8), lambda o: o.discard(3),
    ]),
    (Queue, deque, [1, 2, 3], [*SEQUENCE, *CHANGING]),
    (Pair, tuple, [1, 2, 3], [*SEQUENCE, lambda o: 4 in o, lambda o: 1 in o]),
]  # fmt: skip


def _held(own: Any, owner: Any) -> list[Any]:
    keys = list(own.__iter__(owner))
    return [(k, dict.__getitem__(owner, k)) for k in keys] if issubclass(own, dict) else keys


@program
def heir_from_outside(wrap: Wrap) -> Any:
    return _used(wrap, given=False)


@program
def heir_given(wrap: Wrap) -> Any:
    return _used(wrap, given=True)


def _used(wrap: Wrap, given: bool) -> Any:
    out: list[Any] = []
    for kind, own, start, uses in USES:
        for use in uses:
            owner = kind(start)

            def f(x, owner=None, kept=owner, use=use):
                return use(kept if owner is None else owner), x * 2

            r = wrap(f)
            for _ in range(2):
                out += [tried(r, ones(1), owner) if given else tried(r, ones(1))]
                out += [_held(own, owner)]
    return out


class Relus(list):
    def __getitem__(self, index):
        return super().__getitem__(index).relu()

    def __iter__(self):
        return (x * 2 for x in super().__iter__())


@program
def heir_of_tensors_given(wrap: Wrap) -> Any:
    r, out = wrap(lambda o: sum(o) + o[0]), []
    held = Relus([ad.tensor([-1.0, 1.0]).requires_grad_(), ones(2)])
    for _ in range(3):
        found = tried(r, held)
        found.sum().backward()
        out += [found, list.__getitem__(held, 0).grad]
    held.append(ones(2))
    return out, tried(r, held)


class Mixed:
    def total(self):
        return sum(self)  # type: ignore[call-overload]


class MixedLast(list, Mixed):
    pass


@program
def heir_of_two(wrap: Wrap) -> Any:
    held = MixedLast([1, 2, 3])
    r, out = wrap(lambda x: x * held[0] * held.total()), []
    for value in (1, 5, 5, 7):
        held[0] = value
        out.append(tried(r, ones(1)))
    return out
