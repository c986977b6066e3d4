"""The constants of the cost model, measured on the processes that run: Note [cost model]."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.distributed.communication.collectives import all_reduce, barrier
from adjoint.distributed.communication.reduce_op import RedOpType
from adjoint.distributed.cost import Cluster
from adjoint.distributed.groups.group import get_world_size
from adjoint.engine.core.dtype import float64
from adjoint.engine.ops.create.creation import full, ones, zeros

SIDE = 512  # of the matrices whose product is timed
LARGE = 4 << 20  # elements of the long message, and of what is added and copied
ROUNDS = 15


def least_seconds(
    calls: Sequence[Callable[[], Any]], rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:  # fmt: skip
    """The least seconds of each call over alternating rounds; the slowest process's time counts.

    All processes call at the same time, so that what they share is shared while it is timed. Where
    others use the machine too, `time.process_time` as the clock leaves out what they take.
    """
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for at, call in enumerate(calls):
            barrier()
            began = clock()
            call()
            took = full((1,), clock() - began, dtype=float64)
            all_reduce(took, RedOpType.MAX)
            best[at] = min(best[at], took.item())
    return best


class Probes:
    """What is timed to find the constants, and how they follow; of float32 on CPUs."""

    def __init__(self) -> None:
        a, b = ones(SIDE, SIDE), ones(SIDE, SIDE)
        x, y, short, long = zeros(LARGE), zeros(LARGE), zeros(1), zeros(LARGE)
        self.calls: list[Callable[[], Any]] = [
            lambda: a @ b,
            lambda: y.copy_(x),
            lambda: y.add_(x),
            lambda: all_reduce(short),
            lambda: all_reduce(long),
        ]

    def cluster(self, seconds: Sequence[float], n: int) -> Cluster:
        """The constants of n processes from the least seconds of `calls`."""
        product, copy, add, short, long = seconds
        size = 4.0 * LARGE
        summing = size / add
        latency = short / (2 * (n - 1)) if n > 1 else 0.0
        # What is left of the long message, in a ring, after latency and sums: its bytes.
        moving = (long - short) * n / (n - 1) - size / summing if n > 1 else 0.0
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Cluster(
            devices=n, memory=memory / n, flops=2 * SIDE**3 / product,
            bandwidth=2 * size / max(moving, 1e-9), latency=latency, summing=summing,
            copying=2 * size / copy, overlap=0.0,
        )  # fmt: skip


def measured_cluster() -> Cluster:
    """The processes that run as a cluster; every one of them calls it."""
    probes = Probes()
    return probes.cluster(least_seconds(probes.calls), get_world_size())
