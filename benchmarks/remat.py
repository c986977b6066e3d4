"""Time and memory of a GPT training step under the three strategies of rematerialisation.

    python -m benchmarks.remat [--layers 4] [--rounds 8] [--threads 1]

Prints a Markdown table: bytes of temporaries, the least that packing could reach, work as the
program counts it, operations repeated, time of the pass and the least time of a step. The rounds
alternate between strategies; with one thread, times are of the processor.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.engine.graph.passes.pipeline import run_passes
from adjoint.engine.graph.passes.recomputation.remat import rematerialise
from adjoint.models import GPT2, GPT2Config
from adjoint.nn import functional as F

ORDER = ("speed", "balanced", "memory")


def gpt_step(layers: int, strategy: str) -> Any:
    """A compiled step: forward, backward, clipping, AdamW."""
    ad.manual_seed(0)
    sizes = {"vocab_size": 256, "n_positions": 64, "n_embd": 128, "n_head": 4}
    model = GPT2(GPT2Config(**sizes, n_layer=layers, dropout=0.0))
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-3)

    def step(tokens: Any, targets: Any) -> Any:
        loss = F.cross_entropy(model(tokens).reshape(-1, 256), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return ad.compile(step, options={"remat": strategy})


def pass_time(graph: Any, strategy: str) -> float:
    """The least processor time of the pass."""
    passed = run_passes(graph)
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        rematerialise(passed, strategy)
        best = min(best, time.thread_time() - start)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    ad.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    args = ad.randint(0, 256, (16, 64)), ad.randint(0, 256, (16, 64))
    steps = {s: gpt_step(options.layers, s) for s in ORDER}
    best = dict.fromkeys(ORDER, float("inf"))
    losses = {s: [float(step(*args))] for s, step in steps.items()}
    for _ in range(options.rounds):
        for strategy, step in steps.items():
            start = clock()
            loss = step(*args)
            best[strategy] = min(best[strategy], clock() - start)
            losses[strategy].append(float(loss))
    print("| strategy | arena MB | least MB | work M | repeated | pass ms | step ms | last loss |")
    print("|---|---|---|---|---|---|---|---|")
    for strategy, step in steps.items():
        image = step.latest.executable.image
        work = sum(line.get("work", 0) for line in image.report)
        print(
            f"| {strategy} | {image.arena / 1e6:.1f} | {image.memory['least'] / 1e6:.1f} "
            f"| {work / 1e6:.0f} | {sum(image.memory['repeated'].values())} "
            f"| {pass_time(step.latest.graph, strategy) * 1e3:.1f} "
            f"| {best[strategy] * 1e3:.1f} | {losses[strategy][-1]:.5f} |"
        )


if __name__ == "__main__":
    main()
