"""Timing operations where they are bound: nothing is in the way unless a profile records."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from types import FrameType
from typing import Any

from adjoint.engine.core.errors import EXECUTING, is_ours
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.places import Where, place_now
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS, Ran
from adjoint.engine.graph.flops import flops_of
from adjoint.profiler.device import DeviceClock
from adjoint.profiler.events import TimedEvent
from adjoint.profiler.kernels import kernel_events
from adjoint.profiler.memory import Allocations


def now() -> float:
    """Microseconds."""
    return time.perf_counter_ns() / 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a profile keeps of each operation."""

    shapes: bool = False
    memory: bool = False
    stack: bool = False
    flops: bool = False
    modules: bool = False
    device: bool = False


def program_stack() -> tuple[str, ...]:
    """The lines of the program that led here, innermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_ours(code):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        elif code in EXECUTING:
            file, line = EXECUTING[code](frame)
            found.append(f"{file}({line}): recorded")
        frame = frame.f_back
    return tuple(found)


class EventRecorder:
    """Collects the events of the thread that started it, and what the engine tells of itself."""

    def __init__(self, wanted: Wanted) -> None:
        self.events: list[TimedEvent] = []
        self.runs: list[tuple[TimedEvent | None, Ran]] = []  # kernels, and the event they ran in
        self.wanted = wanted
        self.began = self.ended = 0.0
        self.allocations = Allocations() if wanted.memory else None
        self.clock = DeviceClock() if wanted.device else None
        self._open: list[TimedEvent] = []
        self._bind: Any = None
        self._thread = 0

    def start(self) -> None:
        """Begin to record."""
        RECORDERS.append(self)
        LISTENERS.append(self)
        self._bind = HOOKS.bind
        HOOKS.bind = self.bind
        # An observer makes the context one that binds through the hook.
        CONTEXT.set(observers=(*CONTEXT.observers, self.observe))
        self.began = now()

    def stop(self) -> None:
        """End it."""
        self.ended = now()
        while self._open:
            self.close(self._open[-1])
        HOOKS.bind = self._bind
        CONTEXT.set(observers=tuple(o for o in CONTEXT.observers if o != self.observe))
        RECORDERS.remove(self)
        LISTENERS.remove(self)
        if self.allocations is not None:
            self.allocations.end()
        if self.clock is not None:
            self.clock.read(self.events)

    def observe(self, *_: Any) -> None:
        """All is done by `bind`."""

    def bind(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Perform an operation, timed."""
        # Another thread's, or one that is recorded: that is the compiler's time.
        if self.observe not in CONTEXT.observers or CONTEXT.capture is not None:
            return self._bind(record, operands, params)
        wanted = self.wanted
        event = self.open(f"aten::{record.name}")
        try:
            out = self._bind(record, operands, params)
        finally:
            self.close(event)
        if wanted.shapes:
            event.shapes = tuple(tuple(x.shape) for x in operands if is_tensor(x))
        if wanted.stack:
            event.stack = program_stack()
        if wanted.modules or wanted.memory:
            place = place_now()
            event.places = () if place is None else (place,)
        outs = out if isinstance(out, tuple) else (out,)
        if wanted.flops and event.inside == 0.0:  # else its parts were counted
            event.flops = flops_of(record, operands, outs)
        if self.allocations is not None:
            self._count(event, outs)
        return out

    def _count(self, event: TimedEvent, outs: tuple[Any, ...]) -> None:
        """Memory that an operation's results take, if they are not views."""
        assert self.allocations is not None
        place: Where | None = event.places[0] if event.places else None
        made = sum(self.allocations.made(x, event.name, place) for x in outs if is_tensor(x))
        event.memory += made
        if self._open:
            for outer in self._open:
                outer.memory += made
            self._open[-1].inside_memory += event.memory

    def open(self, name: str, kind: str = "cpu_op") -> TimedEvent:
        """An event begins."""
        event = TimedEvent(name, 0.0, kind=kind, depth=len(self._open))
        self._open.append(event)
        if self.clock is not None:
            event.marks = self.clock.begin()
        event.start = now()
        return event

    def close(self, event: TimedEvent) -> None:
        """An event ends, and those within it that were left open."""
        end = now()
        if self.clock is not None and event.marks is not None:
            self.clock.end(event.marks)
        if not any(each is event for each in self._open):
            return
        while True:
            last = self._open.pop()
            last.end = end
            if self._open:
                self._open[-1].inside += last.cpu_time_total
            self.events.append(last)
            if last is event:
                return

    def everything(self) -> list[TimedEvent]:
        """All events, those of kernels last; what kernels do is found out when first asked."""
        self.events += kernel_events(self.runs)
        self.runs = []
        return self.events

    def ran(self, run: Ran) -> None:
        """Kernels of a compiled program ran."""
        for event in self._open:
            event.waited += run.waited / 1000
        self.runs.append((self._open[-1] if self._open else None, run))


RECORDERS: list[EventRecorder] = []  # those at work
