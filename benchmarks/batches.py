"""Training steps over batches of several sizes: one program for all of them beside one for each.

    python -m benchmarks.batches [--threads 1] [--rounds 15] [name ...]

Each family takes steps with its whole batch, then with five, three and two eighths of it, less one
row each: no multiples of a vector. Told are the seconds of the first call of each size, with
nothing on disk and in a second process that finds there what the first made; and how long a step
takes where sizes are free (`free`: `dynamic=True`; `default`: found out) over one of a program made
for its size alone (`each`: `dynamic=False`), the least of several rounds in turns in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.families import FAMILIES
from benchmarks.worker import make_step

WAYS: dict[str, bool | None] = {"each": False, "default": None, "free": True}
STEPS = 3  # steps of a round


def batches_of(batch: list[Any]) -> list[list[Any]]:
    """Batches of several sizes, the whole one first."""
    count = len(batch[0])
    return [
        [x[:n].clone() for x in batch] for n in (count, *[count * k // 8 - 1 for k in (5, 3, 2)])
    ]


def timed(step: Any, given: list[Any], count: int) -> float:
    """Seconds of a step."""
    start = time.perf_counter()
    for _ in range(count):
        step(*given)
    return (time.perf_counter() - start) / count


def made(ad: Any, name: str, way: str) -> tuple[Any, list[list[Any]], list[float]]:
    """A compiled step, its batches, and what the first call of each took."""
    step, batch = make_step(ad, FAMILIES[name])
    compiled, batches = ad.compile(step, dynamic=WAYS[way]), batches_of(batch)
    return compiled, batches, [timed(compiled, given, 1) for given in batches]


def first_calls(name: str, way: str, threads: int, cache: str) -> str:
    """What first calls took in a process of their own."""
    asked = [sys.executable, "-W", "ignore", "-m", "benchmarks.batches", name]
    out = subprocess.run(
        [*asked, "--first", way, "--threads", str(threads)],
        env={**os.environ, "ADJOINT_CACHE_DIR": cache}, stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    return " ".join(f"{seconds:.2f}" for seconds in json.loads(out))


def in_turns(ad: Any, name: str, rounds: int) -> None:
    """Print how long steps take."""
    ways = {way: made(ad, name, way)[:2] for way in WAYS}
    for k, given in enumerate(ways["each"][1]):
        least = dict.fromkeys(WAYS, float("inf"))
        for _ in range(rounds):
            for way, (step, batches) in ways.items():
                least[way] = min(least[way], timed(step, batches[k], STEPS))
        alone = least["each"]
        told = ", ".join(f"{way} {least[way] / alone:.2f}" for way in WAYS if way != "each")
        print(f"{name:9} {len(given[0]):4} rows: {1e3 * alone:.2f} ms by itself; times {told}")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["mlp", "cnn", "gpt"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--first", choices=WAYS, help="print what first calls took, and no more")
    options = parser.parse_args()
    import adjoint as ad

    ad.set_num_threads(options.threads)
    if options.first:
        print(json.dumps(made(ad, options.names[0], options.first)[2]))
        return
    for name in options.names:
        for way in WAYS:
            with tempfile.TemporaryDirectory() as cache:
                for disk in ("empty", "full"):
                    took = first_calls(name, way, options.threads, cache)
                    print(f"{name:9} {way:8} disk {disk:6} first calls {took} s")
        in_turns(ad, name, options.rounds)


if __name__ == "__main__":
    main()
