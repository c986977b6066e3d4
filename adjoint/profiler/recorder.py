"""Timing operations where they are bound: nothing is in the way unless a profile records."""

from __future__ import annotations

import time
from typing import Any

from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.profiler.events import Event


def now() -> float:
    """Microseconds."""
    return time.perf_counter_ns() / 1000


class Recorder:
    """Collects the events of the thread that started it."""

    def __init__(self, shapes: bool) -> None:
        self.events: list[Event] = []
        self.shapes = shapes
        self._open: list[Event] = []
        self._bind: Any = None

    def start(self) -> None:
        """Begin to record."""
        RECORDERS.append(self)
        self._bind = HOOKS.bind
        HOOKS.bind = self.bind
        # An observer makes the context one that binds through the hook.
        CONTEXT.set(observers=(*CONTEXT.observers, self.observe))

    def stop(self) -> None:
        """End it."""
        HOOKS.bind = self._bind
        CONTEXT.set(observers=tuple(o for o in CONTEXT.observers if o != self.observe))
        while self._open:
            self.close(self._open[-1])
        RECORDERS.remove(self)

    def observe(self, *_: Any) -> None:
        """All is done by `bind`."""

    def bind(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Perform an operation, timed."""
        if self.observe not in CONTEXT.observers:  # another thread's
            return self._bind(record, operands, params)
        shapes: tuple[Any, ...] = ()
        if self.shapes:
            shapes = tuple(tuple(x.shape) for x in operands if is_tensor(x))
        event = self.open(f"aten::{record.name}", shapes)
        try:
            return self._bind(record, operands, params)
        finally:
            self.close(event)

    def open(self, name: str, shapes: tuple[Any, ...] = (), user: bool = False) -> Event:
        """An event begins."""
        event = Event(name, 0.0, depth=len(self._open), shapes=shapes, user=user)
        self._open.append(event)
        event.start = now()
        return event

    def close(self, event: Event) -> None:
        """An event ends, and those within it that were left open."""
        end = now()
        if event not in self._open:
            return
        while True:
            last = self._open.pop()
            last.end = end
            if self._open:
                self._open[-1].inside += last.cpu_time_total
            self.events.append(last)
            if last is event:
                return


RECORDERS: list[Recorder] = []  # those at work
