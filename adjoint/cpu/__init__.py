"""The CPU as a device: `adjoint.cpu`. Work on it is done when its call returns."""

from __future__ import annotations

import contextlib
from typing import Any

from adjoint.cpu import amp as amp
from adjoint.cpu.memory import get_memory_limit as get_memory_limit
from adjoint.cpu.memory import max_memory_allocated as max_memory_allocated
from adjoint.cpu.memory import memory_allocated as memory_allocated
from adjoint.cpu.memory import memory_stats as memory_stats
from adjoint.cpu.memory import reset_peak_memory_stats as reset_peak_memory_stats
from adjoint.cpu.memory import set_memory_limit as set_memory_limit


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def is_initialized() -> bool:
    """Whether it is ready: always."""
    return True


def device_count() -> int:
    """How many CPUs count as devices: one."""
    return 1


def current_device() -> str:
    """The current CPU device."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one."""


def synchronize(device: object = None) -> None:
    """Wait for work on the CPU, which is always done."""


class Stream:
    """An order of work; on the CPU there is one, the program's."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Nothing: its work is done."""

    def record_event(self) -> Event:
        """A mark behind what is done."""
        return Event()

    def wait_event(self, event: Any) -> None:
        """Nothing: what it marks is done."""


class Event:
    """A mark in the order of work; what comes before it is done."""

    def query(self) -> bool:
        """Whether it is done: yes."""
        return True

    def record(self, stream: Any = None) -> None:
        """Mark this place."""

    def synchronize(self) -> None:
        """Nothing: it is done."""

    def wait(self, stream: Any = None) -> None:
        """Nothing: it is done."""


_DEFAULT = Stream()


def current_stream(device: Any = None) -> Stream:
    """The program's order of work."""
    return _DEFAULT


def stream(stream: Stream | None) -> Any:
    """A `with` block on a stream."""
    return contextlib.nullcontext(stream)


class StreamContext(contextlib.nullcontext[Any]):
    """A `with` block on a stream."""
