"""What collectives ask of an engine.

Buffers are contiguous arrays of the engine's own kind (NumPy for MPI, CuPy for NCCL). Each call
begins an operation and returns at once; all members of a communicator must begin the same ones in
the same order, which `distributed.communication.progress` sees to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Buffer = Any


class Request(Protocol):
    """An operation under way."""

    def done(self) -> bool:
        """Whether it has ended; asking also moves it on."""
        ...


class Communicator(Protocol):
    """Some processes, and the operations among them; ranks are places within it."""

    rank: int
    size: int

    def barrier(self) -> Request: ...
    def all_reduce(self, buffer: Buffer, op: Any) -> Request: ...
    def reduce(self, buffer: Buffer, op: Any, root: int) -> Request: ...
    def broadcast(self, buffer: Buffer, root: int) -> Request: ...
    def all_gather(self, out: Buffer, buffer: Buffer) -> Request: ...
    def gather(self, out: Buffer | None, buffer: Buffer, root: int) -> Request: ...
    def scatter(self, out: Buffer, buffer: Buffer | None, root: int) -> Request: ...
    def reduce_scatter(self, out: Buffer, buffer: Buffer, op: Any) -> Request: ...
    def all_to_all(
        self, out: Buffer, takes: Sequence[int], buffer: Buffer, gives: Sequence[int]
    ) -> Request: ...
    def send(self, buffer: Buffer, peer: int, tag: int) -> Request: ...
    def receive(self, buffer: Buffer, peer: int, tag: int) -> Request: ...
    def split(self, members: Sequence[int]) -> Communicator: ...
    def close(self) -> None: ...


class ProcessEngine(Protocol):
    """Connects the processes of a job."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> str:
        """The kind of device its buffers are on."""
        ...

    @property
    def world(self) -> Communicator: ...

    def close(self, *, orderly: bool) -> None:
        """End the connection; not orderly when some process is gone."""
        ...


class Finished:
    """A request that ended when it began."""

    def done(self) -> bool:
        """Whether it has ended."""
        return True
