"""What a profile costs a training step, and whether its totals are the time that passed.

    python -m benchmarks.profiler [--row gpt16] [--modes compiled,eager] [--steps 10] [--lines 12]

On a GPU the rows are those of `benchmarks.gpu`; without one, a small GPT is trained on the CPU.
Blocks of steps with and without a profile take turns; the least time of each is told. Then come
the totals of one profiled block beside the time it took, and its table.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint.models.gpt2 import GPT2, GPT2Config
from adjoint.nn import functional as F
from adjoint.profiler import profile
from benchmarks.gpu import training

TURNS = 4
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


def block(run: Callable[[], Any], wait: Callable[[], None], steps: int) -> float:
    """Seconds that steps take, waited for."""
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        run()
    wait()
    return time.perf_counter() - start


def compare(mode: str, run: Callable[[], Any], wait: Callable[[], None], steps: int) -> profile:
    """Print both times and totals; returns a profile that counts floating-point operations."""
    alone, profiled = [], []
    for _ in range(3):
        run()
    with profile():  # makes what only a profile needs
        for _ in range(4):
            run()
    for _ in range(TURNS):
        alone.append(block(run, wait, steps))
        with profile() as seen:
            begin = time.perf_counter()
            profiled.append(block(run, wait, steps))
            wall = 1e6 * (time.perf_counter() - begin)
    more = 100 * (min(profiled) / min(alone) - 1)
    print(
        f"{mode:9} {1e3 * min(alone) / steps:9.3f} ms a step, profiled "
        f"{1e3 * min(profiled) / steps:9.3f} ms: {more:+.1f}%"
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
    parser.add_argument("--lines", type=int, default=12)
    chosen = parser.parse_args()
    gpu = ad.cuda.is_available()
    for mode in chosen.modes.split(","):
        step, x, y = training(chosen.row, "adjoint", ad, F)[:3] if gpu else small_gpt()
        call = ad.compile(step) if mode == "compiled" else step

        def run(call: Any = call, x: Any = x, y: Any = y) -> Any:
            return call(x, y)

        wait = ad.cuda.synchronize if gpu else (lambda: None)
        tell(compare(mode, run, wait, chosen.steps), chosen.steps, chosen.lines)


if __name__ == "__main__":
    main()
