"""Kernels that go through rows, of many widths, on a GPU.

    python -m benchmarks.gpu_rows [--json FILE]

What the kernels of a compiled function take, without the host's part: read by CUPTI, which
PyTorch's profiler has. Microseconds, how many launches, and the bytes that must move a second.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import adjoint as ad
from adjoint.nn import functional as F

SHAPES = (
    (8192, 1024), (8192, 4096), (4096, 8192), (2048, 16384), (1, 4096), (16, 4096), (64, 32000),
    (1, 50257), (4096, 50257),
)  # fmt: skip
MANY = 2000  # rows that are of bfloat16
CALLS = 6
Fn = Callable[[Any, Any, Any], Any]


def gradients(norm: Callable[[Any, Any], Any]) -> Fn:
    """A norm's derivatives by its operand and its weight."""

    def run(x: Any, w: Any, g: Any) -> Any:
        leaves = [x.detach().requires_grad_(), w.detach().requires_grad_()]
        return ad.autograd.grad(norm(*leaves), leaves, g)

    return run


CASES: dict[str, tuple[Fn, int]] = {  # and how often a row is read or written
    "layer_norm": (lambda x, w, g: F.layer_norm(x, w.shape, w), 2),
    "softmax": (lambda x, w, g: x.softmax(-1), 2),
    "argmax": (lambda x, w, g: x.argmax(-1), 1),
    "layer_norm gradients": (gradients(lambda x, w: F.layer_norm(x, w.shape, w)), 3),
    "rms_norm gradients": (gradients(lambda x, w: F.rms_norm(x, w.shape, w)), 3),
}


def kernels(call: Callable[[], Any]) -> tuple[float, int]:
    """Microseconds of a call's kernels, and how many there are."""
    for _ in range(CALLS):
        call()
    ad.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(CALLS):
            call()
        ad.cuda.synchronize()
        torch.cuda.synchronize()
    events = [
        event.duration_ns()
        for event in seen.profiler.kineto_results.events()
        if event.device_type().name == "CUDA" and "mem" not in event.name().lower()
    ]
    return sum(events) / CALLS / 1e3, len(events) // CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    for rows, width in SHAPES:
        dtype = ad.bfloat16 if rows > MANY else ad.float32
        x, g = (ad.randn(rows, width, device="cuda").to(dtype) for _ in range(2))
        w = ad.randn(width, device="cuda")
        for name, (fn, passes) in CASES.items():
            compiled = ad.compile(fn)
            us, count = kernels(lambda f=compiled, x=x, w=w, g=g: f(x, w, g))
            rate = passes * x.numel() * x.element_size() / us / 1e3
            found[f"{name} {rows} x {width}"] = us, count
            print(
                f"{name:22} {rows:5} x {width:5} {us:9.1f} us {count:3} {rate:6.0f} GB/s",
                flush=True,
            )
    if chosen.json:
        with open(chosen.json, "w") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main()
