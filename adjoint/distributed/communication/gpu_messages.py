"""Messages from one process's GPU to another's, by NCCL.

Note [messages by NCCL]
    NCCL has no tags, and an operation that is queued holds up its stream until its counterpart is
    queued too. So the host says first what is sent (`Announcement`), the receiver answers with a
    number when it wants that message, and only then do both queue it: in the order of the numbers,
    on a wire (a communicator of two and a stream) of this direction alone. What is queued waits for
    queued work only, never for a program's next call, so that messages may be sent and received in
    any order that works on CPUs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.distributed.communication.buffers import Finish, describe
from adjoint.distributed.communication.messages import (
    ANSWERS,
    REFUSED,
    TAKEN,
    Announcement,
    fields_of,
    line_of,
    next_number,
    refuse,
)
from adjoint.distributed.communication.progress import LINE
from adjoint.distributed.communication.ways import LaneWay, join_gpus
from adjoint.distributed.engines import nccl
from adjoint.distributed.engines.base import Communicator, Request
from adjoint.distributed.engines.lanes import GpuLane, Lane, LaneRequest
from adjoint.distributed.errors import DistBackendError
from adjoint.distributed.groups.group import ProcessGroup
from adjoint.engine.tensor.tensor import Tensor

MESSAGES = "messages"  # among a group's device channels


class Wire:
    """One direction between the GPUs of two processes, or of one with itself."""

    def __init__(self, identity: bytes, rank: int, size: int, lane: Any) -> None:
        self.identity, self.lane = identity, lane
        self.taken = 0  # messages that the receiver has given a number
        self.turn = 0  # the number of the message that is queued next
        self.communicator: Any = None
        self.error: Exception | None = None
        # Joining waits for the other process, which may be joining others: not in anybody's way.
        threading.Thread(target=self._join, args=(rank, size), daemon=True).start()

    def _join(self, rank: int, size: int) -> None:
        try:
            self.communicator = join_gpus(self.identity, rank, size, self.lane)
        except Exception as error:
            self.error = error

    def queue(
        self, number: int, ready: Sequence[Any], start: Callable[[Any], None], keeps: Any
    ) -> LaneRequest | None:
        """Queue a message when it is its turn, after some marks; None before that."""
        if self.error is not None:
            raise DistBackendError(f"a message between GPUs: {self.error}") from self.error
        if self.communicator is None or self.turn != number:
            return None
        self.turn += 1
        with ExitStack() as marks:
            for mark in ready:
                marks.enter_context(self.lane.entered(mark))
            start(self.communicator)
            return LaneRequest(self.lane.mark(), self.communicator.fault, keeps)

    def abort(self) -> None:
        """End what is under way."""
        if self.communicator is not None:
            self.communicator.abort()

    def close(self) -> None:
        """Let go of the communicator."""
        if self.communicator is not None:
            self.communicator.close()


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """From which GPU of a member to which of another."""

    sender: int
    receiver: int
    sending_device: str
    receiving_device: str


class Wires:
    """A group's wires, opened when they are first used."""

    def __init__(self) -> None:
        self.wires: dict[Route, Wire] = {}
        self.devices: dict[str, MessageDevice] = {}  # of this process, by name
        self.to_itself: dict[int, tuple[Any, Any]] = {}  # by number: an array, and when it is whole

    def open(self, direction: Route, identity: bytes | None, rank: int, lane: Lane) -> Wire:
        """The wire of a direction; its receiver makes the identity."""
        wire = self.wires.get(direction)
        if wire is None:
            size = 1 if direction.sender == direction.receiver else 2
            identity = nccl.load().unique_id() if identity is None else identity
            wire = Wire(identity, rank % size, size, lane.another())
            self.wires[direction] = wire
        return wire

    def close(self) -> None:
        """Let go of all, in one order on all processes: each waits for the other's."""
        for direction in sorted(self.wires):
            self.wires.pop(direction).close()


@dataclass(frozen=True, slots=True)
class MessageDevice:
    """A GPU of this process's, with a lane to make others from, and the wires of a group."""

    name: str
    lane: Lane
    wires: Wires


class _GpuMessage:
    """A message that is queued some time after it has begun."""

    def __init__(self, device: MessageDevice, ready: Any, array: Any) -> None:
        self.device, self.ready, self.array = device, ready, array
        self.wire: Wire | None = None
        self.request: Any = None
        self.join: Callable[[], None] | None = None  # when it is queued

    def queued(self, request: LaneRequest | None) -> None:
        """Have those that wait for the message wait for the GPU's work."""
        if request is not None:
            self.request, self.join = request, request.join

    def proceed(self) -> None:
        """Go on with what comes before the message is queued."""
        raise NotImplementedError

    def done(self) -> bool:
        """Whether the GPU has done it."""
        if self.request is None:
            self.proceed()
        return self.request is not None and bool(self.request.done())

    def abort(self) -> None:
        """End what is under way."""
        if self.wire is not None:
            self.wire.abort()


class SendingFromGpu(_GpuMessage):
    """A message that was announced, and is queued when its receiver has asked for it."""

    def __init__(
        self, device: MessageDevice, comm: Communicator, ready: Any, array: Any, what: str,
        peer: int, tag: int,
    ) -> None:  # fmt: skip
        super().__init__(device, ready, array)
        announcement = Announcement(next_number(), comm.rank, device.name, what)
        self.comm, self.peer, self.what = comm, peer, what
        self.line, self.answer = announcement.line(), np.empty(LINE, np.uint8)
        self.turn = -1
        self.awaited = [comm.send(self.line, peer, tag)]
        if peer == comm.rank:  # the receiving part queues both: this one has nothing to wait for
            device.wires.to_itself[announcement.number] = (array, ready)
            self.queued(LaneRequest(ready, lambda: None, self.awaited))
        else:
            tag_of_answer = ANSWERS + announcement.number
            self.awaited.append(comm.receive(self.answer, peer, tag_of_answer))

    def proceed(self) -> None:
        self.awaited = [r for r in self.awaited if not r.done()]
        if self.awaited:
            return
        if self.wire is None:
            self.open()
        if self.wire is not None:
            self.queued(self.wire.queue(self.turn, [self.ready], self.start, self.array))

    def open(self) -> None:
        """Read the answer, and take the wire it names."""
        verdict, turn, receiving_device, rest = fields_of(self.answer, 4)
        if verdict == REFUSED:
            raise DistBackendError(f"send: member {self.peer} wants no {self.what}: {rest}")
        self.turn = int(turn)
        direction = Route(self.comm.rank, self.peer, self.device.name, receiving_device)
        wires = self.device.wires
        self.wire = wires.open(direction, bytes.fromhex(rest), 0, self.device.lane)

    def start(self, communicator: Any) -> None:
        """Queue the elements."""
        communicator.send(self.array, 1)


class ReceivingOnGpu(_GpuMessage):
    """A message that may be announced; it is answered and queued then."""

    def __init__(
        self, device: MessageDevice, comm: Communicator, ready: Any, array: Any, finish: Finish,
        what: str, peer: int, tag: int,
    ) -> None:  # fmt: skip
        super().__init__(device, ready, array)
        self.comm, self.finish, self.what, self.source = comm, finish, what, peer
        self.line = np.empty(LINE, np.uint8)
        self.announced: Request = comm.receive(self.line, peer, tag)
        self.announcement: Announcement | None = None
        self.turn = -1
        self.answer: Any = None
        self.answering: list[Request] = []

    def proceed(self) -> None:
        if self.announcement is None:
            if not self.announced.done():
                return
            self.announcement = Announcement.read(self.line)
            self.take(self.announcement)
        self.answering = [r for r in self.answering if not r.done()]
        if self.wire is not None and not self.answering:
            self.queue(self.wire, self.announcement)

    def take(self, announcement: Announcement) -> None:
        """Answer the sender, in the order in which messages are asked for."""
        self.source = announcement.source
        refusal = announcement.refusal(self.what, self.device.name)
        if self.source == self.comm.rank and announcement.device != self.device.name:
            refusal = refusal or DistBackendError(
                f"recv: a message of a process to itself was sent from {announcement.device} and "
                f"cannot be received on {self.device.name}. Use `to` instead."
            )
        if refusal is not None:
            self.device.wires.to_itself.pop(announcement.number, None)
            refuse(self.comm, announcement, refusal)
        comm, wires = self.comm, self.device.wires
        direction = Route(self.source, comm.rank, announcement.device, self.device.name)
        self.wire = wires.open(direction, None, 1, self.device.lane)
        self.turn = self.wire.taken
        self.wire.taken += 1
        if self.source != comm.rank:
            self.answer = line_of(TAKEN, self.turn, self.device.name, self.wire.identity.hex())
            self.answering.append(
                comm.send(self.answer, self.source, ANSWERS + announcement.number)
            )

    def queue(self, wire: Wire, announcement: Announcement) -> None:
        """Queue the elements' arrival; of a message to this process itself, both its halves."""
        if announcement.source != self.comm.rank:
            self.queued(wire.queue(self.turn, [self.ready], self.start, (self.array, self.finish)))
            return
        to_itself = self.device.wires.to_itself
        array, whole = to_itself[announcement.number]

        def start(communicator: Any) -> None:
            communicator.send_to_itself(self.array, array)
            self.end()

        keeps = (self.array, array, self.finish)
        self.queued(wire.queue(self.turn, [whole, self.ready], start, keeps))
        if self.request is not None:
            del to_itself[announcement.number]

    def start(self, communicator: Any) -> None:
        """Queue the elements' arrival."""
        communicator.receive(self.array, 0)
        self.end()

    def end(self) -> None:
        """Queue what brings the elements to the tensor."""
        if self.finish is not None:
            self.finish()


def message_device(group: ProcessGroup, tensor: Tensor) -> MessageDevice | None:
    """What a tensor's message goes by between GPUs; None where the host carries it."""
    if tensor.device.type != "cuda" or "nccl" not in group.backend:
        return None
    return device_of(group, str(tensor.device), lambda: GpuLane(tensor.device.index or 0))


def device_of(group: ProcessGroup, name: str, lane: Callable[[], Lane]) -> MessageDevice:
    """A group's record of one GPU, made at first use."""
    wires = group.device_channels.setdefault(MESSAGES, Wires())
    if name not in wires.devices:
        wires.devices[name] = MessageDevice(name, lane(), wires)
    device: MessageDevice = wires.devices[name]
    return device


def send_by(
    device: MessageDevice, group: ProcessGroup, tensor: Tensor, peer: int, tag: int
) -> Callable[[], SendingFromGpu]:
    """What begins to send a tensor as it is now."""
    what, comm = describe(tensor), group.channel.data
    array = LaneWay(group.channel, device.lane).read(tensor)
    if peer == comm.rank:  # the sender may go on and write to its tensor
        array = array.copy()
    ready = device.lane.ready()
    return lambda: SendingFromGpu(device, comm, ready, array, what, peer, tag)


def receive_by(
    device: MessageDevice, group: ProcessGroup, tensor: Tensor, peer: int, tag: int
) -> Callable[[], ReceivingOnGpu]:
    """What begins to receive a tensor, after what the program has queued so far."""
    what, comm = describe(tensor), group.channel.data
    array, finish = LaneWay(group.channel, device.lane).written(tensor)
    ready = device.lane.ready()
    return lambda: ReceivingOnGpu(device, comm, ready, array, finish, what, peer, tag)
