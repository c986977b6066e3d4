"""What a recording depends on: places and what they held, checked together.

Note [checking]
    The first checks look at the guards one by one. Once a recording is used again, all places are
    read by one generated expression into a list, which is compared with the list that is wanted by
    the identity of its elements. Only where that fails are plain values compared: an equal number
    is as good as the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import is_, itemgetter
from typing import Any

from .locations import ClassAttribute, Contents, Item, Length, Location
from .plain import MISSING, same, short

Differ = Callable[[list[Any], list[Any]], Any]
_LOOKS = 2  # checks one by one before the expression is generated


@dataclass(frozen=True, slots=True)
class Guard:
    """A place, what it held, and where that was read."""

    place: Location
    value: Any
    line: str
    way: str

    def holds(self) -> bool:
        """Whether the place holds the same."""
        try:
            now = self.place.now()
        except Exception:  # what cannot be looked at any more has changed
            return False
        if isinstance(self.place, Contents):
            if self.place.key == "set":
                return bool(now == self.value)
            return len(now) == len(self.value) and all(map(same, now, self.value))
        return same(now, self.value)

    def __str__(self) -> str:
        if isinstance(self.place, Contents):
            held = f"has the {len(self.value)} entries it had"
        elif self.value is MISSING:
            held = "is not there"
        else:
            held = f"is {short(self.value)}"
        return f"{self.way} {held} ({self.line})"

    def failure(self) -> str:
        """What changed, in words."""
        try:
            now = self.place.now()
        except Exception:
            now = MISSING
        if isinstance(self.place, Contents):
            return f"{self.way} changed (read at {self.line})"
        return f"{self.way} was {short(self.value)} and is {short(now)} (read at {self.line})"


def slow_differ(now: list[Any], then: list[Any]) -> bool:
    """Whether two lists differ in the identity of an element."""
    return len(now) != len(then) or not all(map(is_, now, then))


class Guards:
    """The guards of one recording."""

    def __init__(self, entries: Iterable[Guard], differ: Differ = slow_differ) -> None:
        self.entries = tuple(entries)
        self.differ = differ
        self._looks = 0
        self._read: Callable[[], list[Any]] | None = None
        self._wanted: list[Any] = []
        self._plain: list[tuple[int, Guard]] = []

    def __len__(self) -> int:
        return len(self.entries)

    def holds(self) -> bool:
        """Whether every place holds what it held."""
        if self._read is None:
            self._looks += 1
            if self._looks <= _LOOKS:
                return all(guard.holds() for guard in self.entries)
            self._read, self._wanted = _GuardWriter(self.entries).function()
        try:
            now = self._read()
        except Exception:  # something is not there any more
            return False
        if not self.differ(now, self._wanted):
            return True
        if len(now) != len(self._wanted):
            return False
        return all(map(same, now, self._wanted))

    def failures(self) -> list[str]:
        """What changed, in words."""
        return [guard.failure() for guard in self.entries if not guard.holds()]

    def failed(self) -> list[Guard]:
        """The guards that do not hold."""
        return [guard for guard in self.entries if not guard.holds()]


class _GuardWriter:
    """Writes the function that reads all places into one list."""

    def __init__(self, entries: tuple[Guard, ...]) -> None:
        self.entries = entries
        self.scope: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.terms: list[str] = []
        self.wanted: list[Any] = []

    def name(self, value: Any) -> str:
        """A variable of the function."""
        known = self.names.get(id(value))
        if known is None:
            known = self.names[id(value)] = f"c{len(self.scope)}"
            self.scope[known] = value
        return known

    def function(self) -> tuple[Callable[[], list[Any]], list[Any]]:
        """The function and the list it is to give."""
        present: dict[int, list[Guard]] = {}
        absent: dict[int, list[Guard]] = {}
        for guard in self.entries:
            place = guard.place
            if isinstance(place, (Item, ClassAttribute)):
                where = absent if guard.value is MISSING else present
                where.setdefault(id(place.owner), []).append(guard)
            elif isinstance(place, Contents):
                self._splat(guard)
            elif isinstance(place, Length):
                self._add(f"{place.text(self.name)} == {guard.value}", True)
            elif guard.value is MISSING:
                self._add(f"{self.name(guard.place.now)}()", MISSING)
            else:
                self._add(place.text(self.name), guard.value)
        for guards in present.values():
            self._present(guards)
        for guards in absent.values():
            self._absent(guards)
        given = ", ".join(f"{name}={name}" for name in self.scope)
        text = f"def read({given}):\n    return [{', '.join(self.terms)}]\n"
        scope = dict(self.scope)
        exec(compile(text, "<guards>", "exec"), scope)
        return scope.pop("read"), self.wanted

    def _add(self, term: str, value: Any) -> None:
        self.terms.append(term)
        self.wanted.append(value)

    def _splat(self, guard: Guard) -> None:
        """Contents: elements by identity, and how many there are."""
        owner = guard.place.owner
        count = len(guard.value)
        if guard.place.key == "set":
            self._add(f"{self.name(guard.place.now)}() == {self.name(guard.value)}", True)
            return
        values = guard.place.key == "items"
        self._add(f"len({self.name(owner)}) == {count // 2 if values else count}", True)
        if count:
            self.terms.append(f"*{guard.place.text(self.name)}")
            self.wanted.extend(guard.value)

    def _mapping(self, place: Location) -> Any:
        return place.owner if isinstance(place, Item) else place.owner.__dict__

    def _present(self, guards: list[Guard]) -> None:
        """Several keys of one dict in one step."""
        if type(guards[0].place) is Item and type(guards[0].place.owner) is not dict:
            for guard in guards:
                self._add(guard.place.text(self.name), guard.value)
            return
        owner = self.name(self._mapping(guards[0].place))
        self.names.pop(id(self.scope[owner]), None)  # a class's dict is made anew at each asking
        if len(guards) == 1:
            self._add(f"{owner}[{self.name(guards[0].place.key)}]", guards[0].value)
            return
        getter = itemgetter(*[guard.place.key for guard in guards])
        self.terms.append(f"*{self.name(getter)}({owner})")
        self.wanted.extend(guard.value for guard in guards)

    def _absent(self, guards: list[Guard]) -> None:
        """Several keys that one dict must not have."""
        owner = self._mapping(guards[0].place)
        keys = frozenset(guard.place.key for guard in guards)
        name = self.name(owner.keys() if isinstance(owner, dict) else owner)
        self.names.pop(id(self.scope[name]), None)
        if isinstance(owner, dict) and type(owner) is dict:
            self._add(f"{name}.isdisjoint({self.name(keys)})", True)
        else:
            for key in keys:
                self._add(f"{self.name(key)} in {name}", False)
