"""Events and statistics that programs send to whoever listens: PyTorch's `torch.monitor`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from types import TracebackType
from typing import Any

data_value_t = str | int | float | bool


class Aggregation(IntEnum):
    """How the values of a window become one."""

    VALUE = 0  # the last
    MEAN = 1
    COUNT = 2
    SUM = 3
    MAX = 4
    MIN = 5


@dataclass
class Event:
    """Something that happened: its name, when, and values about it."""

    name: str
    timestamp: datetime
    data: dict[str, data_value_t] = field(default_factory=dict)


class EventHandlerHandle:
    """What `unregister_event_handler` takes."""

    def __init__(self, handler: Callable[[Event], None]) -> None:
        self.handler = handler


_HANDLERS: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Have a function called with each event.

    Example:
        >>> seen = []
        >>> handle = register_event_handler(seen.append)
        >>> log_event(Event("epoch", datetime(2026, 1, 1), {"loss": 0.5}))
        >>> unregister_event_handler(handle)
        >>> seen[0].data
        {'loss': 0.5}
    """
    handle = EventHandlerHandle(callback)
    _HANDLERS.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Have it called no more."""
    if handler in _HANDLERS:
        _HANDLERS.remove(handler)


def log_event(event: Event) -> None:
    """Give an event to all who listen."""
    for handle in tuple(_HANDLERS):  # one may unregister itself
        handle.handler(event)


class Stat:
    """Values gathered over a window of time, told as an event when it ends.

    Args:
        name: of the statistic; its entries are `name.sum` and the like.
        aggregations: what to tell of a window.
        window_size: how long a window lasts.
        max_samples: after how many values the rest of a window is left out; none unless given.

    Example:
        >>> stat = Stat("loss", [Aggregation.SUM, Aggregation.COUNT], timedelta(hours=1))
        >>> stat.add(2.0)
        >>> stat.add(3.0)
        >>> stat.get()
        {<Aggregation.SUM: 3>: 5.0, <Aggregation.COUNT: 2>: 2.0}
    """

    def __init__(
        self,
        name: str,
        aggregations: Sequence[Aggregation],
        window_size: timedelta,
        max_samples: int | None = None,
    ) -> None:
        self.name = name
        self._aggregations = list(aggregations)
        self._window = window_size.total_seconds()
        self._limit = max_samples
        self._lock = threading.Lock()
        self._values: list[float] = []
        self._began = self._number()

    def _number(self) -> int:
        return int(time.time() // self._window)

    @property
    def count(self) -> int:
        """How many values the window has."""
        with self._lock:
            return len(self._values)

    def add(self, v: float) -> None:
        """One more value; of a window that is over, what there was is told first."""
        with self._lock:
            told = self._ended()
            if self._limit is None or len(self._values) < self._limit:
                self._values.append(float(v))
        if told is not None:
            log_event(told)

    def get(self) -> dict[Aggregation, float]:
        """What the window has so far."""
        with self._lock:
            return {kind: self._of(kind) for kind in self._aggregations}

    def _of(self, kind: Aggregation) -> float:
        values = self._values
        if kind is Aggregation.COUNT:
            return float(len(values))
        if kind is Aggregation.SUM:
            return sum(values)
        if not values:
            return 0.0
        if kind is Aggregation.MEAN:
            return sum(values) / len(values)
        if kind is Aggregation.VALUE:
            return values[-1]
        return max(values) if kind is Aggregation.MAX else min(values)

    def _ended(self) -> Event | None:
        """The event of a window that is over, if there were values in it."""
        now = self._number()
        if now == self._began:
            return None
        event = self._event() if self._values else None
        self._began, self._values = now, []
        return event

    def _event(self) -> Event:
        told: dict[str, data_value_t] = {
            f"{self.name}.{kind.name.lower()}": self._of(kind) for kind in self._aggregations
        }
        return Event("torch.monitor.Stat", datetime.now(), told)

    def __enter__(self) -> Stat:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            event = self._event() if self._values else None
            self._values = []
        if event is not None:
            log_event(event)


class TensorboardEventHandler:
    """Writes the values of statistics to a `SummaryWriter`."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == "torch.monitor.Stat":
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
