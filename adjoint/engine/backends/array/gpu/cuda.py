"""The CUDA device through CuPy: what is there, and which one is current."""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass
from functools import cache
from typing import Any

from adjoint.engine.backends.array.devices import cupy, is_loaded
from adjoint.engine.backends.array.gpu.faults import wait
from adjoint.engine.core.device import Device
from adjoint.engine.core.errors import DeviceError

_without_cupy: list[Any] = []  # where modules were looked for, and CuPy was not found


def is_available() -> bool:
    """Whether CuPy, Triton, a driver and a GPU are all there."""
    if is_loaded():
        return True
    places = [*sys.path, *sys.meta_path]
    if places == _without_cupy and "cupy" not in sys.modules:
        return False  # programs ask at each step, and a search in vain takes 100 us
    _without_cupy.clear()
    try:
        cupy()
    except RuntimeError as error:
        if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name == "cupy":
            _without_cupy[:] = places
        return False
    return True


def device_count() -> int:
    """The number of GPUs."""
    return int(cupy().cuda.runtime.getDeviceCount()) if is_available() else 0


def index_of(device: Any = None) -> int:
    """A device's index; the current device's where none is given."""
    if device is None:
        return current_device()
    if isinstance(device, int) and not isinstance(device, bool):
        index: int | None = device
    else:
        wanted = Device(device)
        if wanted.type != "cuda":
            raise ValueError(f"expected a CUDA device, received {str(wanted)!r}")
        index = wanted.index
    if index is None:
        return current_device()
    count = int(cupy().cuda.runtime.getDeviceCount())
    if not 0 <= index < count:
        raise DeviceError(
            f"CUDA error: invalid device ordinal: there is no cuda:{index}, there are {count} GPUs"
        )
    return index


def current_device() -> int:
    """The index of the device new CUDA tensors go to."""
    return int(cupy().cuda.runtime.getDevice())


def set_device(device: Any) -> None:
    """Make a device the current one; a negative number changes nothing."""
    if not (isinstance(device, int) and device < 0):
        cupy().cuda.Device(index_of(device)).use()


class device:
    """A device as the current one, in a `with` block; None or a negative number changes nothing.

    Args:
        device: the device, or its number.
    """

    def __init__(self, device: Any) -> None:
        unchanged = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if unchanged else index_of(device)
        self.prev_idx = -1
        self._entered: list[Any] = []

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_device()
            entered = cupy().cuda.Device(self.idx)
            entered.__enter__()
            self._entered.append(entered)

    def __exit__(self, *what: object) -> None:
        if self.idx >= 0:
            self._entered.pop().__exit__(*what)


class device_of(device):
    """The device of a tensor as the current one; no change for tensors of other kinds.

    Args:
        obj: the tensor or storage.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.is_cuda else None)


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What the driver says of a GPU."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    is_integrated: int
    is_multi_gpu_board: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    uuid: uuid.UUID

    @property
    def gcnArchName(self) -> str:
        """The architecture, as the driver names it."""
        return self.name

    def __str__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // (1 << 20)}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"L2_cache_size={self.L2_cache_size // (1 << 20)}MB)"
        )

    __repr__ = __str__


# Fields that are numbers, and the driver's numbers for them.
ATTRIBUTES = {
    "major": 75, "minor": 76, "multi_processor_count": 16, "warp_size": 10,
    "max_threads_per_block": 1, "max_threads_per_multi_processor": 39,
    "regs_per_multiprocessor": 82, "shared_memory_per_block": 8,
    "shared_memory_per_block_optin": 97, "shared_memory_per_multiprocessor": 81,
    "L2_cache_size": 38, "clock_rate": 13, "memory_clock_rate": 36, "memory_bus_width": 37,
    "is_integrated": 18, "is_multi_gpu_board": 84, "pci_bus_id": 33, "pci_device_id": 34,
    "pci_domain_id": 50,
}  # fmt: skip


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, compute capability, memory, multiprocessors and limits of a GPU."""
    return _properties(index_of(device))


@cache
def _properties(index: int) -> DeviceProperties:
    runtime = cupy().cuda.runtime
    properties = runtime.getDeviceProperties(index)
    name = (
        properties["name"].decode() if isinstance(properties["name"], bytes) else properties["name"]
    )
    numbers = {
        field: int(runtime.deviceGetAttribute(number, index))
        for field, number in ATTRIBUTES.items()
    }
    identity = uuid.UUID(bytes=bytes(properties["uuid"]).ljust(16, b"\0")[:16])
    return DeviceProperties(
        name=name, total_memory=int(properties["totalGlobalMem"]), uuid=identity, **numbers
    )


def get_device_name(device: Any = None) -> str:
    """The GPU's name."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability, as (major, minor)."""
    p = get_device_properties(device)
    return p.major, p.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a GPU reads another one's memory directly."""
    one, other = index_of(device), index_of(peer_device)
    return one != other and bool(cupy().cuda.runtime.deviceCanAccessPeer(one, other))


def synchronize(device: Any = None) -> None:
    """Wait until all work on a device is done."""
    with cupy().cuda.Device(index_of(device)):
        wait(cupy().cuda.runtime.deviceSynchronize)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device, as the driver counts them."""
    with cupy().cuda.Device(index_of(device)):
        free, total = cupy().cuda.runtime.memGetInfo()
        return int(free), int(total)
