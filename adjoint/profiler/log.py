"""What a thread did while a profile was on: plain words, made into events afterwards."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from adjoint.engine.core.origins import Where
from adjoint.profiler.events import TimedEvent

# Words of an event's beginning: kind, name or an operation's record, nanoseconds; and of an end:
# None, nanoseconds, mark on the GPU or None.
BEGINNING, ENDING = 3, 3


def name_of(work: Any) -> str:
    """What an event is called: an operation as PyTorch does."""
    return work if work.__class__ is str else f"aten::{work.name}"


@dataclass(slots=True)
class Details:
    """What else is known of an event, where a profile asks for more than times."""

    shapes: tuple[Any, ...] = ()
    stack: tuple[str, ...] = ()
    places: tuple[Where, ...] = ()
    derivative: bool = False  # it is one, and these are its operation's
    flops: int = 0
    memory: int = 0  # bytes that it took itself, less what it gave back
    device_memory: int = 0  # the same of a GPU's


@dataclass(slots=True, eq=False)
class ThreadLog:
    """The beginnings and ends of a thread's events, in the order they came.

    An object for each would take as long to make as a small operation to run, and the collector of
    garbage would walk all of them in each of its full rounds: numbers and texts in one list cost
    it nothing.
    """

    thread: int
    name: str
    clock: Any = None  # of a GPU
    words: list[Any] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)  # where events began that have not ended
    marked: int = -1  # where one began that is timed on the GPU, with all that is in it
    details: dict[int, Details] = field(default_factory=dict)  # by where events began
    waited: dict[int, float] = field(default_factory=dict)  # the same; microseconds

    @classmethod
    def of_this_thread(cls, clock: Any) -> ThreadLog:
        """A log for the thread that asks."""
        thread = threading.current_thread()
        return cls(threading.get_ident(), thread.name, clock)

    def detail(self, at: int) -> Details:
        """What else is known of the event that began there."""
        return self.details.setdefault(at, Details())

    def events(self, ended: float) -> dict[int, TimedEvent]:
        """Events by where they began, in the order they ended.

        What is still open ends with the profile: another thread may be at it now.
        """
        words = list(self.words)
        around: list[tuple[int, TimedEvent]] = []
        by_beginning: dict[int, TimedEvent] = {}

        def end(at: float, mark: int | None = None) -> None:
            began, event = around.pop()
            event.end = max(at, event.start)
            event.mark = mark
            event.waited = self.waited.get(began, 0.0)
            if around:
                outer = around[-1][1]
                event.put_in(outer)
                outer.inside += event.cpu_time_total
                outer.flops += event.flops
                outer.inside_flops += event.flops
                outer.cpu_memory_usage += event.cpu_memory_usage
                outer.inside_memory += event.cpu_memory_usage
                outer.device_memory_usage += event.device_memory_usage
                outer.inside_device_memory += event.device_memory_usage
            by_beginning[began] = event

        at = 0
        while at < len(words):
            if words[at] is None:
                end(words[at + 1] / 1000, words[at + 2])
                at += ENDING
                continue
            kind, name, start = words[at : at + BEGINNING]
            event = TimedEvent(name_of(name), start / 1000, 0.0, kind, len(around), self.thread)
            event.thread_name = self.name
            if at in self.details:
                more = self.details[at]
                event.shapes, event.stack, event.places = more.shapes, more.stack, more.places
                event.flops, event.cpu_memory_usage = more.flops, more.memory
                event.device_memory_usage = more.device_memory
            around.append((at, event))
            at += BEGINNING
        while around:
            end(ended)
        return by_beginning
