"""The engine of a process that is alone: whatever it sends, it receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.distributed.engines.base import Buffer, Finished, Request


class AloneCommunicator:
    """A group of one."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._sent: dict[int, list[Any]] = {}

    def barrier(self) -> Request:
        return Finished()

    def all_reduce(self, buffer: Buffer, op: Any) -> Request:
        factor = getattr(op, "factor", None)
        if factor is not None:
            buffer *= factor
        return Finished()

    def reduce(self, buffer: Buffer, op: Any, root: int) -> Request:
        return self.all_reduce(buffer, op)

    def broadcast(self, buffer: Buffer, root: int) -> Request:
        return Finished()

    def all_gather(self, out: Buffer, buffer: Buffer) -> Request:
        out.reshape(-1)[...] = buffer.reshape(-1)
        return Finished()

    def gather(self, out: Buffer | None, buffer: Buffer, root: int) -> Request:
        return self.all_gather(out, buffer)

    def scatter(self, out: Buffer, buffer: Buffer | None, root: int) -> Request:
        return self.all_gather(out, buffer)

    def reduce_scatter(self, out: Buffer, buffer: Buffer, op: Any) -> Request:
        self.all_gather(out, buffer)
        return self.all_reduce(out, op)

    def all_to_all(
        self, out: Buffer, takes: Sequence[int], buffer: Buffer, gives: Sequence[int]
    ) -> Request:
        return self.all_gather(out, buffer)

    def send(self, buffer: Buffer, peer: int, tag: int) -> Request:
        self._sent.setdefault(tag, []).append(buffer.copy())
        return Finished()

    def receive(self, buffer: Buffer, peer: int, tag: int) -> Request:
        return _Awaited(self._sent.setdefault(tag, []), buffer)

    def split(self, members: Sequence[int]) -> AloneCommunicator:
        return AloneCommunicator()

    def close(self) -> None:
        self._sent.clear()


class _Awaited:
    """A message to oneself, perhaps not sent yet."""

    def __init__(self, sent: list[Any], buffer: Buffer) -> None:
        self.sent, self.buffer = sent, buffer

    def done(self) -> bool:
        if not self.sent:
            return False
        self.buffer.reshape(-1)[...] = self.sent.pop(0).reshape(-1)
        return True


class AloneEngine:
    """Needs nothing: of one process, every collective is done at once."""

    device = "any"

    def __init__(self, name: str) -> None:
        self.name = name
        self.world = AloneCommunicator()

    def close(self, *, orderly: bool) -> None:
        """Nothing is open."""
