"""Timing operations where they are bound: nothing is in the way unless a profile records."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from adjoint.profiler.averages import FREED, Average
from adjoint.profiler.device import DeviceClock
from adjoint.profiler.events import TimedEvent
from adjoint.profiler.kernels import kernel_events
from adjoint.profiler.log import BEGINNING, ENDING, ThreadLog, name_of
from adjoint.profiler.memory import Allocation, Allocations


def now() -> float:
    """Microseconds."""
    return perf_counter_ns() / 1000


ON_DEVICE = frozenset({"cpu_op", "compiled"})  # what launches: no ranges of others
Handle = tuple[ThreadLog, int]  # an event that is open: its thread's log, and where it began


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
        elif id(code) in EXECUTING:
            file, line = EXECUTING[id(code)](frame)
            lines.append(f"{file}({line}): recorded")
        frame = frame.f_back
    return tuple(lines)


class Doors:
    """The doors by which operations are asked for, with something around each of them."""

    def __init__(self, around: Callable[[Any], Any], around_write: Callable[[Any], Any]) -> None:
        self.around, self.around_write = around, around_write

    def open(self) -> None:
        """Operations are asked for through what is around."""
        if not OPEN:
            PLAIN[:] = HOOKS.run, HOOKS.bind, HOOKS.compute_into
        OPEN.append(self)
        hang_doors()

    def close(self) -> None:
        """As without this one, whichever others were opened or closed meanwhile."""
        OPEN.remove(self)
        hang_doors()


OPEN: list[Doors] = []  # the innermost first
PLAIN: list[Any] = []  # the doors with nothing around them


def hang_doors() -> None:
    """Have operations asked for through all that is open."""
    run, bind, compute_into = PLAIN
    for doors in OPEN:
        run, bind = doors.around(run), doors.around(bind)
        compute_into = doors.around_write(compute_into)
    HOOKS.run, HOOKS.bind, HOOKS.compute_into = run, bind, compute_into


class EventRecorder:
    """Collects the events of every thread, and what the engine tells of itself."""

    def __init__(self, wanted: Wanted) -> None:
        self.events: list[TimedEvent] = []  # once it ended
        self.wanted = wanted
        self.began = self.ended = 0.0
        self.allocations = Allocations(self.freed) if wanted.memory else None
        self.total_on_device = 0.0
        self.thread = 0  # that profiles
        self._doors = Doors(self.timed, self.timed_write)
        self._logs: dict[int, ThreadLog] = {}  # by thread
        self._runs: list[tuple[ThreadLog, int, Ran]] = []  # kernels, and the event they ran in
        self._kernels: list[tuple[TimedEvent | None, Ran]] = []  # the same, once it ended
        # By numbers of derivatives: lines and modules that asked for what is derived.
        self._asked: dict[int, tuple[tuple[Where, ...], tuple[str, ...]]] = {}
        self.ran_programs: list[Ran] = []  # where memory is asked for
        self.freed_outside = Average(FREED)  # memory that went outside of all events

    def start(self) -> None:
        """Begin to record.

        Operations are timed at the doors they enter by. The context stays as it is: whatever runs
        as a fragment or a small program does so under a profile too.
        """
        RECORDERS.append(self)
        LISTENERS.append(self)
        self.thread = get_ident()
        log = self.log()
        self._doors.open()
        if log.clock is not None:
            log.clock.start()
        self.began = now()

    def stop(self) -> None:
        """End it."""
        self.ended = now()
        self._doors.close()
        RECORDERS.remove(self)
        LISTENERS.remove(self)
        if self.allocations is not None:
            self.allocations.end()
        tell_all()
        self._make_events()

    def log(self) -> ThreadLog:
        """The log of the thread that asks."""
        thread = get_ident()
        log = self._logs.get(thread)
        if log is None:
            clock = DeviceClock() if self.wanted.device else None
            log = self._logs[thread] = ThreadLog.of_this_thread(clock)
        return log

    def timed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A door whose operations are timed."""
        logs, begin_log = self._logs, self.log
        bare = replace(self.wanted, device=False) == Wanted()  # nothing but times are kept

        def perform(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
            if CONTEXT.capture is not None:  # it is recorded: that is the compiler's time
                return run(record, operands, params)
            log = logs.get(get_ident()) or begin_log()
            words, opened = log.words, log.opened
            if opened and words[opened[-1] + 1] is record:  # by another door
                return run(record, operands, params)
            at, clock = len(words), log.clock
            if clock is not None and log.marked < 0 and not record.is_view:
                log.marked = at
                clock.begin()
            opened.append(at)
            words += ("cpu_op", record, perf_counter_ns())
            try:
                out = run(record, operands, params)
            finally:
                if opened and opened[-1] == at:
                    opened.pop()
                    if log.marked == at:
                        log.marked = -1
                        words += (None, perf_counter_ns(), clock.end())
                    else:
                        words += (None, perf_counter_ns(), None)
                else:
                    self.close((log, at))
            if not bare:
                self.describe(log, at, record, operands, out)
            return out

        return perform

    def timed_write(self, compute: Callable[..., bool]) -> Callable[..., bool]:
        """The door of operations in place: what cannot be done there comes by another."""

        def compute_into(record: Record, target: Any, *others: Any) -> bool:
            log, start = self.log(), perf_counter_ns()
            done = compute(record, target, *others)
            if done:
                log.words += ("cpu_op", record, start, None, perf_counter_ns(), None)
            return done

        return compute_into

    def describe(self, log: ThreadLog, at: int, record: Record, operands: Any, out: Any) -> None:
        """Note what is wanted of an operation besides its times."""
        wanted, details = self.wanted, log.detail(at)
        if wanted.shapes:
            details.shapes = tuple(tuple(x.shape) for x in operands if is_tensor(x))
        around = [log.details[key] for key in log.opened if key in log.details]
        derivative = next((detail for detail in reversed(around) if detail.derivative), None)
        if derivative is not None:
            details.places, details.stack = derivative.places, derivative.stack
        else:
            if wanted.stack:
                details.stack = program_stack()
            if wanted.modules or wanted.memory:
                place = place_now()
                details.places = () if place is None else (place,)
        outs = out if isinstance(out, tuple) else (out,)
        if details.places or details.stack:
            asked = tuple(w._replace(backward=True) for w in details.places), details.stack
            nodes = [x._node for x in outs if is_tensor(x)]
            self._asked |= {node.sequence: asked for node in nodes if node is not None}
        alone = len(log.words) == at + BEGINNING + ENDING  # else its parts were counted
        if wanted.flops and alone:
            # A fragment knows what it computes; a kernel of the table is known by its operation.
            details.flops = details.flops or flops_of(record, operands, outs)
        self.made((log, at), outs)

    def made(self, event: Handle, results: Any) -> None:
        """Count the memory that results take, if they are not views."""
        log, at = event
        outs = results if isinstance(results, (tuple, list)) else (results,)
        if log.clock is not None and log.marked == at:
            log.clock.look_at(outs)
        if self.allocations is None:
            return
        details, name = log.detail(at), name_of(log.words[at + 1])
        place = details.places[0] if details.places else place_now()
        details.places = () if place is None else (place,)
        for x in outs:
            taken = self.allocations.made(x, name, place) if is_tensor(x) else None
            if taken is not None and taken.device == "cpu":
                details.memory += taken.nbytes
            elif taken is not None:
                details.device_memory += taken.nbytes

    def freed(self, gone: Allocation) -> None:
        """Memory went, in whatever this thread is at; it may be at anything."""
        log = self._logs.get(get_ident())
        if log is not None and log.opened:
            details = log.detail(log.opened[-1])
            if gone.device == "cpu":
                details.memory -= gone.nbytes
            else:
                details.device_memory -= gone.nbytes
            return
        row = self.freed_outside
        row.count += 1
        if gone.device == "cpu":
            row.cpu_memory_usage -= gone.nbytes
            row.self_cpu_memory_usage -= gone.nbytes
        else:
            row.device_memory_usage -= gone.nbytes
            row.self_device_memory_usage -= gone.nbytes

    def open(self, name: str, kind: str = "cpu_op", node: int = -1) -> Handle:
        """An event begins; a derivative comes from where its operation was asked for."""
        log = self._logs.get(get_ident()) or self.log()
        words = log.words
        at = len(words)
        if log.clock is not None and log.marked < 0 and kind in ON_DEVICE:
            log.marked = at
            log.clock.begin()
        log.opened.append(at)
        words += (kind, name, perf_counter_ns())
        if node in self._asked:
            details = log.detail(at)
            details.places, details.stack = self._asked[node]
            details.derivative = True
        return log, at

    def close(self, event: Handle) -> None:
        """An event ends, and those within it that were left open."""
        log, at = event
        end, words, opened = perf_counter_ns(), log.words, log.opened
        if at not in opened:
            return
        last = -1
        while last != at:
            last, mark = opened.pop(), None
            if last == log.marked:
                mark, log.marked = log.clock.end(), -1
            words += (None, end, mark)

    def _make_events(self) -> None:
        """Make events of all words, and read the marks on the GPU: the next profile takes them."""
        by_thread = {}
        for log in tuple(self._logs.values()):
            events = by_thread[log.thread] = log.events(self.ended)
            self.events += events.values()
            if log.clock is not None:
                total = log.clock.read(events.values())
                self.total_on_device += total if log.thread == self.thread else 0.0
        runs, self._runs = self._runs, []
        if self.allocations is not None:
            self.ran_programs = [run for _, _, run in runs]
        self._kernels = [(by_thread[log.thread].get(at), run) for log, at, run in runs]

    def everything(self) -> list[TimedEvent]:
        """All events, those of kernels last; what kernels do is found out when first asked."""
        self.events += kernel_events(self._kernels, self.thread)
        self._kernels = []
        return self.events

    def outside(self) -> float:
        """Microseconds that the thread which profiles spent outside of all events."""
        inside = (e.self_cpu_time_total for e in self.everything() if e.thread == self.thread)
        return self.ended - self.began - sum(inside)

    def computed(self, flops: int) -> None:
        """A fragment runs, in the event that is open now."""
        if self.wanted.flops:
            log = self.log()
            if log.opened:
                log.detail(log.opened[-1]).flops += flops

    def ran(self, run: Ran) -> None:
        """Kernels of a compiled program ran."""
        self.later()(run)

    def later(self) -> Callable[[Ran], None]:
        """What keeps a run of kernels, as part of the events that are open now."""
        log = self.log()
        around = tuple(log.opened)

        def ran(run: Ran) -> None:
            for at in around if run.waited else ():
                log.waited[at] = log.waited.get(at, 0.0) + run.waited / 1000
            self._runs.append((log, around[-1] if around else -1, run))

        return ran


RECORDERS: list[EventRecorder] = []  # those at work
