"""What a training step costs on a cluster: time and memory of each layout, from a few numbers.

Note [cost model]
    A message of b bytes takes a + b / w: a the latency, w the bandwidth. On n processes

        ring all-reduce      2 (n - 1) a + 2 (n - 1) / n  b / w
        tree all-reduce      2 log2(n) a + 2 b log2(n) / w
        ring all-gather        (n - 1) a +   (n - 1) / n  b / w   (b the whole; reduce-scatter too)

    and what is reduced is also summed, at s bytes per second: (n - 1) / n b / s in a ring,
    log2(n) b / s in a tree. On GPUs that is nothing beside the links; on CPUs it is not.

    The faster of ring and tree is what engines choose. A step computes 6 floating-point
    operations per parameter and token (2 forward, 4 backward), 8 with recomputation; besides, at c
    bytes per second, it writes and reads activations and their gradients, updates parameters (each
    tensor of it read, all but the gradient written) and packs what travels. Traffic that overlaps
    with backward costs what is left when backward's time is taken off; where processes and their
    engine share cores nothing overlaps.

    `measuring` finds the constants on processes that run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

GIB = 1 << 30
BACKWARD = 2 / 3  # of a step's arithmetic


@dataclass(frozen=True, slots=True)
class Cluster:
    """Processes, each with a device, and the links between them."""

    devices: int
    memory: float  # bytes of each device
    flops: float  # floating-point operations a device does per second
    bandwidth: float  # bytes per second between devices
    latency: float = 5e-6  # seconds
    summing: float = math.inf  # bytes per second that a device adds up
    copying: float = math.inf  # bytes per second that a device reads and writes
    overlap: float = 1.0  # how much of backward's time traffic can go on beside it


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and what a step asks of it."""

    parameters: int
    tokens: int  # per device and step
    activations: float  # bytes kept for backward, per device
    width: int = 0  # of the activations between layers, for pipelines and tensor parallel
    layers: int = 1
    bytes_per_parameter: int = 4
    state: int = 2  # tensors an optimizer keeps per parameter

    @property
    def size(self) -> float:
        return float(self.parameters * self.bytes_per_parameter)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a layout needs and takes."""

    layout: str
    memory: float  # bytes per device
    compute: float  # seconds
    traffic: float  # seconds, before overlap
    step: float  # seconds
    fits: bool


def all_reduce_seconds(n: int, size: float, cluster: Cluster) -> float:
    """The time of an all-reduce of `size` bytes over n processes.

    >>> all_reduce_seconds(1, 1e9, Cluster(1, 1, 1, 1))
    0.0
    """
    if n == 1:
        return 0.0
    link, adding = size / cluster.bandwidth, size / cluster.summing
    ring = 2 * (n - 1) * cluster.latency + (n - 1) / n * (2 * link + adding)
    depth = math.ceil(math.log2(n))
    tree = depth * (2 * cluster.latency + 2 * link + adding)
    return min(ring, tree)


def all_gather_seconds(n: int, size: float, cluster: Cluster) -> float:
    """The time to gather `size` bytes in all on each of n processes; of reduce-scatter too."""
    return (n - 1) * cluster.latency + (n - 1) / n * size / cluster.bandwidth


def estimates(work: Workload, cluster: Cluster) -> list[Estimate]:
    """Every layout on a cluster, the fastest that fits first.

    >>> work = Workload(parameters=124_000_000, tokens=4096, activations=2e9)
    >>> cluster = Cluster(8, 16e9, 1e13, 1e10)
    >>> estimates(work, cluster)[0].layout
    'data parallel'
    """
    layouts = list(_layouts(work, cluster))
    return sorted(layouts, key=lambda e: (not e.fits, e.step))


def _layouts(work: Workload, cluster: Cluster) -> Iterator[Estimate]:
    n, p = cluster.devices, work.size
    update = (3 + 2 * work.state) * p / cluster.copying
    compute = 6 * work.parameters * work.tokens / cluster.flops
    compute += 4 * work.activations / cluster.copying
    packing = 4 * p / cluster.copying  # into what travels, and back
    whole = (2 + work.state) * p

    def estimate(
        layout: str, memory: float, traffic: float, hidden: float, updated: float = 1.0
    ) -> Estimate:
        left = max(0.0, traffic - hidden * cluster.overlap)
        total = memory + work.activations
        busy = compute + update * updated
        return Estimate(layout, total, busy, traffic, busy + left, total <= cluster.memory)

    reduce = all_reduce_seconds(n, p, cluster)
    gather = all_gather_seconds(n, p, cluster)
    packed = packing if n > 1 else 0.0
    yield estimate("data parallel", whole, reduce + packed, BACKWARD * compute)
    yield estimate(
        "data parallel, optimizer divided", 2 * p + work.state * p / n, reduce + packed + gather,
        BACKWARD * compute, 1 / n,
    )  # fmt: skip
    unit = 2 * p / max(work.layers, 1)
    # Twice gathered and once reduced, each unit by messages of its own.
    waits = 3 * (work.layers - 1) * (n - 1) * cluster.latency
    traffic = 3 * gather + waits + 2.5 * packed
    yield estimate("fully sharded", whole / n + unit, traffic, compute, 1 / n)
    if work.width:
        sent = float(work.tokens * work.width * work.bytes_per_parameter)
        sums = 4 * work.layers * all_reduce_seconds(n, sent * n, cluster)
        yield estimate("tensor parallel", whole / n, sums, 0.0, 1 / n)
        steps = n + 4 * n - 1  # four microbatches per stage
        bubble = compute * (n - 1) / (4 * n)
        messages = 2 * steps * (cluster.latency + sent / 4 / cluster.bandwidth)
        yield estimate("pipeline (1F1B)", whole / n, messages + bubble, 0.0, 1 / n)


def table(listed: list[Estimate]) -> str:
    """Estimates as lines of text."""
    lines = [f"{'layout':<34}{'memory':>10}{'compute':>10}{'traffic':>10}{'step':>10}"]
    for estimate in listed:
        mark = "" if estimate.fits else "   does not fit"
        times = "".join(
            f"{1e3 * t:>8.1f}ms" for t in (estimate.compute, estimate.traffic, estimate.step)
        )
        lines.append(f"{estimate.layout:<34}{estimate.memory / GIB:>7.2f}GiB{times}{mark}")
    return "\n".join(lines)
