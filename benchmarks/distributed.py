"""Several processes: throughput, what data parallel costs, the cost model, memory when sharded.

    adjoint launch --nproc-per-node=2 -m benchmarks.distributed
    adjoint launch --nproc-per-node=4 -m benchmarks.distributed

Prints relative figures, each the least of several rounds that alternate between what is compared.
Of use only where every rank has a core to itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.cost import Cluster, all_reduce_seconds
from adjoint.distributed.fsdp import fully_shard
from adjoint.nn.parallel import DistributedDataParallel

MIB = 1 << 20
ROUNDS = 15


def least(*calls: Callable[[], Any]) -> list[float]:
    """The least seconds of each call over alternating rounds; the slowest rank's time counts."""
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for at, call in enumerate(calls):
            dist.barrier()
            began = time.perf_counter()
            call()
            took = ad.tensor([time.perf_counter() - began], dtype=ad.float64)
            dist.all_reduce(took, dist.ReduceOp.MAX)
            best[at] = min(best[at], took.item())
    return best


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def throughput() -> None:
    """all_reduce of 64 MiB, beside MPI's own on the same memory."""
    from mpi4py import MPI

    x = ad.ones(64 * MIB // 4)
    y = np.ones(64 * MIB // 4, np.float32)
    ours, theirs = least(
        lambda: dist.all_reduce(x), lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, y)
    )
    say(f"all_reduce of 64 MiB: {theirs / ours:.2f} of MPI's own throughput")


def network() -> Any:
    return ad.nn.Sequential(
        ad.nn.Linear(512, 1024), ad.nn.ReLU(), ad.nn.Linear(1024, 1024), ad.nn.ReLU(),
        ad.nn.Linear(1024, 512),
    )  # fmt: skip


def training(model: Any, x: ad.Tensor) -> Callable[[], None]:
    optimizer = ad.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def data_parallel() -> None:
    """A step of DDP, beside the same step alone and the all-reduce of its gradients."""
    x = ad.randn(256, 512)
    alone, together = network(), DistributedDataParallel(network())
    flat = ad.ones(sum(p.numel() for p in alone.parameters()))
    local, ddp, traffic = least(
        training(alone, x), training(together, x), lambda: dist.all_reduce(flat)
    )
    over = (ddp - local - traffic) / local
    say(
        f"data parallel: a step takes {ddp / local:.2f} of one alone; beyond the traffic "
        f"({traffic / local:.2f}) it costs {over:+.1%}"
    )


def cost_model() -> None:
    """all_reduce as `distributed.cost` estimates it from messages and sums, and as it is."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def message(count: int) -> float:
        x = ad.ones(count)

        def exchange() -> None:
            if rank == 0:
                dist.send(x, 1)
                dist.recv(x, 1)
            elif rank == 1:
                dist.recv(x, 0)
                dist.send(x, 0)

        return least(exchange)[0] / 2

    small, large = message(1), message(4 * MIB)
    a, b = np.ones((2, 4 * MIB), np.float32)
    adding = least(lambda: np.add(a, b, out=a))[0]
    cluster = Cluster(size, 1.0, 1.0, 16 * MIB / (large - small), small, 16 * MIB / adding)
    for kib in (1, 64, 1024, 16384):
        y = ad.ones(kib * 256)
        found = least(lambda y=y: dist.all_reduce(y))[0]  # type: ignore[misc]
        estimate = all_reduce_seconds(size, kib * 1024.0, cluster)
        say(f"all_reduce of {kib} KiB: {estimate / found:.2f} of the measured time estimated")


def memory() -> None:
    """Bytes that a rank keeps of a sharded model with AdamW, beside the formula's."""
    model = network()
    whole = sum(p.numel() * p.element_size() for p in model.parameters())
    rows = sum(p[0].numel() * p.element_size() for p in model.parameters())
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer)
    fully_shard(model)
    optimizer = ad.optim.AdamW(model.parameters())
    model(ad.randn(8, 512)).square().mean().backward()
    optimizer.step()
    kept = 0
    for p in model.parameters():
        state = [v for v in optimizer.state[p].values() if v.ndim]
        kept += sum(t.to_local().numel() * 4 for t in (p, p.grad, *state))
    formula = 4 * whole / dist.get_world_size()
    say(
        f"fully_shard with AdamW: {kept / formula:.4f} of 4 P / n bytes (at most "
        f"{1 + 4 * rows / formula:.4f}: one row of each parameter more)"
    )


def main() -> None:
    dist.init_process_group("gloo")
    say(f"{dist.get_world_size()} ranks")
    for part in (throughput, data_parallel, cost_model, memory):
        part()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
