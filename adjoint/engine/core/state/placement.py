"""Where new tensors go: an explicit device, else the default one."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT


def chosen(device: Any) -> Device:
    """The device an argument means; None is the default device, plain "cuda" the current GPU."""
    if device is None:
        device = CONTEXT.device
        if device is None:
            return CPU
    device = Device(device)
    if device.type == "meta":
        return Device("meta")  # one device, whatever its index
    if device.type != "cpu" and device.index is None:
        return HOOKS.array.full_device(device)
    return device


@public()
def get_default_device() -> Device:
    """The device of tensors created without one.

    >>> get_default_device()
    device(type='cpu')
    """
    return CPU if CONTEXT.device is None else CONTEXT.device


@public()
def set_default_device(device: Any) -> None:
    """Make `device` the one tensors are created on; None is the CPU again."""
    CONTEXT.device = None if device is None else Device(device)


def _enter(self: Device) -> Device:
    CONTEXT.devices = (*CONTEXT.devices, CONTEXT.device)
    CONTEXT.device = self
    return self


def _exit(self: Device, *_: object) -> None:
    CONTEXT.device = CONTEXT.devices[-1]
    CONTEXT.devices = CONTEXT.devices[:-1]


# `with device("cuda"):` creates tensors there.
Device.__enter__ = _enter  # type: ignore[method-assign]
Device.__exit__ = _exit  # type: ignore[method-assign]
