"""A message through the host: a line that announces it, and then its elements.

By the line a receiver that expects another shape or dtype raises instead of reading garbage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.distributed.communication.progress import LINE
from adjoint.distributed.engines.base import Communicator, Request
from adjoint.distributed.errors import DistBackendError

DATA = 1 << 19  # tags from here on are of elements, by the message's number
NUMBERS = 1 << 19
ANSWERS = DATA + NUMBERS  # and from here on of answers to those that send from GPUs, by its number
TAKEN, REFUSED = "taken", "refused"
HOST = "the host"
REFUSALS: list[tuple[Any, Request]] = []  # answers on their way


class _Sent:
    count = 0


def next_number() -> int:
    """A number for a message of this process's."""
    _Sent.count += 1
    return _Sent.count % NUMBERS


def line_of(*fields: Any) -> Any:
    """Fields as the bytes of a line; the last of them may hold anything."""
    text = "|".join(map(str, fields)).encode()
    if len(text) > LINE:
        raise ValueError(f"send: {fields[-1]} takes more than {LINE} bytes to describe")
    return np.frombuffer(text.ljust(LINE, b"\0"), np.uint8).copy()


def fields_of(line: Any, count: int) -> list[str]:
    """The fields of a line."""
    return bytes(line).rstrip(b"\0").decode().split("|", count - 1)


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a sender says of a message before its elements."""

    number: int  # among the sender's messages
    source: int  # the sender's place in the group
    device: str  # the GPU it comes from, or HOST
    what: str  # shape and dtype

    def line(self) -> Any:
        """As it travels."""
        return line_of(self.number, self.source, self.device, self.what)

    @classmethod
    def read(cls, line: Any) -> Announcement:
        """From a line that was received."""
        number, source, device, what = fields_of(line, 4)
        return cls(int(number), int(source), device, what)

    def refusal(self, what: str, device: str) -> DistBackendError | None:
        """The error for a receiver that expects something else."""
        if what != self.what:
            return DistBackendError(
                f"recv: expected {what}, but member {self.source} sent {self.what}. Receive into "
                "a tensor of the sender's shape and dtype."
            )
        if (device == HOST) != (self.device == HOST):
            return DistBackendError(
                f"recv: expected {what} by way of {device}, but member {self.source} sent it from "
                f"{self.device}. Have both tensors on GPUs, or both on the CPU."
            )
        return None


def refuse(comm: Communicator, announcement: Announcement, refusal: DistBackendError) -> None:
    """Raise, here and on a sender that waits to be asked for its message."""
    if announcement.device != HOST and announcement.source != comm.rank:
        REFUSALS[:] = [(line, request) for line, request in REFUSALS if not request.done()]
        answer = line_of(REFUSED, 0, "", str(refusal)[: LINE // 2])
        request = comm.send(answer, announcement.source, ANSWERS + announcement.number)
        REFUSALS.append((answer, request))
    raise refusal


class Sending:
    """A line and elements on their way."""

    def __init__(self, comm: Communicator, array: Any, what: str, peer: int, tag: int) -> None:
        announcement = Announcement(next_number(), comm.rank, HOST, what)
        self.line = announcement.line()
        self.requests = [comm.send(self.line, peer, tag)]
        self.requests.append(comm.send(array, peer, DATA + announcement.number))

    def done(self) -> bool:
        """Whether both are gone."""
        self.requests = [r for r in self.requests if not r.done()]
        return not self.requests


class Receiving:
    """A line, and then the elements it announces."""

    def __init__(self, comm: Communicator, array: Any, what: str, peer: int, tag: int) -> None:
        self.comm, self.array, self.what = comm, array, what
        self.line = np.empty(LINE, np.uint8)
        self.source = peer
        self.request: Request = comm.receive(self.line, peer, tag)
        self.announced = False

    def done(self) -> bool:
        """Whether the elements are here."""
        if not self.request.done():
            return False
        if self.announced:
            return True
        announcement = Announcement.read(self.line)
        refusal = announcement.refusal(self.what, HOST)
        if refusal is not None:
            refuse(self.comm, announcement, refusal)
        self.source, self.announced = announcement.source, True
        self.request = self.comm.receive(self.array, self.source, DATA + announcement.number)
        return self.request.done()
