"""Timing operations where they are bound: nothing is in the way unless a profile records."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import get_ident
from time import perf_counter_ns
from types import FrameType
from typing import Any

from adjoint.engine.core.errors import EXECUTING, is_ours
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.origins import Where, place_now
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS, Ran, tell_all
from adjoint.engine.graph.flops import flops_of
from adjoint.profiler.device import DeviceClock
from adjoint.profiler.events import TimedEvent
from adjoint.profiler.kernels import kernel_events
from adjoint.profiler.memory import Allocations


def now() -> float:
    """Microseconds."""
    return perf_counter_ns() / 1000


VIEW = "view"  # an operation that launches nothing
ON_DEVICE = frozenset({"cpu_op", "compiled"})  # what launches: no views, no ranges of others


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
    lines = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_ours(code):
            lines.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        elif code in EXECUTING:
            file, line = EXECUTING[code](frame)
            lines.append(f"{file}({line}): recorded")
        frame = frame.f_back
    return tuple(lines)


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
        self._hooks: tuple[Any, ...] = ()
        self._thread = 0
        self._marked: TimedEvent | None = None  # one timed on the GPU, with all that is in it
        self._bare = replace(wanted, device=False) == Wanted()  # nothing but times are kept

    def start(self) -> None:
        """Begin to record.

        Operations are timed at the doors they enter by. The context stays as it is: whatever runs
        as a fragment or a small program does so under a profile too.
        """
        RECORDERS.append(self)
        LISTENERS.append(self)
        self._thread = get_ident()
        self._hooks = HOOKS.run, HOOKS.bind, HOOKS.compute_into
        HOOKS.run = partial(self.perform, HOOKS.run)
        HOOKS.bind = partial(self.perform, HOOKS.bind)
        HOOKS.compute_into = partial(self.compute_into, HOOKS.compute_into)
        if self.clock is not None:
            self.clock.start()
        self.began = now()

    def stop(self) -> None:
        """End it."""
        self.ended = now()
        while self._open:
            self.close(self._open[-1])
        HOOKS.run, HOOKS.bind, HOOKS.compute_into = self._hooks
        RECORDERS.remove(self)
        LISTENERS.remove(self)
        if self.allocations is not None:
            self.allocations.end()
        tell_all()
        if self.clock is not None:
            self.clock.read(self.events)

    def perform(
        self, run: Any, record: Record, operands: tuple[Any, ...], params: dict[str, Any]
    ) -> Any:
        """Perform an operation, timed."""
        # Another thread's, or one that is recorded: that is the compiler's time.
        if get_ident() != self._thread or CONTEXT.capture is not None:
            return run(record, operands, params)
        name = f"aten::{record.name}"
        if self._open and self._open[-1].name == name:  # by another door
            return run(record, operands, params)
        wanted, marked = self.wanted, self._marked
        event = self.open(name, VIEW if record.is_view else "cpu_op")
        try:
            out = run(record, operands, params)
        finally:
            self.close(event)
        if self._bare:
            return out
        if wanted.shapes:
            event.shapes = tuple(tuple(x.shape) for x in operands if is_tensor(x))
        if wanted.stack:
            event.stack = program_stack()
        if wanted.modules or wanted.memory:
            place = place_now()
            event.places = () if place is None else (place,)
        outs = out if isinstance(out, tuple) else (out,)
        if wanted.flops and event.inside == 0.0:  # else its parts were counted
            (marked or event).flops += flops_of(record, operands, outs)
        self.made(event, outs)
        return out

    def compute_into(self, compute: Any, record: Record, into: Any, other: Any) -> bool:
        """An operation in place: if it cannot be done here, it comes by another door."""
        start = now()
        done: bool = compute(record, into, other)
        if done and get_ident() == self._thread:
            event = TimedEvent(f"aten::{record.name}", start, now(), depth=len(self._open))
            if self._open:
                self._open[-1].inside += event.cpu_time_total
            self.events.append(event)
        return done

    def made(self, event: TimedEvent, results: Any) -> None:
        """Count the memory that results take, if they are not views."""
        outs = results if isinstance(results, (tuple, list)) else (results,)
        if self.allocations is None or get_ident() != self._thread:
            return
        place: Where | None = event.places[0] if event.places else place_now()
        event.places = () if place is None else (place,)
        size = sum(self.allocations.made(x, event.name, place) for x in outs if is_tensor(x))
        event.memory += size
        around = [opened for opened in self._open if opened is not event]
        for outer in around:
            outer.memory += size
        if around:
            around[-1].inside_memory += event.memory

    def open(self, name: str, kind: str = "cpu_op") -> TimedEvent:
        """An event begins."""
        opened, thread = self._open, get_ident()
        event = TimedEvent(name, 0.0, 0.0, "cpu_op" if kind is VIEW else kind, len(opened), thread)
        if thread != self._thread:
            return event  # which is not kept
        opened.append(event)
        if self.clock is not None and self._marked is None and kind in ON_DEVICE:
            event.marks = self.clock.begin(perf_counter_ns() / 1000)
            self._marked = None if event.marks is None else event
        event.start = perf_counter_ns() / 1000
        return event

    def close(self, event: TimedEvent) -> None:
        """An event ends, and those within it that were left open."""
        end, opened = perf_counter_ns() / 1000, self._open
        latest = opened[-1] if opened else None
        if latest is not event and all(other is not event for other in opened):
            return
        while True:
            last = opened.pop()
            last.end = end
            if last.marks is not None and self.clock is not None:
                last.marks = self.clock.end(last.marks)
                self._marked = None
            if opened:
                opened[-1].inside += end - last.start
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
        self.later()(run)

    def later(self) -> Callable[[Ran], None]:
        """What keeps a run of kernels, as part of the events that are open now."""
        around = tuple(self._open) if get_ident() == self._thread else ()

        def ran(run: Ran) -> None:
            for event in around:
                event.waited += run.waited / 1000
            self.runs.append((around[-1] if around else None, run))

        return ran


RECORDERS: list[EventRecorder] = []  # those at work
