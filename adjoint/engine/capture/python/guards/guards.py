"""What a recording depends on: places and what they held, checked together.

Note [checking]
    Guards become rows of numbers that native code walks, comparing by identity (`table`).
    Where a row is otherwise, its guard is looked at in Python: an equal number is as good as the
    same one, and from then on the one that is looked for. Guards without a row, and all of them
    where there is no native code, are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

from adjoint.engine.capture.python.locations import Asked

from .guard import Guard
from .table import HELD_IN_DETAIL, Check, GuardTable


class Guards:
    """The guards of one recording.

    `declared` are those that objects asked for themselves; nobody's line read them.
    """

    __slots__ = ("_check", "_table", "asked", "declared", "entries")

    def __init__(
        self,
        entries: Iterable[Guard],
        check: Check | None = None,
        declared: Iterable[Guard] = (),
    ) -> None:
        self.entries = tuple(entries)
        self.declared = tuple(declared)
        # Functions with caches, which count how often they are asked: looked at last of all.
        self.asked = tuple([guard for guard in self.entries if type(guard.place) is Asked])
        self._check = check
        self._table: GuardTable | None = None

    def __len__(self) -> int:
        return len(self.entries)

    def holds(self) -> bool:
        """Whether every place holds what it held, those aside that are asked (`asked_hold`)."""
        check = self._check
        if check is None:
            return all(guard.holds() for guard in self._looked_at())
        table = self._table
        if table is None:
            table = self._table = GuardTable(self._looked_at(), check)
        address, count = table.address, table.count
        at = check(address, 0, count)
        while at >= 0:
            if not table.adopt(at):
                return False
            at = check(address, at + 1, count)
        if at == HELD_IN_DETAIL:
            table.note_versions()
        return not table.others or all(guard.holds() for guard in table.others)

    def _looked_at(self) -> tuple[Guard, ...]:
        every = (*self.entries, *self.declared)
        return tuple([g for g in every if type(g.place) is not Asked]) if self.asked else every

    def asked_hold(self) -> bool:
        """Whether functions with caches answer as they did: once a call that the rest holds for."""
        return all(guard.holds() for guard in self.asked)

    def failures(self) -> list[str]:
        """What changed, in words."""
        return [g.failure() for g in (*self.entries, *self.declared) if not g.held()]

    def failed(self) -> list[Guard]:
        """The guards on what was read that do not hold."""
        return [guard for guard in self.entries if not guard.held()]
