"""One framework and one model family in a process of its own, timed on request.

    python -m benchmarks.worker FRAMEWORK FAMILY THREADS

FRAMEWORK is `torch`, `compiled` or `eager`; THREADS of 0 leaves the framework's own number. The
process reads one request a line from its input and answers each with a line of JSON: `round
SECONDS` takes steps for about that long, `memory` tells the peak of the process over a few steps,
`overhead` what a call costs outside its kernels. The first line it writes, unasked, tells of its
first steps.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.families import FAMILIES, Family, fill

FIRST = 8  # steps whose losses are compared
MODULES = {"torch": "torch", "compiled": "adjoint", "eager": "adjoint"}


def make_step(fw: Any, family: Family) -> tuple[Callable[..., Any], list[Any]]:
    """A training step and its batch."""
    fw.manual_seed(0)
    model = family.model(fw)
    fill(fw, model)
    optimizer = fw.optim.AdamW(model.parameters(), lr=1e-3)

    def step(*batch: Any) -> Any:
        loss = family.loss(fw, model, *batch)
        optimizer.zero_grad()
        loss.backward()
        if family.clip:
            fw.nn.utils.clip_grad_norm_(model.parameters(), family.clip)
        optimizer.step()
        return loss

    return step, [fw.from_numpy(x) for x in family.data()]


class Worker:
    """Takes steps and keeps the time."""

    def __init__(self, framework: str, family: Family, threads: int) -> None:
        start = time.perf_counter()
        self.fw = importlib.import_module(MODULES[framework])
        if framework != "torch":
            importlib.import_module("adjoint.nn.functional")
        imported = time.perf_counter()
        if threads:
            self.fw.set_num_threads(threads)
        self.baseline = resident("VmRSS")
        self.step, self.batch = make_step(self.fw, family)
        loading = time.perf_counter()
        if framework == "compiled":
            self.step = self.fw.compile(self.step)
        loading = time.perf_counter() - loading
        clock, processor = time.perf_counter(), time.process_time()
        losses = [float(self.step(*self.batch))]
        self.first = {
            "import_s": imported - start,
            "compiler_s": loading,  # `compile` itself, which loads the compiler
            "first_s": time.perf_counter() - clock,
            "first_cpu_s": time.process_time() - processor,
        }
        self.first["losses"] = losses + [float(self.step(*self.batch)) for _ in range(FIRST - 1)]
        self.each = 0.0

    def round(self, seconds: float) -> dict[str, Any]:
        """Steps for about so long: wall and processor seconds of each, and the last loss."""
        step, batch = self.step, self.batch
        if not self.each:
            self.each = least(lambda: step(*batch), 3)
        count = max(2, int(seconds / self.each))
        walls, start = [], time.process_time()
        for _ in range(count):
            before = time.perf_counter()
            loss = step(*batch)
            walls.append(time.perf_counter() - before)
        used = (time.process_time() - start) / count
        self.each = sorted(walls)[count // 2]
        return {"walls": walls, "cpu": used, "loss": float(loss)}

    def memory(self) -> dict[str, float]:
        """The peak of resident memory over a few steps, and what the framework alone takes."""
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # forget the peak so far
        for _ in range(3):
            self.step(*self.batch)
        return {
            "peak_mib": resident("VmHWM"),
            "imported_mib": self.baseline,
            "ever_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    def overhead(self) -> dict[str, float]:
        """Microseconds of a call, and of its kernels alone."""
        from adjoint.engine.backends.llvm.runtime.pool import the_pool

        pool, step, batch = the_pool(), self.step, self.batch
        executable: Any = self.step.latest.executable  # type: ignore[attr-defined]
        segments = executable.segments
        workers = self.fw.get_num_threads() if executable.image.parallel else 1

        def kernels() -> None:
            for segment in segments:
                pool.run(segment.address, segment.count, workers)

        whole = least(lambda: step(*batch), 2000)
        alone = least(kernels, 2000)
        return {"call_us": 1e6 * whole, "kernels_us": 1e6 * alone}


def least(call: Callable[[], object], times: int) -> float:
    """The least seconds of a call."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def resident(field: str) -> float:
    """A size of this process in MiB, by its name in /proc."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def main() -> None:
    """Serve requests until the input ends."""
    framework, name, threads = sys.argv[1:]
    worker = Worker(framework, FAMILIES[name], int(threads))
    print(json.dumps(worker.first), flush=True)
    for line in sys.stdin:
        request, *arguments = line.split()
        answer = getattr(worker, request)(*map(float, arguments))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
