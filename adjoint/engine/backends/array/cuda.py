"""The CUDA device through CuPy: what is there, memory, streams and events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.core.device import Device


def is_available() -> bool:
    """Whether CuPy, a driver and a GPU are all there."""
    try:
        cupy()
    except RuntimeError:
        return False
    return True


def device_count() -> int:
    """The number of GPUs."""
    return int(cupy().cuda.runtime.getDeviceCount()) if is_available() else 0


def index_of(device: Any = None) -> int:
    """A device's index; the current device's where none is given."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    index = Device(device).index
    return current_device() if index is None else index


def current_device() -> int:
    """The index of the device new CUDA tensors go to."""
    return int(cupy().cuda.runtime.getDevice())


def set_device(device: Any) -> None:
    """Make a device the current one."""
    cupy().cuda.Device(index_of(device)).use()


@contextmanager
def device(device: Any) -> Iterator[None]:
    """A device as the current one, for a block."""
    with cupy().cuda.Device(index_of(device)):
        yield


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What the driver says of a GPU."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, compute capability, memory and multiprocessors of a GPU."""
    p = cupy().cuda.runtime.getDeviceProperties(index_of(device))
    name = p["name"].decode() if isinstance(p["name"], bytes) else p["name"]
    return DeviceProperties(
        name, p["major"], p["minor"], p["totalGlobalMem"], p["multiProcessorCount"]
    )


def get_device_name(device: Any = None) -> str:
    """The GPU's name."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability, as (major, minor)."""
    p = get_device_properties(device)
    return p.major, p.minor


def synchronize(device: Any = None) -> None:
    """Wait until all work on a device is done."""
    with cupy().cuda.Device(index_of(device)):
        cupy().cuda.runtime.deviceSynchronize()


def memory_allocated(device: Any = None) -> int:
    """Bytes held by tensors on a device."""
    with cupy().cuda.Device(index_of(device)):
        return int(cupy().get_default_memory_pool().used_bytes())


def memory_reserved(device: Any = None) -> int:
    """Bytes the pool holds on a device, in use or free for reuse."""
    with cupy().cuda.Device(index_of(device)):
        return int(cupy().get_default_memory_pool().total_bytes())


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device, as the driver counts them."""
    with cupy().cuda.Device(index_of(device)):
        free, total = cupy().cuda.runtime.memGetInfo()
        return int(free), int(total)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The pool's state in words."""
    free, total = mem_get_info(device)
    used, held = memory_allocated(device), memory_reserved(device)
    mib = 1 << 20
    return (
        f"cuda:{index_of(device)} {get_device_name(device)}\n"
        f"  held by tensors   {used / mib:12.1f} MiB\n"
        f"  held by the pool  {held / mib:12.1f} MiB ({(held - used) / mib:.1f} free for reuse)\n"
        f"  free on device    {free / mib:12.1f} MiB of {total / mib:.1f}"
    )


def empty_cache() -> None:
    """Give the pool's unused memory back to the driver."""
    if is_available():
        cupy().get_default_memory_pool().free_all_blocks()
        cupy().get_default_pinned_memory_pool().free_all_blocks()


class Stream:
    """A queue of work on a device; `with stream(s):` sends work to it."""

    def __init__(self, device: Any = None, priority: int = 0, *, wrapped: Any = None) -> None:
        self.device = Device("cuda", index_of(device))
        if wrapped is None:
            with cupy().cuda.Device(self.device.index):
                wrapped = cupy().cuda.Stream(non_blocking=True, priority=priority)
        self.wrapped = wrapped

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return int(self.wrapped.ptr)

    def synchronize(self) -> None:
        """Wait for the work queued so far."""
        self.wrapped.synchronize()

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
        self.wrapped.wait_event(event.wrapped)

    def wait_stream(self, stream: Stream) -> None:
        """Hold later work until what `stream` has queued is done."""
        self.wait_event(stream.record_event())


class Event:
    """A mark in a stream: to wait for, or to time with."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self.wrapped = cupy().cuda.Event(block=blocking, disable_timing=not enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark after the work queued so far."""
        self.wrapped.record((stream or current_stream()).wrapped)

    def synchronize(self) -> None:
        """Wait for the mark."""
        self.wrapped.synchronize()

    def query(self) -> bool:
        """Whether the mark has been reached."""
        return bool(self.wrapped.done)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another."""
        return float(cupy().cuda.get_elapsed_time(self.wrapped, end_event.wrapped))


def current_stream(device: Any = None) -> Stream:
    """The stream work goes to."""
    return Stream(device, wrapped=cupy().cuda.get_current_stream())


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """A stream as the current one, for a block."""
    if stream is None:
        yield
        return
    with cupy().cuda.Device(stream.device.index), stream.wrapped:
        yield
