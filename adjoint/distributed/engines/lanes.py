"""A lane: the stream of a GPU on which a communicator's work is queued."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from adjoint.engine.backends.array.devices import cupy


class Lane(Protocol):
    """Where a communicator's operations are queued, and the library of its arrays."""

    xp: Any
    stream: int  # the driver's handle

    def another(self) -> Lane:
        """A lane of its own on the same device."""
        ...

    def ready(self) -> Any:
        """A mark after what the caller has asked for so far."""
        ...

    def entered(self, ready: Any) -> Any:
        """A context in which work goes to the lane, after a mark."""
        ...

    def mark(self) -> Any:
        """A mark after the lane's work: with `done`, and `join` for the caller's own work."""
        ...


class StreamMark:
    """A place in a stream."""

    __slots__ = ("cuda", "event")

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda
        self.event = cuda.Event(disable_timing=True)
        self.event.record()

    @property
    def done(self) -> bool:
        """Whether it was reached."""
        return bool(self.event.done)

    def join(self) -> None:
        """Have the caller's later work wait for it."""
        self.cuda.get_current_stream().wait_event(self.event)


class GpuLane:
    """A stream of its own on one GPU."""

    def __init__(self, index: int) -> None:
        self.xp = cupy()
        self.device = self.xp.cuda.Device(index)
        with self.device:
            self._stream = self.xp.cuda.Stream(non_blocking=True)
        self.stream = int(self._stream.ptr)

    def another(self) -> GpuLane:
        """A lane of its own on the same GPU."""
        return GpuLane(int(self.device.id))

    def ready(self) -> StreamMark:
        """A mark after what the caller has asked for so far."""
        with self.device:
            return StreamMark(self.xp.cuda)

    @contextmanager
    def entered(self, ready: StreamMark) -> Iterator[None]:
        """A context in which work goes to the lane, after a mark."""
        with self.device, self._stream:
            self._stream.wait_event(ready.event)
            yield

    def mark(self) -> StreamMark:
        """A mark after the lane's work so far."""
        return StreamMark(self.xp.cuda)


class LaneRequest:
    """Work on a lane; who waits for it is not held up, only what is queued after."""

    __slots__ = ("fault", "keeps", "mark")

    def __init__(self, mark: Any, fault: Callable[[], None], keeps: Any) -> None:
        self.mark, self.fault = mark, fault
        self.keeps = keeps  # arrays that are read or written until it is done

    def done(self) -> bool:
        """Whether the GPU has done it; raises what went wrong meanwhile."""
        self.fault()
        if not self.mark.done:
            return False
        self.keeps = None
        return True

    def join(self) -> None:
        """Have the caller's later work wait for it."""
        self.mark.join()
