"""Several processes: throughput, what data parallel costs, the cost model, memory when sharded.

    adjoint launch --nproc-per-node=2 -m benchmarks.distributed
    adjoint launch --nproc-per-node=4 -m benchmarks.distributed cost_model

Prints relative figures, each the least of several rounds that alternate between what is compared.
Of use only where every rank has a core to itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed.cost import Workload, all_reduce_seconds, estimates
from adjoint.distributed.fsdp import fully_shard
from adjoint.distributed.measuring import Probes, least_seconds
from adjoint.nn.parallel import DistributedDataParallel

MIB = 1 << 20
BUSY = "--cpu-time" in sys.argv  # others use the machine: the cost model by processes' own time


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def throughput() -> None:
    """all_reduce of 64 MiB, beside MPI's own on the same memory."""
    from mpi4py import MPI

    x = ad.ones(64 * MIB // 4)
    y = np.ones(64 * MIB // 4, np.float32)
    ours, theirs = least_seconds(
        [lambda: dist.all_reduce(x), lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, y)]
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
    local, ddp, traffic = least_seconds(
        [training(alone, x), training(together, x), lambda: dist.all_reduce(flat)]
    )
    over = (ddp - local - traffic) / local
    say(
        f"data parallel: a step takes {ddp / local:.2f} of one alone; beyond the traffic "
        f"({traffic / local:.2f}) it costs {over:+.1%}"
    )


def cost_model() -> None:
    """What `distributed.cost` estimates from measured constants, of what is measured beside it."""
    size, rows = dist.get_world_size(), 256
    x = ad.randn(rows, 512)
    sharded = network()
    for layer in sharded:
        if list(layer.parameters()):
            fully_shard(layer)
    fully_shard(sharded)
    steps = {
        "data parallel": training(DistributedDataParallel(network()), x),
        "fully sharded": training(sharded, x),
    }
    messages = {kib: ad.zeros(kib * 256) for kib in (64, 1024, 8192)}
    probes = Probes()
    calls = [*probes.calls, training(network(), x), *steps.values()]
    calls += [lambda y=y: dist.all_reduce(y) for y in messages.values()]  # type: ignore[misc]
    seconds = least_seconds(calls, clock=time.process_time if BUSY else time.perf_counter)
    at = len(probes.calls)
    cluster = probes.cluster(seconds[:at], size)
    say(
        f"measured: {cluster.flops / 1e9:.1f} Gflop/s, {cluster.copying / 1e9:.1f} GB/s copied, "
        f"{cluster.summing / 1e9:.1f} GB/s summed, {cluster.bandwidth / 1e9:.1f} GB/s sent, "
        f"{1e6 * cluster.latency:.0f} us"
    )
    count = sum(p.numel() for p in network().parameters())
    activations = 4.0 * rows * (512 + 4 * 1024 + 2 * 512)  # inputs of layers, and their results
    work = Workload(count, rows, activations, layers=3, state=0)
    estimated = {e.layout: e for e in estimates(work, cluster)}
    (alone,) = [e.step for e in estimates(work, replace(cluster, devices=1)) if e.layout in steps][
        :1
    ]
    say(f"a step alone: {alone / seconds[at]:.2f} of the measured time estimated")
    for name, took in zip(steps, seconds[at + 1 :], strict=False):
        say(f"a step {name}: {estimated[name].step / took:.2f} of the measured time estimated")
    for kib, took in zip(messages, seconds[at + 1 + len(steps) :], strict=True):
        ratio = all_reduce_seconds(size, kib * 1024.0, cluster) / took
        say(f"all_reduce of {kib} KiB: {ratio:.2f} of the measured time estimated")


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
    own_bytes = 0
    for p in model.parameters():
        state = [v for v in optimizer.state[p].values() if v.ndim]
        own_bytes += sum(t.to_local().numel() * 4 for t in (p, p.grad, *state))
    formula = 4 * whole / dist.get_world_size()
    say(
        f"fully_shard with AdamW: {own_bytes / formula:.4f} of 4 P / n bytes (at most "
        f"{1 + 4 * rows / formula:.4f}: one row of each parameter more)"
    )


def main() -> None:
    dist.init_process_group("gloo")
    say(f"{dist.get_world_size()} ranks")
    parts = {part.__name__: part for part in (throughput, data_parallel, cost_model, memory)}
    for name in [name for name in sys.argv[1:] if name in parts] or parts:
        parts[name]()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
