"""Whichever accelerator the machine has: CUDA, or none."""

from __future__ import annotations

import importlib
from typing import Any

from adjoint.engine.backends.array.gpu import cuda
from adjoint.engine.core.device import Device
from adjoint.engine.core.state.loading import lacking as _lacking


def is_available() -> bool:
    """Whether there is an accelerator."""
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator there is, or None.

    >>> device = current_accelerator() or Device("cpu")
    """
    return Device("cuda") if cuda.is_available() else None


def device_count() -> int:
    """How many there are."""
    return cuda.device_count() if cuda.is_available() else 0


def current_device_index() -> int:
    """The index of the one in use."""
    return int(cuda.current_device())


def set_device_index(device: Any) -> None:
    """Use another one."""
    cuda.set_device(device)


def synchronize(device: Any = None) -> None:
    """Wait for its work."""
    cuda.synchronize(device)


current_device_idx, set_device_idx = current_device_index, set_device_index  # older names


class device_index:
    """Use another accelerator inside a `with` block; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        self.prev_idx = -1
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *_: object) -> None:
        if self.idx is not None:
            set_device_index(self.prev_idx)


# What `cuda` answers of memory and streams; zeros where there is no accelerator.
_OF_CUDA = (
    "current_stream", "set_stream", "empty_cache", "memory_allocated", "max_memory_allocated",
    "memory_reserved", "max_memory_reserved", "memory_stats", "reset_peak_memory_stats",
    "reset_accumulated_memory_stats", "get_device_capability",
)  # fmt: skip


def get_memory_info(device_index: Any = None) -> tuple[int, int]:
    """Free and total bytes of an accelerator's memory."""
    free, total = _module().mem_get_info(device_index)
    return int(free), int(total)


def _module() -> Any:
    return importlib.import_module("adjoint.cuda")


def __getattr__(name: str) -> Any:
    if name in _OF_CUDA:
        return getattr(_module(), name)
    raise _lacking(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_CUDA})


def get_device_module(device: Any = None) -> Any:
    """The module of a kind of device: `cuda`, `cpu`; of the accelerator, if there is one.

    Example:
        >>> import adjoint as ad
        >>> ad.get_device_module("cpu") is ad.cpu
        True
    """
    if device is None:
        kind = (current_accelerator() or Device("cpu")).type
    else:
        kind = device.type if isinstance(device, Device) else Device(device).type
    return importlib.import_module(f"adjoint.{kind}")
