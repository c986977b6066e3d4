"""`adjoint bench`: what this machine does with Adjoint, in a few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.engine.backends.threads import get_num_threads
from adjoint.nn import functional as F
from adjoint.profiler.roofline import measured

LEAST = 1.0  # seconds that a step is repeated for


def best(run: Callable[[], Any]) -> float:
    """The least time of a call, over a second."""
    run()
    least, end = float("inf"), time.perf_counter() + LEAST
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - start)
    return least


def training_step() -> Callable[[], Any]:
    """A step of a small network: 784-512-256-10, 128 samples, AdamW."""
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    optimizer = ad.optim.AdamW(model.parameters())
    x, y = ad.randn(128, 784), ad.randint(0, 10, (128,))

    def step() -> Any:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def measure() -> int:
    """Print a few figures; `make bench` compares with PyTorch in full."""
    peak = measured()
    print(f"threads                  {get_num_threads()}")
    print(f"matrix product           {peak.flops / 1e9:.1f} GFLOP/s (float32)")
    print(f"memory                   {peak.bandwidth / 1e9:.1f} GB/s")
    eager = best(training_step())
    start = time.perf_counter()
    step = ad.compile(training_step())
    step()
    first = time.perf_counter() - start
    quick = best(step)
    print(f"MLP step, eager          {1e3 * eager:.2f} ms")
    print(f"MLP step, compiled       {1e3 * quick:.2f} ms ({eager / quick:.1f} times as fast)")
    print(f"first compiled call      {first:.2f} s")
    return 0
