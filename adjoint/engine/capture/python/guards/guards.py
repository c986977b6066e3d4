"""What a recording depends on: places and what they held, checked together.

Note [checking]
    Guards become rows of numbers that native code walks, comparing by identity (`table`).
    Where a row is otherwise, its guard is looked at in Python: an equal number is as good as the
    same one, and from then on the one that is looked for. Guards without a row, and all of them
    where there is no native code, are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .guard import Guard
from .table import HELD, HELD_IN_DETAIL, Check, GuardTable


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
        self._table: GuardTable | None = None

    def __len__(self) -> int:
        return len(self.entries)

    def holds(self) -> bool:
        """Whether every place holds what it held."""
        check = self._check
        if check is None:
            return all(guard.holds() for guard in self.every())
        table = self._table
        if table is None:
            table = self._table = GuardTable(self.every(), check)
        address, count = table.address, table.count
        at = check(address, 0, count)
        while at >= 0:
            if not table.adopt(at):
                return False
            at = check(address, at + 1, count)
        if at == HELD_IN_DETAIL:
            table.note_versions()
        return not table.others or all(guard.holds() for guard in table.others)

    def quickest(self) -> Callable[[], bool]:
        """`holds`, with what it looks up laid ready, once it was asked."""
        table, holds = self._table, self.holds
        if table is None or table.others:
            return holds
        check, address, count = table.check, table.address, table.count
        return lambda: check(address, 0, count) == HELD or holds()

    def every(self) -> tuple[Guard, ...]:
        """Those on what was read, and those that were declared."""
        return (*self.entries, *self.declared)

    def failures(self) -> list[str]:
        """What changed, in words."""
        return [g.failure() for g in self.every() if not g.holds()]

    def failed(self) -> list[Guard]:
        """The guards on what was read that do not hold."""
        return [guard for guard in self.entries if not guard.holds()]
