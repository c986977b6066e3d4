"""Messages between GPUs by NCCL, whose library is played by MPI and whose streams by threads.

What is queued is done later and in order, and holds up its stream until its counterpart is there,
as on a GPU: an order of messages that NCCL would not end does not end here either.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.communication import gpu_messages, point_to_point
from adjoint.distributed.communication.gpu_messages import device_of
from adjoint.distributed.engines import nccl
from adjoint.distributed.engines.nccl import ID_BYTES, SIGNATURES, NcclLibrary
from tests.ranks.checks import run, same
from tests.ranks.collectives import check_messages as check_messages
from tests.ranks.loopback import Function, memory
from tests.ranks.sharding import check_pipeline as check_pipeline

LANES: dict[int, QueueLane] = {}
NUMBERS = itertools.count(1)
TAGS = 1000  # of the C library's own messages, by communicator


class Mark:
    """A place in a stream."""

    def __init__(self) -> None:
        self.reached = threading.Event()

    @property
    def done(self) -> bool:
        return self.reached.is_set()

    def join(self) -> None:
        self.reached.wait(60)


class QueueLane:
    """A stream, by a thread."""

    xp = np
    device = contextlib.nullcontext()

    def __init__(self) -> None:
        self.stream = next(NUMBERS)
        self.jobs: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        LANES[self.stream] = self
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            self.jobs.get()()

    def another(self) -> QueueLane:
        return QueueLane()

    def ready(self) -> Mark:
        mark = Mark()
        mark.reached.set()
        return mark

    def entered(self, ready: Mark) -> Any:
        return contextlib.nullcontext()

    def mark(self) -> Mark:
        mark = Mark()
        self.jobs.put(mark.reached.set)
        return mark


class Pairs:
    """NCCL's functions for two processes, by MPI, or for one by copying."""

    def __init__(self, comm: Any = None) -> None:
        self.comm = comm
        self.calls: list[str] = []
        self.peers: dict[int, tuple[int, int]] = {}  # by communicator: the other process, and a tag
        self.group = threading.local()
        for name in (*SIGNATURES, "GetErrorString", "GetLastError"):
            setattr(self, f"nccl{name}", Function(self.noted(name)))

    def noted(self, name: str) -> Callable[..., Any]:
        body = getattr(self, name, lambda *_: 0)

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            return body(*arguments)

        return call

    def GetUniqueId(self, identity: Any) -> None:
        own = 0 if self.comm is None else self.comm.rank
        text = f"{own} {next(NUMBERS)}".encode().ljust(ID_BYTES, b"\0")
        identity._obj.internal[:] = np.frombuffer(text, np.int8).tolist()

    def CommInitRank(self, comm: Any, size: int, identity: Any, rank: int) -> None:
        owner, number = (int(x) for x in bytes(identity).rstrip(b"\0").split())
        tag = TAGS + 64 * owner + number
        comm._obj.value = handle = next(NUMBERS)
        if size == 1:
            self.peers[handle] = (0, 0)
        elif rank == 0:  # the sender, to the one that made the identity
            self.comm.send(self.comm.rank, owner, tag)
            self.peers[handle] = (owner, tag)
        else:
            self.peers[handle] = (self.comm.recv(tag=tag), tag)

    def GroupStart(self) -> None:
        self.group.jobs = []

    def Send(self, a: int, n: int, t: int, peer: int, comm: int, stream: int) -> None:
        self.group.jobs.append((True, memory(a, n, t), comm, stream))

    def Recv(self, a: int, n: int, t: int, peer: int, comm: int, stream: int) -> None:
        self.group.jobs.append((False, memory(a, n, t), comm, stream))

    def GroupEnd(self) -> None:
        jobs = self.group.jobs
        if len(jobs) == 2:  # to itself
            (_, source, _, stream), (_, into, _, _) = jobs
            LANES[stream].jobs.put(lambda: np.copyto(into, source))
        for sends, array, comm, stream in jobs if len(jobs) == 1 else []:
            peer, tag = self.peers[comm]
            LANES[stream].jobs.put(lambda: self.move(sends, array, peer, tag))  # noqa: B023

    def move(self, sends: bool, array: Any, peer: int, tag: int) -> None:
        if sends:
            self.comm.ssend(array.copy(), peer, tag)
        else:
            array[...] = self.comm.recv(source=peer, tag=tag)


ON_HOST: set[Any] = {ad.int16}  # dtypes of what is "on the CPU" here


def play(library: Pairs, patch: Callable[[Any, str, Any], None]) -> None:
    """Have messages go by the engine of GPUs."""

    def device(group: Any, tensor: Any) -> Any:
        return None if tensor.dtype in ON_HOST else device_of(group, "cuda:0", QueueLane)

    played = NcclLibrary(library)
    patch(nccl, "load", lambda: played)
    patch(point_to_point, "message_device", device)


def check_what_carries(rank: int, size: int) -> None:
    """Begins here: the library is played by the group's own MPI."""
    world: Any = dist.group.WORLD
    library = Pairs(world.channel.data.comm.Dup())
    play(library, setattr)
    if rank == 0:
        dist.send(ad.arange(3.0), 1)
    if rank == 1:
        x = ad.zeros(3)
        assert dist.recv(x, 0) == 0
        same(x, [0.0, 1.0, 2.0])
    assert ("CommInitRank" in library.calls) == (rank < 2)


def check_crossing(rank: int, size: int) -> None:
    """Both send before they receive, several times; on one stream for both ways none would end."""
    peer = rank ^ 1
    arrived = [ad.zeros(5) for _ in range(3)]
    works = [dist.isend(ad.full((5,), 10.0 * rank + number), peer) for number in range(3)]
    for x in arrived:
        dist.recv(x, peer)
    for work in works:
        assert work is not None
        work.wait()
    assert [x[0].item() for x in arrived] == [10.0 * peer + n for n in range(3)]


def check_tags(rank: int, size: int) -> None:
    """Received in another order than sent: by tags, not by arrival."""
    peer = rank ^ 1
    if rank % 2 == 0:
        works = [dist.isend(ad.full((2,), float(tag)), peer, tag=tag) for tag in (1, 2, 3, 4)]
        for work in works:
            assert work is not None
            work.wait()
    else:
        for tag in (3, 1, 4, 2):
            x = ad.zeros(2)
            dist.recv(x, peer, tag=tag)
            same(x, [float(tag)] * 2)


def check_around(rank: int, size: int) -> None:
    """A ring, all at once: each joins two communicators at the same time."""
    x = ad.zeros(4)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, ad.full((4,), float(rank)), (rank + 1) % size),
            dist.P2POp(dist.irecv, x, (rank - 1) % size),
        ]
    )
    assert len(works) == 2
    for work in works:
        work.wait()
    same(x, [float((rank - 1) % size)] * 4)
    assert all(work.get_future().wait() for work in works)


def check_refusals(rank: int, size: int) -> None:
    """Another shape, dtype or kind of device: an error on both sides."""
    peer = rank ^ 1
    wrong: list[tuple[Any, Any, str]] = [
        (ad.zeros(3), ad.zeros(4), r"expected \(4,\) "),
        (ad.zeros(3), ad.zeros(3, dtype=ad.float64), "float64"),
        (ad.zeros(3), ad.zeros(3, dtype=ad.int16), "int16"),
    ]
    for given, wanted, text in wrong:
        move, tensor = (dist.send, given) if rank % 2 == 0 else (dist.recv, wanted)
        with pytest.raises(dist.DistBackendError, match=text):
            move(tensor, peer)


def check_kinds_of_devices(rank: int, size: int) -> None:
    if rank % 2 == 0:
        dist.send(ad.zeros(3, dtype=ad.int16), rank ^ 1)
    else:
        ON_HOST.clear()
        with pytest.raises(dist.DistBackendError, match="both on the CPU"):
            dist.recv(ad.zeros(3, dtype=ad.int16), rank ^ 1)
        ON_HOST.add(ad.int16)


def check_groups(rank: int, size: int) -> None:
    """A group has wires of its own, which are closed with it."""
    group = dist.new_group(list(range(size))[::-1])
    if rank == 0:
        dist.send(ad.ones(2), 1, group=group)
    if rank == 1:
        dist.recv(ad.zeros(2), 0, group=group)
    wires = group.device_channels.get(gpu_messages.MESSAGES)
    assert (wires is not None) == (rank < 2)
    dist.barrier()
    dist.destroy_process_group(group)
    assert wires is None or not wires.wires


if __name__ == "__main__":
    mine: Any = sys.modules[__name__]
    first = {"check_what_carries": check_what_carries}  # before those that were imported
    checks = {**first, **{n: c for n, c in vars(mine).items() if n.startswith("check_")}}
    run(type("Ordered", (), checks))
