"""What a profile has seen: one event after the other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from threading import get_ident
from typing import Any, NamedTuple

from adjoint.engine.core.origins import Where, below_root
from adjoint.profiler.table import duration


class DeviceType(Enum):
    """Where an event took place: on the CPU, or as a kernel of a GPU."""

    CPU = 0
    CUDA = 1


class Interval(NamedTuple):
    """From when to when, in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long."""
        return self.end - self.start


class LaunchedKernel(NamedTuple):
    """What an operation launched on a GPU: its name, the GPU's number, microseconds."""

    name: str
    device: int
    duration: float


def _written(attribute: str) -> Any:
    return property(lambda self: duration(getattr(self, attribute)), doc=f"`{attribute}` as text.")


class EventSums:
    """PyTorch's names for the times and the memory of an event and of many."""

    __slots__ = ()

    count: Any
    cpu_time_total: Any
    device_time_total: Any

    @property
    def cpu_time(self) -> float:
        """Microseconds of one, on average."""
        return float(self.cpu_time_total / max(self.count, 1))

    @property
    def device_time(self) -> float:
        """The same on the device."""
        return float(self.device_time_total / max(self.count, 1))

    cuda_time: Any = property(lambda self: self.device_time)
    cuda_time_total: Any = property(lambda self: self.device_time_total)
    self_cuda_time_total: Any = property(lambda self: self.self_device_time_total)
    cuda_memory_usage: Any = property(lambda self: self.device_memory_usage)
    self_cuda_memory_usage: Any = property(lambda self: self.self_device_memory_usage)
    cpu_time_str: Any = _written("cpu_time")
    device_time_str: Any = _written("device_time")
    cpu_time_total_str: Any = _written("cpu_time_total")
    device_time_total_str: Any = _written("device_time_total")
    self_cpu_time_total_str: Any = _written("self_cpu_time_total")
    self_device_time_total_str: Any = _written("self_device_time_total")


@dataclass(init=False, eq=False, repr=False)
class TimedEvent(EventSums):
    """One operation, kernel, stage of the compiler or named range; times in microseconds.

    There are many of them: what one does not differ in stays the class's.
    """

    name: str
    start: float
    end: float = 0.0
    kind: str = "cpu_op"  # "user_annotation", "compile", "compiled", "kernel"
    depth: int = 0
    inside: float = 0.0  # of the time, what events within it took
    shapes: tuple[Any, ...] = ()
    thread: int = 0
    thread_name: str = ""
    count: int = 1  # turns of a loop that one event stands for
    flops: int = 0  # with those of events within it
    inside_flops: int = 0
    moved: int = 0  # bytes that it reads and writes
    cpu_memory_usage: int = 0  # bytes that it took and did not give back
    inside_memory: int = 0
    device_memory_usage: int = 0  # the same of a GPU's
    inside_device_memory: int = 0
    stack: tuple[str, ...] = ()  # innermost first: "file.py(12): function"
    places: tuple[Where, ...] = ()
    operations: tuple[str, ...] = ()  # that a fused kernel does
    device_time_total: float = 0.0
    inside_device: float = 0.0
    mark: Any = None  # of a GPU, put after it, until it is read
    waited: float = 0.0  # of the time on the device, what it was held up for, to be timed
    device: str = ""  # a GPU's name: its kernel, which takes no time of the CPU's
    outer: Any = None  # the event that it is within
    within: Any = None  # the events in it, where there are any

    # PyTorch's names for what is the same of every event here.
    node_id = -1
    is_async = is_remote = is_legacy = False
    overload_name = ""

    def __init__(
        self,
        name: str,
        start: float,
        end: float = 0.0,
        kind: str = "cpu_op",
        depth: int = 0,
        thread: int | None = None,
    ) -> None:
        self.name, self.start, self.end, self.kind, self.depth = name, start, end, kind, depth
        self.thread = get_ident() if thread is None else thread

    def __repr__(self) -> str:
        times = f"cpu_time={self.cpu_time_total_str} device_time={self.device_time_total_str}"
        return f"<{self.__class__.__name__} name={self.name!r} kind={self.kind!r} {times}>"

    @property
    def key(self) -> str:
        """What it is counted under."""
        return self.name

    @property
    def trace_name(self) -> str:
        """What it is called in trace files."""
        return self.name

    @property
    def is_user_annotation(self) -> bool:
        """Whether it is a named range of the program's."""
        return self.kind == "user_annotation"

    @property
    def time_range(self) -> Interval:
        """When it was."""
        return Interval(self.start, self.end)

    @property
    def input_shapes(self) -> list[list[int]]:
        """The operands' shapes, where they were recorded."""
        return [list(shape) for shape in self.shapes]

    @property
    def device_type(self) -> DeviceType:
        """Where it took place."""
        return DeviceType.CUDA if self.device else DeviceType.CPU

    @property
    def device_index(self) -> int:
        """The GPU's number; 0 for the CPU."""
        number = self.device.partition(":")[2]
        return int(number) if number.isdigit() else 0

    @property
    def use_device(self) -> str | None:
        """ "cuda" where a GPU worked for it."""
        return "cuda" if self.device or self.device_time_total else None

    # -- what surrounds it, and what is in it ----------------------------------------------------

    @property
    def cpu_parent(self) -> TimedEvent | None:
        """The event that it is directly within."""
        parent: TimedEvent | None = None if self.device else self.outer
        return parent

    @property
    def cpu_children(self) -> list[TimedEvent]:
        """The CPU's events that are directly within it."""
        return [event for event in self.within or () if not event.device]

    @property
    def kernels(self) -> list[LaunchedKernel]:
        """What it launched on a GPU, where that was a compiled program."""
        launched = [event for event in self.within or () if event.device]
        return [LaunchedKernel(e.name, e.device_index, e.device_time_total) for e in launched]

    def put_in(self, outer: TimedEvent) -> None:
        """It is directly within another."""
        self.outer = outer
        if outer.within is None:
            outer.within = []
        outer.within.append(self)

    # -- of what it took, its own part -----------------------------------------------------------

    @property
    def cpu_time_total(self) -> float:
        """Microseconds of the CPU's from beginning to end."""
        return 0.0 if self.device else self.end - self.start

    @property
    def self_cpu_time_total(self) -> float:
        """Of these, those not spent in events within it."""
        return self.cpu_time_total - self.inside

    @property
    def self_device_time_total(self) -> float:
        """The same of the GPU's."""
        return self.device_time_total - self.inside_device

    @property
    def self_cpu_memory_usage(self) -> int:
        """Of the bytes it took, those that no event within it took."""
        return self.cpu_memory_usage - self.inside_memory

    @property
    def self_device_memory_usage(self) -> int:
        """The same of the GPU's."""
        return self.device_memory_usage - self.inside_device_memory

    @property
    def self_flops(self) -> int:
        """Of its floating-point operations, those that no event within it did."""
        return self.flops - self.inside_flops

    def count_inside(self, flops: int) -> None:
        """Operations of a kernel in it, which were not counted yet; negative: they were."""
        event: TimedEvent | None = self
        while event is not None:
            event.flops += flops
            if event is not self or flops > 0:
                event.inside_flops += flops
            event = event.outer

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules it works for, as their model names them."""
        return tuple(dict.fromkeys(below_root(w.module) for w in self.places if w.module))

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the program that it comes from."""
        return tuple(dict.fromkeys(f"{w.file}:{w.line}" for w in self.places))
