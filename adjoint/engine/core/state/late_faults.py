"""Faults that a device finds after the host has gone on: where the host waits, it looks for them.

Whoever launches such work puts a function here that raises what was found (Note [late faults]).
"""

from __future__ import annotations

from collections.abc import Callable

LOOKS: list[Callable[[], None]] = []


def look() -> None:
    """Raise what devices have reported."""
    for each in LOOKS:
        each()
