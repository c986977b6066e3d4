"""Python's state before a recording wrote to it: put back when the recording is over.

A container is copied before the first write to it. Reads that come later are guarded by that copy,
and rolling back restores it, order included.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import chain
from typing import Any

from .plain import MISSING, elements, is_a

Undo = Callable[[], None]


def restore_dict(target: dict[Any, Any], before: list[tuple[Any, Any]]) -> None:
    """Give a dict the items it had, in their order; as little as possible is touched."""
    kind = OrderedDict if is_a(target, OrderedDict) else dict
    keys = [key for key, _ in before]
    now = list(kind.keys(target))
    if len(now) >= len(keys) and all(a is b for a, b in zip(now, keys, strict=False)):
        for key in now[len(keys) :]:
            kind.__delitem__(target, key)
        for key, value in before:
            if kind.__getitem__(target, key) is not value:
                kind.__setitem__(target, key, value)
        return
    kind.clear(target)
    for key, value in before:
        kind.__setitem__(target, key, value)


def _restore_set(target: set[Any], before: set[Any]) -> None:
    if set.__ne__(target, before):
        set.clear(target)
        set.update(target, before)


def _restore_deque(target: deque[Any], before: list[Any]) -> None:
    deque.clear(target)
    deque.extend(target, before)


def _restore_list(target: Any, before: Any) -> None:
    target[:] = before


def copy_of(container: Any) -> Any:
    """What is in a container now, in a shape that `Journal` can restore and guards can compare."""
    if is_a(container, dict):
        return [(key, dict.__getitem__(container, key)) for key in elements(container)]
    if is_a(container, set):
        return set(set.__iter__(container))
    if is_a(container, bytearray):
        return bytes(container)
    return list(elements(container))


def _held(container: Any, contents: Any) -> list[Any]:
    """The objects in a copy of a container."""
    return list(chain.from_iterable(contents)) if is_a(container, dict) else list(contents)


def restore(container: Any, before: Any) -> None:
    """Give a container what it held."""
    if is_a(container, dict):
        restore_dict(container, before)
    elif is_a(container, set):
        _restore_set(container, before)
    elif is_a(container, deque):
        _restore_deque(container, before)
    elif is_a(container, list):
        list.__setitem__(container, slice(None), before)
    else:
        _restore_list(container, before)


class Journal:
    """What was there before the first write, by container or place."""

    def __init__(self) -> None:
        self.copies: dict[int, tuple[Any, Any]] = {}  # containers and their contents before
        self.written: dict[int, set[Any] | None] = {}  # keys written; None: any of them
        self.grown: set[int] = set()  # lists that were only appended to
        self.undo: list[Undo] = []
        self.fields: set[tuple[int, Any]] = set()
        self.replaced: list[tuple[Any, Any]] = []  # owners of fields, what these held

    def before(self, container: Any) -> None:
        """Keep a copy of a container that is about to be written to."""
        if id(container) not in self.copies:
            self.copies[id(container)] = container, copy_of(container)
            self.written[id(container)] = set()
            contents = self.copies[id(container)][1]
            self.undo.append(lambda: restore(container, contents))

    def held(self, value: Any) -> bool:
        """Whether a container that was written to held this object before."""
        copies = self.copies.values()
        return any(x is value for of, contents in copies for x in _held(of, contents))

    def writes(self, container: Any, key: Any) -> None:
        """Note a write to one key."""
        self.before(container)
        keys = self.written[id(container)]
        if keys is not None:
            keys.add(key)

    def overwrites(self, container: Any) -> None:
        """Note a write to any of a container's keys."""
        self.before(container)
        self.written[id(container)] = None
        self.grown.discard(id(container))

    def grows(self, container: Any) -> None:
        """Note that something was appended to a list."""
        whole = id(container) in self.grown or id(container) not in self.copies
        self.overwrites(container)
        if whole:
            self.grown.add(id(container))

    def original(self, container: Any) -> Any:
        """A container's contents before the recording, or MISSING if it was not written to."""
        copy = self.copies.get(id(container))
        return MISSING if copy is None else copy[1]

    def field(self, owner: Any, key: Any, undo: Undo, value: Any = MISSING) -> None:
        """Keep how to undo writes to one place of an object, and what it held, the first time."""
        if (id(owner), key) not in self.fields:
            self.fields.add((id(owner), key))
            self.replaced.append((owner, value))
            self.undo.append(lambda owner_alive=owner: undo())  # type: ignore[misc]

    def has_field(self, owner: Any, key: Any) -> bool:
        """Whether a place of an object was written to."""
        return (id(owner), key) in self.fields

    def knows(self, value: Any) -> bool:
        """Whether a container, or an attribute of an object, was written to."""
        own = getattr(value, "__dict__", None)
        return (
            id(value) in self.copies
            or id(own) in self.copies
            or any(owner is value for owner, _ in self.replaced)
        )

    def let_go(self) -> list[tuple[Any, Any]]:
        """What was written to, and what it held; of containers, what they hold no more."""
        gone = list(self.replaced)
        for container, before in self.copies.values():
            now = set(map(id, _held(container, copy_of(container))))
            values = _held(container, before)
            gone += [(container, value) for value in values if id(value) not in now]
        return gone

    def roll_back(self) -> None:
        """Have everything as it was, last write first."""
        while self.undo:
            self.undo.pop()()
