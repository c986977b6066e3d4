"""What a recording depends on: places and what they held, checked together.

Note [checking]
    Guards become rows of numbers that native code walks, comparing by identity (`rows`). Where a
    row is otherwise, its guard is looked at in Python: an equal number is as good as the same one,
    and from then on the one that is looked for. Guards without a row, and all of them where there
    is no native code, are looked at one by one.
"""

from __future__ import annotations

import types
from array import array
from collections.abc import Callable, Iterable
from typing import Any

from .decoding import plan_of
from .locations import Contents, Item, Location, Member
from .plain import MISSING, same, short
from .rows import WORDS, row_of
from .ways import Ways

# Walks rows from one on: the number of the first that is otherwise, or less than nothing.
Check = Callable[[int, int, int], int]
Where = tuple[types.CodeType, int] | None  # a step of some code


class Guard:
    """A place, what it held, and where that was read."""

    __slots__ = ("place", "value", "ways", "where")

    def __init__(self, place: Location, value: Any, where: Where = None, ways: Ways | None = None):
        self.place = place
        self.value = value
        self.where = where
        self.ways = ways

    @property
    def line(self) -> str:
        """The line of code that read it."""
        if self.where is None:
            return "the call"
        code, step = self.where
        return f"{code.co_filename}:{plan_of(code).line(code, max(step, 0))}"

    @property
    def way(self) -> str:
        """The place in words."""
        return (self.ways or Ways()).described(self.place)

    def holds(self) -> bool:
        """Whether the place holds the same."""
        try:
            return self.accepts(self.place.now())
        except Exception:  # what cannot be looked at any more has changed
            return False

    def accepts(self, now: Any) -> bool:
        """Whether what a place holds is as good as what it held."""
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


class Guards:
    """The guards of one recording.

    `declared` are those that objects asked for themselves; nobody's line read them.
    """

    __slots__ = ("_check", "_table", "declared", "entries")

    def __init__(
        self,
        entries: Iterable[Guard],
        check: Check | None = None,
        declared: Iterable[Guard] = (),
    ) -> None:
        self.entries = tuple(entries)
        self.declared = tuple(declared)
        self._check = check
        self._table: _Table | None = None

    def __len__(self) -> int:
        return len(self.entries)

    def holds(self) -> bool:
        """Whether every place holds what it held."""
        check = self._check
        if check is None:
            return all(guard.holds() for guard in (*self.entries, *self.declared))
        table = self._table
        if table is None:
            table = self._table = _Table((*self.entries, *self.declared))
        address, count = table.address, table.count
        at = check(address, 0, count)
        while at >= 0:
            if not table.adopt(at):
                return False
            at = check(address, at + 1, count)
        return not table.others or all(guard.holds() for guard in table.others)

    def failures(self) -> list[str]:
        """What changed, in words."""
        return [g.failure() for g in (*self.entries, *self.declared) if not g.holds()]

    def failed(self) -> list[Guard]:
        """The guards on what was read that do not hold."""
        return [guard for guard in self.entries if not guard.holds()]


class _Table:
    """Guards as rows, and those that have none."""

    __slots__ = ("address", "count", "guards", "held", "others", "rows")

    def __init__(self, entries: tuple[Guard, ...]) -> None:
        self.guards: list[Guard] = []
        self.others: list[Guard] = []
        self.held: list[Any] = []  # by row: what must live as long as it
        found: list[int] = []
        read = {
            (id(guard.place.owner), guard.place.key)
            for guard in entries
            if type(guard.place) is Item and type(guard.place.key) is str
        }
        for guard in entries:
            place = guard.place
            if (
                type(place) is Member
                and type(place.key) is str
                and (id(place.owner), place.key) in read
            ):
                continue  # what is there under the key is looked at
            kept: list[Any] = []
            row = row_of(place, guard.value, kept)
            if row is None:
                self.others.append(guard)
                continue
            self.guards.append(guard)
            self.held.append(kept)
            found += row
        self.rows = array("q", found)
        self.address = self.rows.buffer_info()[0]
        self.count = len(self.guards)

    def adopt(self, at: int) -> bool:
        """Whether a guard holds whose row does not; the row then looks for what is there."""
        guard = self.guards[at]
        try:
            now = guard.place.now()
            if not guard.accepts(now):
                return False
        except Exception:
            return False
        kept: list[Any] = [now]
        row = row_of(guard.place, now, kept)
        if row is not None:
            self.held[at] = kept
            self.rows[WORDS * at : WORDS * at + WORDS] = array("q", row)
        return True
