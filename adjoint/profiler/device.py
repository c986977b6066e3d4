"""A GPU's own time: marks put into its stream, read when the profile ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.profiler.events import TimedEvent


class DeviceClock:
    """Times what a GPU does between the beginning and the end of events (CuPy's events)."""

    def __init__(self) -> None:
        import cupy  # type: ignore[import-not-found, unused-ignore]

        self.cupy = cupy

    def begin(self) -> tuple[Any, Any]:
        """A mark now, and one for the end."""
        make = self.cupy.cuda.Event
        first, last = make(), make()
        first.record()
        return first, last

    def end(self, marks: tuple[Any, Any]) -> None:
        """The second mark."""
        marks[1].record()

    def read(self, events: Iterable[TimedEvent]) -> None:
        """Wait for the GPU, and give every event its time there."""
        self.cupy.cuda.runtime.deviceSynchronize()
        open_at: list[TimedEvent] = []
        for event in sorted(events, key=lambda e: (e.start, -e.end)):
            if event.marks is not None:
                milliseconds = self.cupy.cuda.get_elapsed_time(*event.marks)
                event.device_time = max(1000 * float(milliseconds) - event.waited, 0.0)
                event.marks = None
            while open_at and open_at[-1].end <= event.start:
                open_at.pop()
            if open_at:
                open_at[-1].inside_device += event.device_time
            open_at.append(event)
