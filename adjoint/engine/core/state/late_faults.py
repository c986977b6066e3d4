"""Faults that a device finds after the host has gone on: where the host waits, it looks for them.

Whoever launches such work puts a function here that raises what was found (Note [late faults]).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Board(Protocol):
    """Where kernels on one device report to."""

    calls: int  # that can fail, so far

    def look(self) -> None:
        """Raise what was reported."""

    def settle_apart(self) -> None:
        """Raise what kernels of other streams have found."""

    def replay(self) -> None:
        """Note that earlier calls are done again on the current stream."""

    def reported_by(self, *faults: tuple[str, str]) -> tuple[int, list[int], int] | None:
        """The word's address, a new call's codes for errors, a code's bits; None: none left."""


BOARDS: dict[int, Board] = {}  # by the device's number
LOOKS: list[Callable[[], None]] = []
# What raises the faults of work that do not keep others from writing, and takes itself off the list
# then: put here by whoever launched it.
UNSEEN: list[Callable[[], None]] = []
Undo = Callable[[], None]
# Whoever may yet report something keeps what undoes a change of the host's that goes with work of
# a device: after a fault that work does nothing.
KEEPERS: dict[int, Callable[[Undo], None]] = {}  # by the device's number


def keep(undo: Undo, device: int) -> None:
    """Have a change of the host's undone if it turns out that a fault of the device's, of whose
    work it is a part, came before it."""
    keeper = KEEPERS.get(device)
    if keeper is not None:
        keeper(undo)


def look() -> None:
    """Raise what devices have reported."""
    for check in LOOKS:
        check()


def settle_others(device: int) -> None:
    """Before kernels of a device that look at its word: raise what other devices have found, which
    may have made what they read."""
    for index, board in [*BOARDS.items()]:
        if index != device:
            board.look()


def settle() -> None:
    """Before something is written that earlier work may have made: raise what that has found."""
    while UNSEEN:
        try:
            wait = UNSEEN[0]
        except IndexError:  # another thread has seen the last
            return
        wait()
