"""The timeline: what the engine is doing, told to those who listen. Usually nobody does.

A profiler listens. The engine tells of stretches of its own work (`stage`: recording, planning,
making code, looking on disk) and of programs that ran, with the time of every kernel in them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a part of a program: three numbers an entry of its table.

    When it first began, how long all its turns took, and how many there were, in nanoseconds by
    the clock of `time.perf_counter_ns`, but for the origin: the run began at `start`.
    """

    executable: Any
    segment: int  # which part
    start: int
    end: int
    times: Sequence[int]
    device: str = ""  # a GPU's name: the times are its own
    waited: int = 0  # nanoseconds it was held up for, to be timed


def keep_least(kept: dict[Any, tuple[int, int]], key: Any, taken: tuple[int, int]) -> None:
    """Keep nanoseconds and turns, unless a turn took less before: others use the machine, too.

    >>> kept = {"a": (9, 3), "b": (0, 0)}
    >>> for key, taken in (("a", (5, 1)), ("b", (7, 1)), ("a", (4, 2)), ("b", (0, 0))):
    ...     keep_least(kept, key, taken)
    >>> kept
    {'a': (4, 2), 'b': (7, 1)}
    """
    span, turns = kept.get(key, (0, 0))
    if not turns or (taken[1] > 0 and taken[0] * turns < span * taken[1]):
        kept[key] = taken


class Listener(Protocol):
    """Who is told."""

    def open(self, name: str, kind: str, node: int = -1) -> Any:
        """A stretch of work begins; a derivative's has the number of its node on the tape."""
        ...

    def close(self, event: Any) -> None:
        """It ends."""
        ...

    def made(self, event: Any, results: Any) -> None:
        """The work of an event has results."""
        ...

    def computed(self, flops: int) -> None:
        """So many floating-point operations were asked for, in the event that is open."""
        ...

    def ran(self, run: Ran) -> None:
        """Kernels ran."""
        ...

    def later(self) -> Callable[[Ran], None]:
        """Kernels were asked for: what to tell their times to, once they are known."""
        ...


LISTENERS: list[Listener] = []
UNTOLD: list[Callable[[], None]] = []  # each waits for kernels on a GPU, and tells their times


def tell_all() -> None:
    """Have everything told that ran so far."""
    while UNTOLD:
        UNTOLD.pop(0)()


class stage:
    """A `with` block that those who listen see as one stretch of work."""

    __slots__ = ("kind", "name", "opened")

    def __init__(self, name: str, kind: str = "compile") -> None:
        self.name = name
        self.kind = kind
        self.opened: list[tuple[Listener, Any]] = []

    def __enter__(self) -> stage:
        if LISTENERS:
            self.opened = [
                (listener, listener.open(self.name, self.kind)) for listener in LISTENERS
            ]
        return self

    def __exit__(self, *_: object) -> None:
        for listener, event in self.opened:
            listener.close(event)

    def made(self, results: Any) -> None:
        """Say what came of it."""
        for listener, event in self.opened:
            listener.made(event, results)


class Silent:
    """Listens and keeps nothing: programs then time their kernels themselves."""

    def open(self, name: str, kind: str, node: int = -1) -> Any:
        """Nothing to keep."""

    def close(self, event: Any) -> None:
        """Nothing to keep."""

    def made(self, event: Any, results: Any) -> None:
        """Nothing to keep."""

    def computed(self, flops: int) -> None:
        """Nothing to keep."""

    def ran(self, run: Ran) -> None:
        """Executables keep the times of their latest run."""

    def later(self) -> Callable[[Ran], None]:
        """The same."""
        return self.ran


@contextlib.contextmanager
def timed_runs() -> Iterator[None]:
    """A block in which programs time their kernels."""
    listener = Silent()
    LISTENERS.append(listener)
    try:
        yield
        tell_all()
    finally:
        LISTENERS.remove(listener)
