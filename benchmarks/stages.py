"""Where the first call of a compiled step goes, stage by stage, in CPU time.

    python -m benchmarks.stages [gpt | mlp | tiny]

The disk cache is a new, empty folder; the second line block is another compilation of the same
step from what the first left there.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

Step = tuple[Callable[..., Any], tuple[Any, ...]]


def gpt() -> Step:
    """A training step of a GPT: 4 layers, width 128, 4 heads, 16 x 64 tokens of 256."""
    from adjoint.models.gpt2 import GPT2, GPT2Config

    net = GPT2(GPT2Config(256, 64, 128, 4, 4, dropout=0.0))
    optimizer = ad.optim.AdamW(net.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x).reshape(-1, 256), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    return step, (ad.randint(0, 256, (16, 64)), ad.randint(0, 256, (16, 64)))


def mlp(sizes: tuple[int, ...] = (784, 512, 256, 10), batch: int = 128) -> Step:
    """A training step of a plain network."""
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    net = nn.Sequential(*layers[:-1])
    optimizer = ad.optim.AdamW(net.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, (ad.randn(batch, sizes[0]), ad.randint(0, sizes[-1], (batch,)))


STEPS: dict[str, Callable[[], Step]] = {
    "gpt": gpt,
    "mlp": mlp,
    "tiny": lambda: mlp((16, 32, 32, 2), 32),
}


@contextmanager
def timed(stages: dict[str, float], *places: tuple[Any, str, str]) -> Iterator[None]:
    """Add up the CPU time of functions, each found by its module and name, under labels."""
    originals = [(module, name, getattr(module, name)) for module, name, _ in places]

    def wrap(fn: Callable[..., Any], label: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return fn(*args, **kwargs)
            finally:
                stages[label] = stages.get(label, 0.0) + time.process_time() - start

        return run

    for (module, name, label), (_, _, fn) in zip(places, originals, strict=True):
        setattr(module, name, wrap(fn, label))
    try:
        yield
    finally:
        for module, name, fn in originals:
            setattr(module, name, fn)


def measure(make: Callable[[], Step]) -> dict[str, float]:
    """CPU seconds of the stages of a first call."""
    import adjoint.compiler.build as build
    import adjoint.compiler.native as native
    from adjoint.backends.llvm import jit

    fn, args = make()
    stages: dict[str, float] = {}
    places = (
        (build, "run_passes", "passes"),
        (build, "Legal", "legalise"),
        (build, "Fusion", "fuse"),
        (build, "batch", "batch"),
        (native, "emit", "emit text"),
        (jit, "assemble", "machine code"),
        (jit, "link", "link"),
        (native, "disk_key", "key"),
        (native, "from_disk", "load image"),
        (native, "compile_task", "compiler, all"),
    )
    with timed(stages, *places):
        compiled = ad.compile(fn, backend=lambda task: native.compile_task(task))
        start = time.process_time()
        compiled(*args)
        stages["first call"] = time.process_time() - start
    start = time.process_time()
    compiled(*args)
    stages["second call"] = time.process_time() - start
    stages["trace"] = stages["first call"] - stages["compiler, all"] - stages["second call"]
    return stages


def main() -> None:
    """Measure one step twice."""
    name = sys.argv[1] if len(sys.argv) > 1 else "gpt"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ADJOINT_CACHE_DIR"] = folder
        import adjoint.backends.llvm.library as library

        for title in ("empty cache", "from the disk cache"):
            library._loaded.clear()
            print(f"{name}, {title}")
            for label, seconds in measure(STEPS[name]).items():
                print(f"  {label:<14}{seconds * 1e3:9.1f} ms")


if __name__ == "__main__":
    main()
