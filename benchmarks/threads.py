"""What the native workers cost: calls, hand-offs, barriers, waking, and when a second one pays.

    python -m benchmarks.threads [--workers 2] [--rounds 30]

Each number is the least over rounds of the mean of many, but for the waking, where the spread is
the point: its percentiles are shown.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from adjoint.engine.backends import threads
from adjoint.engine.backends.llvm.runtime import shared_words
from adjoint.engine.backends.llvm.runtime.pool import WorkerThreads, the_pool
from tests.llvm_kernels import Call, Program, library


def least(call: Callable[[], object], rounds: int, times: int = 100) -> float:
    """Microseconds of one call."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, (time.perf_counter() - start) / times)
    return best * 1e6


def show(what: str, value: str) -> None:
    print(f"{what:<58}{value}")


def calls(rounds: int) -> None:
    run, table = the_pool().run, Program(Call("nothing")).table
    show("call, one worker", f"{least(lambda: run(table.address, 1, 1), rounds):.2f} us")
    many = Program(*[Call("nothing")] * 1000)
    per_step = least(lambda: many.run(1), rounds, 10) / 1000
    show("one more step, one worker", f"{per_step * 1000:.1f} ns")


def barriers(workers: int, rounds: int, pool: WorkerThreads, label: str) -> None:
    few, many = Program(Call("nothing")), Program(*[Call("nothing")] * 401)
    short = least(lambda: few.run(workers, pool), rounds)
    long = least(lambda: many.run(workers, pool), rounds, 10)
    show(f"hand-off and return, {workers} workers{label}", f"{short:.2f} us")
    show(f"barrier, {workers} workers{label}", f"{(long - short) / 400:.3f} us")


def waking(workers: int, rounds: int, pool: WorkerThreads, label: str) -> None:
    """Five steps after a millisecond of other work: the workers sleep by then."""
    program = Program(*[Call("nothing")] * 5)
    program.run(workers, pool)
    taken = []
    for _ in range(10 * rounds):
        until = time.perf_counter() + 1e-3
        while time.perf_counter() < until:
            pass
        start = time.perf_counter()
        program.run(workers, pool)
        taken.append((time.perf_counter() - start) * 1e6)
    low, middle, high = np.percentile(taken, [1, 50, 90])
    show(
        f"five steps, workers asleep, {workers} workers{label}",
        f"{low:.1f} us least, {middle:.1f} median, {high:.1f} at 90 %",
    )


def paying(workers: int, rounds: int) -> None:
    """The time of a split loop by its length, on one worker and on several."""
    for size in (100, 300, 1000, 3000, 10_000, 100_000):
        a, b = np.zeros(size, np.int64), np.zeros(size, np.int64)
        steps = [Call("turn", a, b, size, 1), Call("turn", b, a, size, 1)] * 10
        program = Program(*steps)
        times = max(1, 10_000 // size)
        alone, together = (least(partial(program.run, n), rounds, times) for n in (1, workers))
        show(
            f"20 split loops of {size} elements, 1 and {workers} workers",
            f"{alone:.1f} us, {together:.1f} us ({alone / together:.2f}x)",
        )


def starting(workers: int) -> None:
    pool = the_pool()
    program = Program(Call("nothing"))
    taken = []
    for _ in range(10):
        program.run(workers)
        start = time.perf_counter()
        pool.stop()
        pool.resume()
        program.run(workers)
        taken.append(time.perf_counter() - start)
    show(f"ending and starting {workers - 1} threads (a fork)", f"{min(taken) * 1e6:.0f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=threads.get_num_threads())
    parser.add_argument("--rounds", type=int, default=30)
    chosen = parser.parse_args()
    threads.set_num_threads(chosen.workers)
    start = time.perf_counter()
    the_pool()
    show("making the pool", f"{(time.perf_counter() - start) * 1e3:.1f} ms")
    library()
    show("processors, load", f"{threads.available_processors()}, {os.getloadavg()[0]:.1f}")
    calls(chosen.rounds)
    for workers in range(2, chosen.workers + 1):
        barriers(workers, chosen.rounds, the_pool(), "")
    waking(chosen.workers, chosen.rounds, the_pool(), "")
    conditions = WorkerThreads(shared_words.host_platform()._replace(futex=False))
    barriers(2, chosen.rounds, conditions, ", conditions")
    waking(2, chosen.rounds, conditions, ", conditions")
    conditions.stop()
    paying(chosen.workers, chosen.rounds)
    starting(chosen.workers)


if __name__ == "__main__":
    main()
