"""The CPU as a device: `adjoint.cpu`."""

from adjoint.cpu import amp as amp


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def device_count() -> int:
    """How many CPUs count as devices: one."""
    return 1


def current_device() -> str:
    """The current CPU device."""
    return "cpu"


def synchronize(device: object = None) -> None:
    """Wait for work on the CPU, which is always done."""
