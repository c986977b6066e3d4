"""One guard: a place that a recording read, and what was there."""

from __future__ import annotations

import types
from typing import Any

from adjoint.engine.capture.python.decoding import plan_of
from adjoint.engine.capture.python.locations import Contents, Location
from adjoint.engine.capture.python.plain import MISSING, same, short
from adjoint.engine.capture.python.ways import Ways

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
            state = f"has the {len(self.value)} entries it had"
        elif self.value is MISSING:
            state = "is not there"
        else:
            state = f"is {short(self.value)}"
        return f"{self.way} {state} ({self.line})"

    def failure(self) -> str:
        """What changed, in words."""
        try:
            now = self.place.now()
        except Exception:
            now = MISSING
        if isinstance(self.place, Contents):
            return f"{self.way} changed (read at {self.line})"
        return f"{self.way} was {short(self.value)} and is {short(now)} (read at {self.line})"
