"""Collectives by the NCCL engine, whose library is played by MPI on memory of the host.

Everything but the C library and the GPU's streams is the engine's own: ways, lanes, which dtypes
and reductions go how, addresses and counts. The checks are those of `collectives`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.communication import collectives as collectives_module
from adjoint.distributed.communication import kernels, ways
from adjoint.distributed.communication.progress import Channel
from adjoint.distributed.engines.nccl import SIGNATURES, NcclLibrary
from adjoint.distributed.engines.nccl_communicator import NcclCommunicator
from adjoint.distributed.groups.group import resolve
from tests.ranks import collectives, training
from tests.ranks.checks import run

NUMBERS = [
    np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64,
    ml_dtypes.bfloat16,
]  # fmt: skip
COMBINE = [np.add, np.multiply, np.maximum, np.minimum, np.add]
AVERAGE = 4


def memory(address: int, count: int, number: int) -> Any:
    """Memory at an address, as the C library sees it."""
    dtype = np.dtype(NUMBERS[number])
    held = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(held, dtype)


class Function:
    """A function of the library, which may be told its arguments' types."""

    def __init__(self, body: Callable[..., Any]) -> None:
        self.body = body
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> Any:
        assert self.argtypes is None or len(arguments) == len(self.argtypes)
        return self.body(*arguments) or 0


class Loopback:
    """NCCL's functions, by MPI."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.queued: list[Any] | None = None
        for name in (*SIGNATURES, "GetErrorString", "GetLastError"):
            body = getattr(self, name, lambda *_: 0)
            setattr(self, f"nccl{name}", Function(body))

    def combined(self, source: int, count: int, number: int, operation: int) -> Any:
        rows = np.stack(self.comm.allgather(memory(source, count, number).copy()))
        wide = rows.astype(np.float32) if rows.dtype.itemsize == 2 else rows
        found = COMBINE[operation].reduce(wide)
        found = found / len(rows) if operation == AVERAGE else found
        return found.astype(rows.dtype)

    def AllReduce(self, a: int, b: int, n: int, t: int, op: int, *_: Any) -> None:
        memory(b, n, t)[...] = self.combined(a, n, t, op)

    def Reduce(self, a: int, b: int, n: int, t: int, op: int, root: int, *_: Any) -> None:
        found = self.combined(a, n, t, op)
        if self.comm.rank == root:
            memory(b, n, t)[...] = found

    def ReduceScatter(self, a: int, b: int, n: int, t: int, op: int, *_: Any) -> None:
        found = self.combined(a, n * self.comm.size, t, op)
        memory(b, n, t)[...] = found[self.comm.rank * n :][:n]

    def Broadcast(self, a: int, b: int, n: int, t: int, root: int, *_: Any) -> None:
        mine = memory(a, n, t).copy() if self.comm.rank == root else None
        memory(b, n, t)[...] = self.comm.bcast(mine, root)

    def AllGather(self, a: int, b: int, n: int, t: int, *_: Any) -> None:
        rows = self.comm.allgather(memory(a, n, t).copy())
        memory(b, n * self.comm.size, t)[...] = np.concatenate(rows)

    def GroupStart(self) -> None:
        self.queued = []

    def Send(self, a: int, n: int, t: int, peer: int, *_: Any) -> None:
        assert self.queued is not None
        self.queued.append((peer, memory(a, n, t).copy(), None))

    def Recv(self, a: int, n: int, t: int, peer: int, *_: Any) -> None:
        assert self.queued is not None
        self.queued.append((peer, None, memory(a, n, t)))

    def GroupEnd(self) -> None:
        assert self.queued is not None
        sent = [self.comm.isend(x, peer) for peer, x, _ in self.queued if x is not None]
        for peer, _, into in self.queued:
            if into is not None:
                into[...] = self.comm.recv(source=peer)
        for request in sent:
            request.wait()
        self.queued = None


class HostLane:
    """No stream: what is queued is done."""

    xp = np
    stream = 0
    done = True

    def ready(self) -> Any:
        return None

    def entered(self, ready: Any) -> Any:
        return contextlib.nullcontext()

    def mark(self) -> Any:
        return self

    def join(self) -> None:
        """Nothing to wait for."""


USED: set[str] = set()


def looped(group: Any, *_: Any) -> Any:
    """The way of a group's collectives, by the engine of GPUs."""
    held = group.device_channels.get("loop")
    host = group.channel
    if held is None:
        comm = host.data.split(range(group.size()))
        library = NcclLibrary(Loopback(comm.comm) if hasattr(comm, "comm") else None)
        lane = HostLane()
        communicator: Any = NcclCommunicator(library, 1, comm.rank, comm.size, lane)
        channel = Channel(communicator, host.check, host.members, host.name, host.timeout)
        held = group.device_channels["loop"] = ways.DeviceChannel(channel, lane)
    USED.add(group.group_name)
    return ways.LaneWay(held.channel, held.lane)


def install() -> None:
    collectives_module.way_for = looped  # type: ignore[assignment]
    kernels._way = lambda group, x: looped(resolve(group))  # type: ignore[assignment]


def check_what_carries(rank: int, size: int) -> None:
    x = ad.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [size, size]
    assert {"world"} == USED


if __name__ == "__main__":
    install()
    mine: Any = sys.modules[__name__]
    for module in (collectives, training) if "WITH_TRAINING" in os.environ else (collectives,):
        for name, value in vars(module).items():
            if name.startswith("check_") and name != "check_again":
                setattr(mine, name, value)
    run(mine)
