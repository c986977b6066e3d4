"""Streams and events of GPUs, through CuPy."""

from __future__ import annotations

import ctypes
from typing import Any

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.gpu.cuda import index_of
from adjoint.engine.backends.array.gpu.faults import wait
from adjoint.engine.core.device import Device

LEAST_PRIORITY, GREATEST_PRIORITY = 0, -5  # the lower the number, the sooner


class _GivenStream:
    """A stream of somebody else's, as libraries hand them to each other."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


class Stream:
    """A queue of work on a device; `with stream(s):` sends work to it.

    Args:
        device: the GPU; the current one unless given.
        priority: a negative number goes before 0.
        stream_ptr: the driver's handle of a stream that somebody else made.
    """

    def __init__(
        self,
        device: Any = None,
        priority: int = 0,
        *,
        stream_ptr: int | None = None,
        wrapped: Any = None,
    ) -> None:
        index = index_of(device)
        self.device = Device("cuda", index)
        module = cupy().cuda
        if stream_ptr is not None:
            wrapped = module.Stream.from_external(_GivenStream(int(stream_ptr)))
        if wrapped is None:
            if not isinstance(priority, int):
                raise TypeError(f"cuda.Stream: priority must be an int, received {priority!r}")
            with module.Device(index):
                wrapped = module.Stream(non_blocking=True, priority=priority)
        self.wrapped = wrapped
        self._entered: list[StreamContext] = []

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return int(self.wrapped.ptr)

    stream_id = cuda_stream

    @property
    def device_index(self) -> int:
        """The number of its GPU."""
        return int(self.device.index or 0)

    @property
    def device_type(self) -> int:
        """PyTorch's number of the kind of device: 1, CUDA."""
        return 1

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    @property
    def priority(self) -> int:
        """The number that says who goes first; the lower, the sooner."""
        return int(cupy().cuda.runtime.streamGetPriority(self.cuda_stream))

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return LEAST_PRIORITY, GREATEST_PRIORITY

    def synchronize(self) -> None:
        """Wait for the work queued so far."""
        wait(self.wrapped.synchronize)

    def query(self) -> bool:
        """Whether all work queued is done."""
        return bool(self.wrapped.done)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that completes when the work queued so far does."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Hold later work until the event has completed."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Hold later work until what `stream` has queued is done."""
        self.wait_event(stream.record_event())

    def is_capturing(self) -> bool:
        """Whether work goes into a graph that is being captured."""
        return bool(self.wrapped.is_capturing)

    def __enter__(self) -> Stream:
        context = StreamContext(self)
        context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(self, *what: object) -> None:
        self._entered.pop().__exit__(*what)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.cuda_stream, self.device) == (other.cuda_stream, other.device)

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device.index))

    def __repr__(self) -> str:
        return f"<cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made, by the driver's handle; it must outlive this object."""

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        super().__init__(device, stream_ptr=stream_ptr)


class Event:
    """A mark in a stream: to wait for, or to time with.

    Args:
        enable_timing: whether `elapsed_time` may be asked of it.
        blocking: whether `synchronize` sleeps instead of looking again and again.
        interprocess: whether other processes may wait for it.
        external: whether a captured graph holds it as a mark of its own.
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        if external:
            raise NotImplementedError("cuda.Event: events of a graph's own are not supported")
        if interprocess and enable_timing:
            raise RuntimeError("cuda.Event: one that other processes wait for cannot take times")
        self.wrapped = cupy().cuda.Event(
            block=blocking, disable_timing=not enable_timing, interprocess=interprocess
        )
        self._timed = bool(enable_timing)
        self._device: Device | None = None  # where it was recorded last

    @property
    def cuda_event(self) -> int:
        """The driver's handle."""
        return int(self.wrapped.ptr)

    @property
    def device(self) -> Device | None:
        """Where it was recorded."""
        return self._device

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark after the work queued so far."""
        stream = stream or current_stream()
        self.wrapped.record(stream.wrapped)
        self._device = stream.device

    def wait(self, stream: Stream | None = None) -> None:
        """Hold a stream's later work until the mark is reached."""
        (stream or current_stream()).wrapped.wait_event(self.wrapped)

    def synchronize(self) -> None:
        """Wait for the mark."""
        wait(self.wrapped.synchronize)

    def query(self) -> bool:
        """Whether the mark has been reached."""
        return bool(self.wrapped.done)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._device is None or end_event._device is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError(
                "cuda.Event.elapsed_time: both events must be completed before the time between "
                "them is asked for; call synchronize() on the second."
            )
        return float(cupy().cuda.get_elapsed_time(self.wrapped, end_event.wrapped))

    def ipc_handle(self) -> bytes:
        """What another process needs to wait for it."""
        return bytes(cupy().cuda.runtime.ipcGetEventHandle(self.cuda_event))

    def __repr__(self) -> str:
        return f"<cuda.Event {self.cuda_event:#x}>"


class StreamContext:
    """A stream (or None: no change) as the current one, in a `with` block."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._entered: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        if self.stream is None:
            return
        device = cupy().cuda.Device(self.stream.device_index)
        device.__enter__()
        self.stream.wrapped.__enter__()
        self._entered.append((device, self.stream.wrapped))

    def __exit__(self, *what: object) -> None:
        if self.stream is not None:
            for entered in reversed(self._entered.pop()):
                entered.__exit__(*what)


def stream(stream: Stream | None) -> StreamContext:
    """A stream as the current one, for a block."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The stream work goes to."""
    index = index_of(device)
    return Stream(index, wrapped=cupy().cuda.get_current_stream(index))


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to unless another is chosen."""
    return Stream(device, wrapped=cupy().cuda.Stream.null)


def set_stream(stream: Stream | None) -> None:
    """Send work to a stream from now on; `with stream(s):` does so for a block."""
    if stream is not None:
        cupy().cuda.Device(stream.device_index).use()
        stream.wrapped.use()


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """The stream that has a handle of the driver's."""
    return Stream(device, stream_ptr=data_ptr)


def is_current_stream_capturing() -> bool:
    """Whether work that is asked for now goes into a graph."""
    return bool(cupy().cuda.get_current_stream().is_capturing)
