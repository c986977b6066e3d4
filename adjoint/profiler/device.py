"""A GPU's own time: marks put into its stream, read when the profile ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.profiler.events import TimedEvent

FREE: dict[int, list[int]] = defaultdict(list)  # marks that have been read, by device
DEVICE_OF: dict[int, int] = {}  # every mark's
CLOSE = 25_000  # nanoseconds between two operations that one mark serves


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
        self.alone = runtime.getDeviceCount() == 1  # then it is the current one
        self.whole: int | None = None  # where all that is timed begins
        self.device, self.stream = 0, 0  # where the event began that is timed now
        self.latest, self.when = 0, -CLOSE  # the last mark there, and nanoseconds

    def mark(self, device: int, stream: int) -> int:
        """A mark in a stream."""
        try:
            event = FREE[device].pop()
        except IndexError:
            event = int(self.create())
            DEVICE_OF[event] = device
        self.record(event, stream)
        return event

    def begin(self, now: int) -> int | None:
        """A mark now; None while a graph is captured, which would have it as a node."""
        if STREAM_CAPTURE.graph is not None:
            return None
        stream = self.stream_now().ptr
        device = 0 if self.alone else self.device_now()
        if stream == self.stream and device == self.device and now - self.when < CLOSE:
            return self.latest
        self.device, self.stream = device, stream
        return self.mark(device, stream)

    def end(self, now: int) -> int | None:
        """The second mark, in the stream of the first; None where the device is another one now.

        An operation that works in another stream meanwhile comes back to where it was asked for.
        """
        if STREAM_CAPTURE.graph is not None or not (self.alone or self.device_now() == self.device):
            return None
        mark = self.latest = self.mark(self.device, self.stream)
        self.when = now
        return mark

    def start(self) -> None:
        """All that is timed begins."""
        self.whole = self.begin(0)

    def read(self, events: Iterable[TimedEvent]) -> float:
        """Wait for the GPU, and give every event its time there.

        Returns microseconds of all that was timed, but for what the device was held up.
        """
        last, device = None, self.device_now()
        if self.whole is not None and device == DEVICE_OF[self.whole]:
            last = self.mark(device, self.stream_now().ptr)
        self.wait()
        used: set[int] = set()

        def time_of(first: int, last: int) -> float:
            used.update((first, last))
            return 1000 * float(self.elapsed(first, last))

        around: list[TimedEvent] = []
        waited = 0.0
        for event in sorted(events, key=lambda e: (e.start, -e.end)):
            while around and around[-1].end <= event.start:
                around.pop()
            if event.marks is not None:
                event.device_time_total = max(time_of(*event.marks) - event.waited, 0.0)
                waited += event.waited
                event.marks = None
                for outer in around:  # which have no marks
                    outer.device_time_total += event.device_time_total
                    outer.inside_device += event.device_time_total
            around.append(event)
        total = 0.0
        if self.whole is not None and last is not None:
            total = max(time_of(self.whole, last) - waited, 0.0)
        for mark in used:
            FREE[DEVICE_OF[mark]].append(mark)
        return total
