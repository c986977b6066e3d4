"""The way of a collective's elements: through the host's engine, or between GPUs by NCCL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from adjoint.distributed.communication import buffers
from adjoint.distributed.communication.buffers import Finish
from adjoint.distributed.communication.progress import PROGRESS, Channel, CollectiveCall
from adjoint.distributed.engines import nccl
from adjoint.distributed.engines.lanes import GpuLane, Lane, LaneRequest
from adjoint.distributed.engines.nccl_communicator import NcclCommunicator
from adjoint.distributed.groups.group import ProcessGroup
from adjoint.engine.core.device import Device
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.late_faults import settle
from adjoint.engine.tensor.tensor import Tensor

Start = Callable[[Any], Any]  # begins an operation, given the communicator


class Way(Protocol):
    """Arrays that an engine reads and writes, and how its operations begin."""

    @property
    def xp(self) -> Any:
        """The library of its arrays."""
        ...

    def read(self, tensor: Tensor) -> Any:
        """A tensor's elements as a contiguous array, its own memory where possible."""
        ...

    def written(self, tensor: Tensor) -> tuple[Any, Finish]:
        """A contiguous array to write results in, and what brings them to the tensor."""
        ...

    def put(self, tensor: Tensor, array: Any) -> None:
        """Write an array's elements into a tensor."""
        ...

    def begin(
        self, what: str, start: Start, finish: Finish = None, timeout: float | None = None
    ) -> CollectiveCall:
        """Begin a collective."""
        ...


class HostWay:
    """Arrays of the host; tensors on GPUs are copied there and back."""

    xp: Any = np
    read = staticmethod(buffers.read)
    written = staticmethod(buffers.written)
    put = staticmethod(buffers.put)

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def begin(
        self, what: str, start: Start, finish: Finish = None, timeout: float | None = None
    ) -> CollectiveCall:
        """Begin a collective."""
        channel = self.channel
        return PROGRESS.submit(channel, what, lambda: start(channel.data), finish, timeout)


class LaneWay:
    """Arrays of a GPU, and operations on a stream of their own."""

    name = " by NCCL"

    def __init__(self, channel: Channel, lane: Lane) -> None:
        self.channel, self.lane = channel, lane
        self.xp = lane.xp

    def read(self, tensor: Tensor) -> Any:
        """A tensor's elements as a contiguous array, its own memory where possible."""
        return self.xp.ascontiguousarray(tensor._array).reshape(tuple(tensor.shape))

    def written(self, tensor: Tensor) -> tuple[Any, Finish]:
        """A contiguous array to write results in, and what brings them to the tensor."""
        settle()  # Note [faults of programs]
        array = tensor._array
        HOOKS.array.check_overlap(array)
        tensor._storage.version += 1
        if array.flags.c_contiguous:
            return array, None
        contiguous = self.xp.ascontiguousarray(array)
        return contiguous, lambda: self.put(tensor, contiguous)

    def put(self, tensor: Tensor, array: Any) -> None:
        """Write an array's elements into a tensor."""
        target = tensor._array
        target[...] = array.reshape(target.shape)

    def begin(
        self, what: str, start: Start, finish: Finish = None, timeout: float | None = None
    ) -> CollectiveCall:
        """Begin a collective: after what the caller has queued so far, in the lane's own stream."""
        channel, lane = self.channel, self.lane
        ready = lane.ready()

        def queue() -> LaneRequest:
            with lane.entered(ready):
                start(channel.data)
                if finish is not None:
                    finish()
                communicator: Any = channel.data
                return LaneRequest(lane.mark(), communicator.fault, (start, finish))

        return PROGRESS.submit(channel, what + self.name, queue, None, timeout)


def way_for(group: ProcessGroup, *tensors: Tensor) -> Way:
    """The way of some tensors of one collective."""
    devices = {t.device for t in tensors if t.device.type == "cuda"}
    if not devices or "nccl" not in group.backend:
        return HostWay(group.channel)
    if len(devices) > 1 or any(t.device.type != "cuda" for t in tensors):
        received = ", ".join(sorted({str(t.device) for t in tensors}))
        raise DeviceError(f"a collective's tensors must be on one device, received {received}")
    return device_way(group, devices.pop())


def device_way(group: ProcessGroup, device: Device) -> LaneWay:
    """The way between a group's GPUs, made when its members first use it."""
    connection = group.device_channels.get(str(device))
    if connection is None:
        connection = group.device_channels[str(device)] = connect(group, GpuLane(device.index or 0))
    return LaneWay(connection.channel, connection.lane)


class DeviceChannel:
    """A channel between GPUs, and the lane of this process's."""

    def __init__(self, channel: Channel, lane: Lane) -> None:
        self.channel, self.lane = channel, lane

    def close(self) -> None:
        """Let go of the communicator."""
        self.channel.data.close()


def join_gpus(identity: bytes, rank: int, size: int, lane: GpuLane) -> NcclCommunicator:
    """Join a communicator under its identity; returns when all its members have."""
    library = nccl.load()
    with lane.device:
        handle = library.join(identity, rank, size)
    return NcclCommunicator(library, handle, rank, size, lane)


def connect(group: ProcessGroup, lane: GpuLane) -> DeviceChannel:
    """Join a communicator of the group's GPUs: the first member names it, by the host's engine."""
    host, rank, size = group.channel, group.rank(), group.size()
    identity = np.zeros(nccl.ID_BYTES, np.uint8)
    if rank == 0:
        identity[:] = np.frombuffer(nccl.load().unique_id(), np.uint8)
    what = f"an NCCL communicator of {size} processes"
    PROGRESS.wait(HostWay(host).begin(what, lambda comm: comm.broadcast(identity, 0)))

    def join() -> NcclCommunicator:
        return join_gpus(identity.tobytes(), rank, size, lane)

    communicator: Any = PROGRESS.blocking(f"group {host.name}: {what}", join, host.timeout)
    channel = Channel(communicator, host.check, host.members, host.name, host.timeout)
    return DeviceChannel(channel, lane)
