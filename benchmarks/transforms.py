"""Function transforms and higher derivatives, eager, beside PyTorch on one thread.

    OMP_NUM_THREADS=1 python -m benchmarks.transforms [--seconds 2] [--warm 60] [program ...]

The programs are `transform_programs.PROGRAMS`. Both frameworks run in one process, a step of one
and a step of the other in turns, and a step's time is that of the processor: what other programs
do on the machine counts little. What is printed is the middle and the least of all steps but the
first `--warm`, in milliseconds, and PyTorch's over ours. Results are compared before.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.transform_programs import PROGRAMS

Step = Callable[[], Any]


def arrays_of(out: Any) -> list[np.ndarray]:
    """What a step computed, in NumPy."""
    several = out if isinstance(out, (tuple, list)) else [out]
    return [x.detach().numpy() for x in several]


def require_alike(name: str, mine: Any, theirs: Any) -> None:
    """Refuse to compare the times of programs that compute other things."""
    for a, b in zip(arrays_of(mine), arrays_of(theirs), strict=True):
        scale = float(np.abs(b).max()) or 1.0
        if a.shape != b.shape or not np.abs(a - b).max() <= 2e-4 * scale:
            raise SystemExit(f"{name}: results differ, {a.shape} and {b.shape}")


def timed(step: Step) -> float:
    """The processor's seconds of a step."""
    start = time.process_time()
    step()
    return time.process_time() - start


def measure(mine: Step, theirs: Step, warm: int, seconds: float) -> tuple[list[float], list[float]]:
    """Times of both, taken in turns."""
    for _ in range(warm):
        mine()
        theirs()
    ours: list[float] = []
    others: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ours) < 5:
        ours.append(timed(mine))
        others.append(timed(theirs))
    return ours, others


def main() -> None:
    """Measure the programs that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", help=", ".join(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warm", type=int, default=60)
    given = parser.parse_args()
    torch, adjoint = importlib.import_module("torch"), importlib.import_module("adjoint")
    for fw in (torch, adjoint):
        fw.set_num_threads(1)
    print(f"{'program':26}{'ours':>9}{'PyTorch':>9}{'ratio':>7}{'least':>9}{'':9}{'ratio':>7}")
    for name in given.programs or PROGRAMS:
        mine, theirs = PROGRAMS[name](adjoint), PROGRAMS[name](torch)
        require_alike(name, mine(), theirs())
        ours, others = measure(mine, theirs, given.warm, given.seconds)
        middle = statistics.median(ours) * 1e3, statistics.median(others) * 1e3
        least = min(ours) * 1e3, min(others) * 1e3
        columns = "".join(f"{a:9.3f}{b:9.3f}{b / a:7.2f}" for a, b in (middle, least))
        print(f"{name:26}{columns}", flush=True)


if __name__ == "__main__":
    main()
