"""A GPU's own time: marks put into its stream, read when the profile ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter_ns

from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.profiler.events import TimedEvent

FREE: dict[int, list[int]] = defaultdict(list)  # marks that have been read, by device
CLOSE = 25.0  # microseconds between two operations that one mark serves


@dataclass(slots=True)
class Marks:
    """Where an event begins and ends in the stream of a device."""

    device: int
    first: int
    last: int = 0  # 0: not reached


class DeviceClock:
    """Times what a GPU does between the beginning and the end of events (CUDA's events).

    Every mark takes the host and the GPU about a microsecond. So only operations have them that no
    other one is part of, and where one follows closely on another, its beginning is the other's
    end. What surrounds operations took as long as they did.
    """

    def __init__(self) -> None:
        import cupy  # type: ignore[import-not-found, unused-ignore]

        runtime = cupy.cuda.runtime
        self.device_now, self.stream_now = runtime.getDevice, cupy.cuda.get_current_stream
        self.create, self.record = runtime.eventCreate, runtime.eventRecord
        self.elapsed, self.wait = runtime.eventElapsedTime, runtime.deviceSynchronize
        self.whole: Marks | None = None  # of all that is timed
        self.total = 0.0  # microseconds of that, but for what the device was held up
        self.latest: tuple[int, int, int, float] | None = None  # device, stream, mark, when

    def mark(self, device: int, stream: int) -> int:
        """A mark in a stream."""
        free = FREE[device]
        event: int = free.pop() if free else self.create()
        self.record(event, stream)
        return event

    def begin(self, now: float) -> Marks | None:
        """A mark now; None while a graph is captured, which would have it as a node."""
        if STREAM_CAPTURE.graph is not None:
            return None
        device, stream = self.device_now(), self.stream_now().ptr
        if self.latest is not None:
            *where, mark, then = self.latest
            if now - then < CLOSE and where == [device, stream]:
                return Marks(device, mark)
        return Marks(device, self.mark(device, stream))

    def end(self, marks: Marks) -> Marks | None:
        """The second mark; None where the device is another one now."""
        device = self.device_now()
        if device != marks.device or STREAM_CAPTURE.graph is not None:
            return None
        stream = self.stream_now().ptr
        marks.last = self.mark(device, stream)
        self.latest = device, stream, marks.last, perf_counter_ns() / 1000
        return marks

    def start(self) -> None:
        """All that is timed begins."""
        self.whole = self.begin(0.0)

    def read(self, events: Iterable[TimedEvent]) -> None:
        """Wait for the GPU, and give every event its time there."""
        whole = None if self.whole is None else self.end(self.whole)
        self.wait()
        used: dict[int, set[int]] = defaultdict(set)

        def time_of(marks: Marks) -> float:
            used[marks.device] |= {marks.first, marks.last}
            return 1000 * float(self.elapsed(marks.first, marks.last))

        around: list[TimedEvent] = []
        waited = 0.0
        for event in sorted(events, key=lambda e: (e.start, -e.end)):
            while around and around[-1].end <= event.start:
                around.pop()
            if event.marks is not None:
                event.device_time = max(time_of(event.marks) - event.waited, 0.0)
                waited += event.waited
                event.marks = None
                for outer in around:  # which have no marks
                    outer.device_time += event.device_time
                    outer.inside_device += event.device_time
            around.append(event)
        self.total = 0.0 if whole is None else max(time_of(whole) - waited, 0.0)
        for device, marks in used.items():
            FREE[device] += marks
