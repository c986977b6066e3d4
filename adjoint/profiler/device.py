"""A GPU's own time: marks put into its stream, read when the profile ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from adjoint.engine.backends.array.gpu.faults import LATEST
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.profiler.events import TimedEvent

FREE: dict[int, list[int]] = defaultdict(list)  # marks that have been read, by device
DEVICE_OF: dict[int, int] = {}  # every mark's


@dataclass(slots=True)
class Anchors:
    """Two moments of a GPU's and of the host's clock, between which they are compared."""

    stream: int  # that marks are in, unless they are said to be elsewhere
    first: int  # the mark that all others of the device are read from
    began: int  # nanoseconds of the host's when it was reached
    ended: int = 0
    length: float = 0.0  # microseconds of the GPU's between both

    def on_device(self, host: float) -> float:
        """Microseconds of the host's clock as those of the GPU's since the first mark."""
        span = (self.ended - self.began) / 1000
        return (host - self.began / 1000) * (self.length / span if span > 0 else 1.0)


class DeviceClock:
    """Times what a GPU does for events (CUDA's events).

    Every mark takes the host and the GPU about a microsecond. So only operations have one that no
    other one is part of, at their end. A GPU begins with an operation when it is done with the one
    before, or when the host asked for it: the host's clock says when, which is compared with the
    GPU's at the beginning and at the end. What surrounds operations took as long as they did. An
    operation that asks nothing of a GPU has no mark: it took no time there.
    """

    def __init__(self) -> None:
        import cupy  # type: ignore[import-not-found, unused-ignore]

        runtime = cupy.cuda.runtime
        self.device_now, self.go_to = runtime.getDevice, runtime.setDevice
        self.stream_now = cupy.cuda.get_current_stream
        self.create, self.record = runtime.eventCreate, runtime.eventRecord
        self.elapsed, self.wait = runtime.eventElapsedTime, runtime.deviceSynchronize
        self.alone = runtime.getDeviceCount() == 1  # then it is the current one
        self.anchors: dict[int, Anchors] = {}  # by device
        self.elsewhere: dict[int, int] = {}  # marks in other streams
        self.before: Any = None  # what a GPU was asked for last when an operation began

    def mark(self, device: int, stream: int) -> int:
        """A mark in a stream."""
        try:
            event = FREE[device].pop()
        except IndexError:
            event = int(self.create())
            DEVICE_OF[event] = device
        self.record(event, stream)
        return event

    def start(self) -> None:
        """All that is timed begins, on the device that is current."""
        self.wait()
        device, stream = self.device_now(), self.stream_now().ptr
        first = self.mark(device, stream)
        self.wait()
        self.anchors[device] = Anchors(stream, first, perf_counter_ns())

    def begin(self) -> None:
        """An operation begins."""
        self.before = LATEST[-1] if LATEST else None

    def look_at(self, results: Iterable[Any]) -> None:
        """What an operation made tells as well that a GPU was asked: not all derivatives say so."""
        if any(is_tensor(x) and x.device.type != "cpu" for x in results):
            self.before = self

    def end(self) -> int | None:
        """A mark after what it asked for; None while a graph is captured, which would have it."""
        asked = self.before is self or (LATEST and LATEST[-1] is not self.before)
        if not asked or STREAM_CAPTURE.graph is not None:
            return None
        device = 0 if self.alone else self.device_now()
        anchors = self.anchors.get(device)
        if anchors is None:  # the first event there: it is not timed
            self.start()
            return None
        stream = self.stream_now().ptr
        mark = self.mark(device, stream)
        if stream != anchors.stream:
            self.elsewhere[mark] = stream
        return mark

    def read(self, events: Iterable[TimedEvent]) -> float:
        """Wait for the GPU, and give every event its time there.

        Returns microseconds of all that was timed, but for what the device was held up.
        """
        used = self.compare_again()
        reached: dict[tuple[int, int], float] = {}  # by device and stream, when it was done last
        around: list[TimedEvent] = []
        waited = 0.0
        for event in sorted(events, key=lambda e: (e.start, -e.end)):
            while around and around[-1].end <= event.start:
                around.pop()
            if event.mark is not None:
                mark, event.mark = event.mark, None
                used.append(mark)
                anchors = self.anchors[DEVICE_OF[mark]]
                place = DEVICE_OF[mark], self.elsewhere.get(mark, anchors.stream)
                done = 1000 * float(self.elapsed(anchors.first, mark))
                began = max(reached.get(place, 0.0), anchors.on_device(event.start))
                reached[place] = done
                event.device_time_total = max(done - began - event.waited, 0.0)
                waited += event.waited
                for outer in around:  # which have no marks
                    outer.device_time_total += event.device_time_total
                    outer.inside_device += event.device_time_total
            around.append(event)
        for mark in used:
            FREE[DEVICE_OF[mark]].append(mark)
        whole = self.anchors.get(self.device_now())
        return 0.0 if whole is None else max(whole.length - waited, 0.0)

    def compare_again(self) -> list[int]:
        """Wait for every device that was timed, and compare its clock again; the marks for it."""
        used, here = [], self.device_now()
        for device, anchors in self.anchors.items():
            self.go_to(device)
            self.wait()
            last = self.mark(device, anchors.stream)
            self.wait()
            anchors.ended = perf_counter_ns()
            anchors.length = 1000 * float(self.elapsed(anchors.first, last))
            used += [anchors.first, last]
        self.go_to(here)
        return used
