"""What this machine can do: its measured peaks, and a kernel's share of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import adjoint as ad

SIDE = 768  # of the matrices that are multiplied
ELEMENTS = 1 << 23  # of the vectors that are added: far larger than caches
REPEATS = 5
TOGETHER = 10  # runs on a GPU that are waited for at once


@dataclass(frozen=True, slots=True)
class Roofline:
    """Floating-point operations and bytes a second, as measured."""

    flops: float
    bandwidth: float

    def share(self, flops: int, moved: int, seconds: float) -> float | None:
        """Of the time that work took, the part in which the machine could have done it.

        None where nothing is known of the work. Above 1 where what is moved lay in a cache.
        """
        if seconds <= 0 or not (flops or moved):
            return None
        return max(flops / self.flops, moved / self.bandwidth) / seconds


def _best(run: Callable[[], Any], gpu: bool) -> float:
    """The least time of some runs; on a GPU of many at once, so that asking for them is hidden."""
    count = TOGETHER if gpu else 1
    wait = ad.cuda.synchronize if gpu else _nothing
    run()
    wait()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def _nothing() -> None:
    """The CPU is not waited for."""


@cache
def measured(device: str = "cpu") -> Roofline:
    """The peaks of a device, measured once: of this machine with the threads it has, in float32.

    A GPU's products are of bfloat16, which its tensor cores multiply fastest.
    """
    gpu = device != "cpu"
    side, count = (8192, 1 << 28) if gpu else (SIDE, ELEMENTS)
    dtype = ad.bfloat16 if gpu else ad.float32
    with ad.no_grad():
        x, y = (ad.randn(side, side, device=device).to(dtype) for _ in range(2))
        product = ad.compile(lambda a, b: a @ b)
        seconds = _best(lambda: product(x, y), gpu)
        a, b = ad.ones(count, device=device), ad.ones(count, device=device)
        add = ad.compile(lambda u, v: u.add_(v))
        moved = _best(lambda: add(a, b), gpu)
    return Roofline(2 * side**3 / seconds, 3 * 4 * count / moved)
