"""Eager training steps over many lengths: Adjoint beside PyTorch.

    python -m benchmarks.lengths [--device cuda] [--frameworks adjoint,torch] [--lengths 60]

A transformer's layer with a classifier is trained on sequences of ever other lengths, three times
over all of them. Each framework runs in a process of its own, Adjoint in two: the first finds no
kernels on disk, the second those of the first. Of each pass: seconds, and of the first one those of
the first three lengths and the median of the others in milliseconds; the kernels that were compiled
on the way; and the last loss, which is the same in both processes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

FIRST, STEP = 17, 3  # the first length, and how much longer each of the others is
PASSES = 3
BATCH, CLASSES = 4, 10


class Model:
    """What is trained: a layer, a classifier, an optimizer."""

    def __init__(self, framework: Any, device: str, width: int) -> None:
        nn = framework.nn
        framework.manual_seed(0)
        self.framework, self.device, self.width = framework, device, width
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.head = nn.Linear(width, CLASSES)
        parameters = []
        rng = np.random.default_rng(3)
        for module in (self.layer, self.head):
            module.to(device)
            for p in module.parameters():
                drawn = rng.standard_normal(tuple(p.shape)).astype(np.float32) * 0.1
                p.data.copy_(framework.from_numpy(drawn).to(device))
                parameters.append(p)
        self.optimizer = framework.optim.AdamW(parameters, lr=1e-3)

    def batch(self, length: int) -> tuple[Any, Any]:
        """Sequences of a length, and a class for each place."""
        rng = np.random.default_rng(length)
        x = rng.standard_normal((BATCH, length, self.width)).astype(np.float32)
        y = rng.integers(0, CLASSES, BATCH * length)
        return tuple(self.framework.from_numpy(a).to(self.device) for a in (x, y))  # type: ignore[return-value]

    def step(self, x: Any, y: Any) -> float:
        """One step; returns its loss, so the device is done."""
        scores = self.head(self.layer(x)).reshape(-1, CLASSES)
        loss = self.framework.nn.functional.cross_entropy(scores, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.item())


def compilations() -> list[float]:
    """Where the seconds of each kernel that Triton compiles from now on are put."""
    module: Any = importlib.import_module("adjoint.engine.backends.triton.runtime.compile")
    build, taken = module.build, []

    def counted(*args: Any) -> Any:
        start = time.perf_counter()
        kernel = build(*args)
        taken.append(time.perf_counter() - start)
        return kernel

    module.build = counted
    return taken


def measure(name: str, device: str, count: int, width: int) -> dict[str, Any]:
    """All passes of one framework, in this process."""
    framework = importlib.import_module(name)
    compiled = compilations() if name == "adjoint" and device == "cuda" else []
    model = Model(framework, device, width)
    batches = [model.batch(FIRST + STEP * k) for k in range(count)]
    passes: list[list[float]] = []
    loss = 0.0
    for _ in range(PASSES):
        times = []
        for x, y in batches:
            start = time.perf_counter()
            loss = model.step(x, y)
            times.append(time.perf_counter() - start)
        passes.append(times)
    return {"passes": passes, "kernels": len(compiled), "seconds": sum(compiled), "loss": loss}


def line(name: str, found: dict[str, Any]) -> str:
    """What is said of one process."""
    first, *rest = found["passes"]
    steady = statistics.median(rest[-1])
    told = [
        f"{name:24}",
        f"passes {', '.join(f'{sum(p):.2f}' for p in found['passes'])} s",
        f"first three lengths {sum(first[:3]):.2f} s",
        f"a new length {1e3 * statistics.median(first[3:]):.1f} ms",
        f"(at most {1e3 * max(first[3:]):.0f})",
        f"a known one {1e3 * steady:.2f} ms",
        f"{found['kernels']} kernels compiled in {found['seconds']:.1f} s" * bool(found["kernels"]),
        f"loss {found['loss']:.9g}",
    ]
    return "; ".join(part for part in told if part)


def apart(arguments: list[str], cache: str) -> dict[str, Any]:
    """`measure` in a process of its own, which keeps kernels in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.lengths", "--one", *arguments],
        env={**os.environ, "XDG_CACHE_HOME": cache, "TRITON_CACHE_DIR": f"{cache}/triton"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--frameworks", default="adjoint,torch")
    parser.add_argument("--lengths", type=int, default=60)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--one", nargs=4)
    chosen = parser.parse_args()
    if chosen.one:
        name, device, *numbers = chosen.one
        print(json.dumps(measure(name, device, *map(int, numbers))))
        return
    with tempfile.TemporaryDirectory() as cache:
        for name in chosen.frameworks.split(","):
            given = [name, chosen.device, str(chosen.lengths), str(chosen.width)]
            for when in ("nothing on disk", "kernels on disk") if name == "adjoint" else ("",):
                print(line(f"{name} {when}".strip(), apart(given, cache)), flush=True)


if __name__ == "__main__":
    main()
