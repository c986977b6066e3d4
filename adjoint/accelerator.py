"""Whichever accelerator the machine has: CUDA, or none."""

from __future__ import annotations

import importlib
from typing import Any

from adjoint.engine.backends.array.gpu import cuda
from adjoint.engine.core.device import Device


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
