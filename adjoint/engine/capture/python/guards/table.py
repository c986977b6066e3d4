"""Guards as one table of rows that native code walks.

Note [versions of classes]
    Most of what a program reads is not in classes: each attribute of an object is looked for in
    all classes of the object, and what is not there could come to be. So the rows about a class
    and its bases stand together, behind a row with the version the class had when all of them held
    (`class_versions`); while it has that version they hold. Once it has another, they are walked,
    and if they hold, the version it has then is noted. A class that keeps changing is not worth
    that: after a few times its rows are always walked. The same goes for dicts, where those have
    versions (`dict_versions`): the attributes of a module, its hooks, the state of an optimizer.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any

from adjoint.engine.capture.python.locations import (
    ClassAttribute,
    Contents,
    Item,
    ItemKind,
    Length,
    Member,
    Order,
)

from .class_versions import (
    NO_VERSION,
    has_version,
    in_version,
    order_of,
    version_of,
    version_offset,
)
from .dict_versions import dict_version, dict_version_offset, has_plain_keys
from .guard import Guard
from .rows import CLASS, DICT, NOT_SOUGHT, WORDS, Row, row_of

# Walks rows from one on: the number of the first that is otherwise, or one of the next two.
Check = Callable[[int, int, int], int]
HELD = -1
HELD_IN_DETAIL = -2  # all hold, though a class or dict has another version than was noted
_ANOTHER, _ALWAYS_WALK = 1 << 62, -1  # in place of versions: one that nothing has, and none
_CHANGES = 8  # of a class or dict, after which its rows are always walked
# Classes whose objects are of them for good.
_LASTING = frozenset({bool, int, float, complex, str, bytes, tuple, type(None)})


class GuardTable:
    """Guards as rows, and those that have none."""

    __slots__ = ("address", "alive", "check", "count", "guards", "others", "rows", "versions")

    def __init__(self, entries: tuple[Guard, ...], check: Check) -> None:
        self.check = check
        self.guards: list[Guard | None] = []  # by row
        self.others: list[Guard] = []
        self.alive: list[Any] = []  # by row: what must live as long as it
        self.versions: list[_NotedVersion] = []
        self.rows = array("q")
        alone, by_class = _sorted_out(entries)
        alone, by_dict = _of_dicts(alone)
        for guard in alone:
            self._add(guard)
        for kind, groups in ((CLASS, by_class), (DICT, by_dict)):
            for thing, guards in groups:
                at = len(self.guards)
                self._put(None, (kind, id(thing), 0, _ANOTHER), [thing])
                for guard in guards:
                    self._add(guard)
                self.rows[WORDS * at + 2] = len(self.guards) - at - 1
                self.versions.append(_NotedVersion(thing, at, len(self.guards)))
        self.address = self.rows.buffer_info()[0]
        self.count = len(self.guards)

    def _add(self, guard: Guard) -> None:
        alive: list[Any] = []
        row = row_of(guard.place, guard.value, alive)
        if row is None:
            self.others.append(guard)
        else:
            self._put(guard, row, alive)

    def _put(self, guard: Guard | None, row: Row, alive: list[Any]) -> None:
        self.guards.append(guard)
        self.alive.append(alive)
        self.rows.extend((*row, NOT_SOUGHT))

    def adopt(self, at: int) -> bool:
        """Whether a guard holds whose row does not; the row then looks for what is there."""
        guard = self.guards[at]
        assert guard is not None  # rows of classes do not fail
        try:
            now = guard.place.now()
            if not guard.accepts(now):
                return False
        except Exception:
            return False
        alive: list[Any] = [now]
        row = row_of(guard.place, now, alive)
        if row is not None:
            self.alive[at] = alive
            self.rows[WORDS * at : WORDS * at + WORDS] = array("q", (*row, NOT_SOUGHT))
        return True

    def note_versions(self) -> None:
        """Note the versions of what has rows that hold (Note [versions of classes])."""
        for noted in self.versions:
            place = WORDS * noted.at + 3
            version = noted.now()
            if self.rows[place] in (version, _ALWAYS_WALK):
                continue
            noted.changes += 1
            if version == NO_VERSION or noted.changes > _CHANGES:
                self.rows[place] = _ALWAYS_WALK
            elif (
                self.check(self.address, noted.at + 1, noted.end) == HELD
                and noted.now() == version  # else another thread changed it meanwhile
            ):
                self.rows[place] = version


class _NotedVersion:
    """A class or dict, its row, the end of the rows it stands for, how often it was noted."""

    __slots__ = ("at", "changes", "end", "order", "thing")

    def __init__(self, thing: Any, at: int, end: int) -> None:
        self.thing, self.at, self.end, self.changes = thing, at, end, 0
        self.order = order_of(thing) if isinstance(thing, type) else None

    def now(self) -> int:
        """The version it has; none where a class has other bases: of those one has its own."""
        if self.order is None:
            return dict_version(self.thing)
        return version_of(self.thing) if order_of(self.thing) is self.order else NO_VERSION


def _of_dicts(alone: list[Guard]) -> tuple[list[Guard], list[tuple[Any, list[Guard]]]]:
    """Guards that need looking at, and by dict those that hold while it has its version."""
    if dict_version_offset() is None:
        return alone, []
    groups: dict[int, list[Guard]] = {}
    rest: list[Guard] = []
    for guard in alone:
        by_dict = _goes_by_dict(guard)
        (groups.setdefault(id(guard.place.owner), []) if by_dict else rest).append(guard)
    return rest, [(guards[0].place.owner, guards) for guards in groups.values()]


def _goes_by_dict(guard: Guard) -> bool:
    """Whether a guard is about what a dict holds, and about nothing that could change besides."""
    place = guard.place
    owner, cls = place.owner, type(place.owner)
    if not issubclass(cls, dict):
        return False
    if type(place) is Length:
        return cls.__len__ is dict.__len__
    if type(place) is Contents:
        return place.key in ("items", "keys") and row_of(place, guard.value, []) is not None
    if type(place.key) is not str or not has_plain_keys(owner):
        return False
    if type(place) is ItemKind:
        return type(dict.get(owner, place.key)) in _LASTING
    return type(place) is Item or (type(place) is Member and cls.__contains__ is dict.__contains__)


def _sorted_out(entries: Iterable[Guard]) -> tuple[list[Guard], list[tuple[type, list[Guard]]]]:
    """Guards that need looking at, and those that hold while a class has its version."""
    read = {
        (id(guard.place.owner), guard.place.key)
        for guard in entries
        if type(guard.place) is Item and type(guard.place.key) is str
    }
    alone: list[Guard] = []
    of_classes: list[Guard] = []
    for guard in entries:
        place = guard.place
        if type(place) is Member and type(place.key) is str:
            if (id(place.owner), place.key) not in read:  # what is there under the key is looked at
                alone.append(guard)
        elif _goes_by_version(guard):
            of_classes.append(guard)
        else:
            alone.append(guard)
    owners = {id(guard.place.owner): guard.place.owner for guard in of_classes}
    based = {id(base) for cls in owners.values() for base in order_of(cls)[1:]}
    by_class: list[tuple[type, list[Guard]]] = []
    for identity, cls in owners.items():
        if identity not in based:
            order = set(map(id, order_of(cls)))
            by_class.append((cls, [g for g in of_classes if id(g.place.owner) in order]))
            of_classes = [g for g in of_classes if id(g.place.owner) not in order]
    return [*alone, *of_classes], by_class


def _goes_by_version(guard: Guard) -> bool:
    place = guard.place
    if version_offset() is None or not issubclass(type(place.owner), type):
        return False
    if type(place) is Order:
        return has_version(place.owner)
    return type(place) is ClassAttribute and in_version(place.key) and has_version(place.owner)
