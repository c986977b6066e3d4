"""Where the time of a compiled training step on a GPU goes: its launches one by one, by what they
do.

python -m benchmarks.gpu_profile [--row gpt16] [--lines 40]
"""

from __future__ import annotations

import argparse
import importlib
from collections import defaultdict
from typing import Any

import adjoint as ad
from adjoint.engine.backends.triton.program import program as programs
from adjoint.nn import functional as F
from benchmarks.gpu import training


def programs_of(run: Any) -> list[Any]:
    """The programs that a function's first call makes."""
    kept: list[Any] = []
    make = programs.GpuProgram.make_segments

    def remember(self: Any) -> Any:
        kept.append(self)
        return make(self)

    programs.GpuProgram.make_segments = remember  # type: ignore[method-assign]
    try:
        run()
    finally:
        programs.GpuProgram.make_segments = make  # type: ignore[method-assign]
    return kept


def launches_of(program: Any) -> list[tuple[str, Any, int]]:
    """What each launch does, and how to make it."""
    labels = [
        entry.label if isinstance(entry.label, str) else "".join(map(str, entry.label))
        for segment in program.draft.segments
        for _, _, entry in segment or ()
    ]
    runs = [each for s in program.segments if hasattr(s, "launches") for each in s.launches[0]]
    return [(label, run, words) for label, (run, words) in zip(labels, runs, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--row", default="gpt16", help="of benchmarks.gpu: a training step")
    parser.add_argument("--lines", type=int, default=40)
    chosen = parser.parse_args()
    events = importlib.import_module("cupy").cuda
    step, x, y, _ = training(chosen.row, "adjoint", ad, F)
    compiled = ad.compile(step)
    largest = max(programs_of(lambda: compiled(x, y)), key=lambda p: len(p.image.words))
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    begin, end = events.Event(), events.Event()
    for label, run, words in launches_of(largest):
        run(words)
        begin.record()
        for _ in range(3):
            run(words)
        end.record()
        end.synchronize()
        totals[label][0] += events.get_elapsed_time(begin, end) / 3
        totals[label][1] += 1
    print(f"{sum(t for t, _ in totals.values()):.2f} ms in all")
    for label, (ms, count) in sorted(totals.items(), key=lambda e: -e[1][0])[: chosen.lines]:
        print(f"{ms:9.3f} ms {count:5.0f} x {label[:150]}")


if __name__ == "__main__":
    main()
