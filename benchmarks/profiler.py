"""What a profile costs a training step, and whether its totals are the time that passed.

    python -m benchmarks.profiler [--row gpt16] [--modes compiled,eager] [--steps 10] [--turns 4]

On a GPU the rows are those of `benchmarks.gpu`; without one, a small GPT is trained on the CPU.
Blocks of steps with and without a profile take turns. Of each kind the least time is told (and by
how much the middle ones differ, where a machine's speed changes from block to block), and of the
least the host's part: how long Python took to ask for the work, before it was waited for. On a GPU
an eager step whose host's part is near the whole is bound by the host, and shows every microsecond
that an event takes; where the GPU is behind, they are hidden. The CPU's time of both, which load
on the machine does not change, and what an event costs of it come next; then the totals of one
profiled block beside the time it took, and its table.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import adjoint as ad
from adjoint.models.gpt2 import GPT2, GPT2Config
from adjoint.nn import functional as F
from adjoint.profiler import profile
from benchmarks.gpu import training

BATCH, TOKENS, WORDS = 8, 128, 4096


def small_gpt() -> tuple[Callable[..., Any], Any, Any]:
    """A step of a small GPT on the CPU, and its batch."""
    ad.manual_seed(0)
    sizes = GPT2Config(WORDS, TOKENS, n_embd=128, n_layer=4, n_head=4, dropout=0.0)
    model = GPT2(sizes)
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x).reshape(-1, WORDS), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, y = (ad.randint(0, WORDS, (BATCH, TOKENS)) for _ in range(2))
    return step, x, y


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """Milliseconds of a step: waited for, until all of it was asked for, and of the CPU."""

    whole: float
    host: float
    cpu: float


def block(run: Callable[[], Any], wait: Callable[[], None], steps: int) -> Block:
    """The times of some steps.

    Garbage is collected before them: a full round, which takes some fifty milliseconds, would fall
    into some blocks and not into others.
    """
    gc.collect()
    wait()
    start, start_cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        run()
    host = time.perf_counter() - start
    wait()
    whole, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    return Block(*(1e3 * seconds / steps for seconds in (whole, host, cpu)))


def percent(after: float, before: float) -> str:
    """How much more one time is than another."""
    return f"{100 * (after / before - 1):+.1f}%"


def compare(
    mode: str, run: Callable[[], Any], wait: Callable[[], None], steps: int, turns: int
) -> profile:
    """Print both times and totals; returns a profile that counts floating-point operations."""
    alone, profiled = [], []
    for _ in range(3):
        run()
    with profile():  # makes what only a profile needs
        for _ in range(4):
            run()
    for _ in range(turns):
        alone.append(block(run, wait, steps))
        with profile() as seen:
            begin = time.perf_counter()
            profiled.append(block(run, wait, steps))
            wall = 1e6 * (time.perf_counter() - begin)
    before, after = min(alone), min(profiled)
    middle = percent(median(b.whole for b in profiled), median(b.whole for b in alone))
    print(
        f"{mode:9} {before.whole:9.3f} ms a step (host {before.host:.3f}), profiled "
        f"{after.whole:9.3f} ms (host {after.host:.3f}): {percent(after.whole, before.whole)}, "
        f"middle ones {middle}"
    )
    events = len(seen.events()) / steps
    cpu, cpu_profiled = (min(b.cpu for b in blocks) for blocks in (alone, profiled))
    print(
        f"{mode:9} {cpu:9.3f} ms of the CPU, profiled {cpu_profiled:9.3f} ms: "
        f"{percent(cpu_profiled, cpu)}, {1e3 * (cpu_profiled - cpu) / events:.1f} us for each of "
        f"{events:.0f} events"
    )
    totals = seen.key_averages()
    with profile(with_flops=True) as counted:
        block(run, wait, steps)
    print(
        f"{mode:9} wall {wall / 1e3:.2f} ms, totals: CPU {totals.self_cpu_time_total / 1e3:.2f}, "
        f"GPU {totals.self_device_time_total / 1e3:.2f}"
    )
    return counted


def tell(seen: profile, steps: int, lines: int) -> None:
    """Print a profile's rows, what they link to, and the size of its trace."""
    totals = seen.key_averages()
    device = totals.self_device_time_total > 0
    key = "self_cuda_time_total" if device else "self_cpu_time_total"
    print(totals.table(sort_by=key, row_limit=lines, max_name_column_width=40))
    kernels = [row for row in totals if row.kind == "kernel" and row.operations]
    kernels.sort(key=lambda row: -row.self_device_time_total - row.self_cpu_time_total)
    for row in kernels[:3]:
        print(row.key, "|", ", ".join(row.operations[:6]), "|", row.modules[:3], row.lines[:2])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        size = file.stat().st_size
    print(f"{len(seen.events())} events, {size / steps / 1e6:.2f} MB of trace a step")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", default="gpt16", help="of benchmarks.gpu, on a GPU")
    parser.add_argument("--modes", default="compiled,eager")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--lines", type=int, default=12)
    chosen = parser.parse_args()
    gpu = ad.cuda.is_available()
    for mode in chosen.modes.split(","):
        step, x, y = training(chosen.row, "adjoint", ad, F)[:3] if gpu else small_gpt()
        call = ad.compile(step) if mode == "compiled" else step

        def run(call: Any = call, x: Any = x, y: Any = y) -> Any:
            return call(x, y)

        wait = ad.cuda.synchronize if gpu else (lambda: None)
        tell(compare(mode, run, wait, chosen.steps, chosen.turns), chosen.steps, chosen.lines)


if __name__ == "__main__":
    main()
