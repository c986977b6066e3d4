"""The engine of the host where GPUs talk by NCCL and there is no MPI: the job's own store.

It carries what is small: which collectives are called, identities, objects, single messages.
Everything passes through the process that keeps the store, so tensors on CPUs want MPI.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.distributed.communication.reduce_op import PremulSum, RedOpType
from adjoint.distributed.engines.base import Buffer, Finished, Request
from adjoint.distributed.engines.nccl_communicator import COMBINED, LOGICAL
from adjoint.distributed.store.base import PrefixStore, Store


class Awaited:
    """Values of the store that are to come, and what is done with them."""

    def __init__(self, store: Store, keys: list[str], use: Callable[[list[bytes]], None]) -> None:
        self.store, self.keys, self.use = store, keys, use

    def done(self) -> bool:
        """Whether they are there; they are used then."""
        if not self.store.check(self.keys):
            return False
        self.use(self.store.multi_get(self.keys))
        return True


class StoreCommunicator:
    """Some processes that write to and read from one store."""

    any_source = -1

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.store, self.rank, self.size = store, rank, size
        self.calls = 0
        self.split_before: Counter[tuple[int, ...]] = Counter()
        self.sent: Counter[tuple[int, int]] = Counter()  # messages by peer and tag
        self.taken: Counter[tuple[int, int]] = Counter()

    # -- gathering: all else follows -------------------------------------------------------------

    def _gather(self, data: bytes, use: Callable[[list[bytes]], None]) -> Request:
        """Give `use` what every member contributes."""
        self.calls += 1
        call = self.calls
        self.store.set(f"{call}/{self.rank}", data)
        keys = [f"{call}/{r}" for r in range(self.size)]

        def finish(parts: list[bytes]) -> None:
            use(parts)
            if self.store.add(f"{call}/read", 1) == self.size:
                for key in (*keys, f"{call}/read"):
                    self.store.delete_key(key)

        return Awaited(self.store, keys, finish)

    def barrier(self) -> Request:
        return self._gather(b"", lambda _: None)

    def all_gather(self, out: Buffer, buffer: Buffer) -> Request:
        def use(parts: list[bytes]) -> None:
            _bytes(out)[...] = np.frombuffer(b"".join(parts), np.uint8)

        return self._gather(buffer.tobytes(), use)

    def broadcast(self, buffer: Buffer, root: int) -> Request:
        def use(parts: list[bytes]) -> None:
            _bytes(buffer)[...] = np.frombuffer(parts[root], np.uint8)

        return self._gather(buffer.tobytes() if self.rank == root else b"", use)

    def gather(self, out: Buffer | None, buffer: Buffer, root: int) -> Request:
        return self.all_gather(np.empty((self.size, *buffer.shape), buffer.dtype)
                               if out is None else out, buffer)  # fmt: skip

    def scatter(self, out: Buffer, buffer: Buffer | None, root: int) -> Request:
        def use(parts: list[bytes]) -> None:
            start = self.rank * out.nbytes
            _bytes(out)[...] = np.frombuffer(parts[root][start : start + out.nbytes], np.uint8)

        return self._gather(b"" if buffer is None else buffer.tobytes(), use)

    def all_to_all(
        self, out: Buffer, takes: Sequence[int], buffer: Buffer, gives: Sequence[int]
    ) -> Request:
        size = buffer.dtype.itemsize
        table = np.array(gives, np.int64) * size

        def use(parts: list[bytes]) -> None:
            rows = []
            for part in parts:
                sizes = np.frombuffer(part[: table.nbytes], np.int64)
                start = table.nbytes + int(sizes[: self.rank].sum())
                rows.append(part[start : start + int(sizes[self.rank])])
            _bytes(out)[...] = np.frombuffer(b"".join(rows), np.uint8)

        return self._gather(table.tobytes() + buffer.tobytes(), use)

    # -- reducing --------------------------------------------------------------------------------

    def all_reduce(self, buffer: Buffer, op: Any) -> Request:
        def put(total: Buffer) -> None:
            buffer[...] = total.reshape(buffer.shape)

        return self._reduce(buffer, op, put)

    def reduce(self, buffer: Buffer, op: Any, root: int) -> Request:
        def put(total: Buffer) -> None:
            if self.rank == root:
                buffer[...] = total.reshape(buffer.shape)

        return self._reduce(buffer, op, put)

    def reduce_scatter(self, out: Buffer, buffer: Buffer, op: Any) -> Request:
        def put(total: Buffer) -> None:
            mine = total[self.rank * out.size : (self.rank + 1) * out.size]
            out[...] = mine.reshape(out.shape)

        return self._reduce(buffer, op, put)

    def _reduce(self, buffer: Buffer, op: Any, put: Callable[[Buffer], None]) -> Request:
        dtype = buffer.dtype

        def use(parts: list[bytes]) -> None:
            rows = np.frombuffer(b"".join(parts), dtype).reshape(self.size, -1)
            put(_combined(rows, op).astype(dtype))

        return self._gather(buffer.tobytes(), use)

    # -- messages --------------------------------------------------------------------------------

    def send(self, buffer: Buffer, peer: int, tag: int) -> Request:
        number = self.sent[peer, tag]
        self.sent[peer, tag] += 1
        self.store.set(f"to {peer} from {self.rank}/{tag}/{number}", buffer.tobytes())
        return Finished()

    def receive(self, buffer: Buffer, peer: int, tag: int) -> Request:
        peers = range(self.size) if peer == self.any_source else (peer,)
        return Message(self, buffer, [p for p in peers if p != self.rank], tag)

    # -- groups ----------------------------------------------------------------------------------

    def split(self, members: Sequence[int]) -> StoreCommunicator:
        chosen = tuple(members)
        self.split_before[chosen] += 1
        name = f"{'.'.join(map(str, chosen))}#{self.split_before[chosen]}"
        store = PrefixStore(name, self.store)
        return StoreCommunicator(store, chosen.index(self.rank), len(chosen))

    def close(self) -> None:
        """Nothing is open."""


class Message:
    """A message to come, from the first of some members that has sent one."""

    def __init__(self, comm: StoreCommunicator, buffer: Buffer, peers: list[int], tag: int) -> None:
        self.comm, self.buffer, self.peers, self.tag = comm, buffer, peers, tag
        self.here = False

    def done(self) -> bool:
        """Whether it is here."""
        comm = self.comm
        for peer in () if self.here else self.peers:
            number = comm.taken[peer, self.tag]
            key = f"to {comm.rank} from {peer}/{self.tag}/{number}"
            if comm.store.check([key]):
                comm.taken[peer, self.tag] += 1
                _bytes(self.buffer)[...] = np.frombuffer(comm.store.get(key), np.uint8)
                comm.store.delete_key(key)
                self.here = True
                break
        return self.here


class StoreEngine:
    """Processes that share a store."""

    name = "store"
    device = "cpu"

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.world = StoreCommunicator(store, rank, size)

    def close(self, *, orderly: bool) -> None:
        """The store is closed by who keeps it."""


def _bytes(array: Buffer) -> Any:
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def _combined(rows: Buffer, op: Any) -> Buffer:
    """The reduction of rows; of halves by way of float32."""
    if rows.dtype.kind == "b":
        rows = rows.view(np.uint8)
        odd = op is RedOpType.BXOR
        total = getattr(np, COMBINED[LOGICAL[RedOpType(op)]]).reduce(rows)
        return (total & 1 if odd else total).astype(np.bool_)
    wide = rows.astype(np.float32) if rows.dtype.kind in "fV" and rows.itemsize < 4 else rows
    if isinstance(op, PremulSum):
        return np.add.reduce(wide * wide.dtype.type(op.factor), 0)
    kind = RedOpType.SUM if op is RedOpType.AVG else RedOpType(op)
    total = getattr(np, COMBINED[kind]).reduce(wide, 0)
    return total / len(rows) if op is RedOpType.AVG else total
