"""What the graph passes make of a GPT training step, and what each costs.

    python -m benchmarks.graph_passes [--layers 4] [--rounds 7] [--counts]

Prints a Markdown table: nodes before and after each pass, the least processor time over the rounds,
and that time per node; with --counts, also how many nodes of each record every pass took away or
brought.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.passes.pipeline import PIPELINE
from adjoint.graph import capture
from adjoint.models import GPT2, GPT2Config
from adjoint.nn import functional as F


def gpt_step(layers: int = 4) -> DataflowGraph:
    """The graph of a whole step: forward, backward, clipping, AdamW."""
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

    captured = capture(step)
    captured(ad.randint(0, 256, (16, 64)), ad.randint(0, 256, (16, 64)))
    return captured.latest.graph


def least_time(run: Callable[[], Any], rounds: int) -> float:
    """The least seconds of the processor over the rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        run()
        best = min(best, time.thread_time() - start)
    return best


def changes(before: DataflowGraph, after: DataflowGraph) -> str:
    """The records whose number of nodes changed."""
    old, new = (Counter(node.record.name for node in g) for g in (before, after))
    return ", ".join(f"{k} {old[k]}→{new[k]}" for k in sorted(old | new) if old[k] != new[k])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--counts", action="store_true")
    options = parser.parse_args()
    graph = gpt_step(options.layers)
    total = 0.0
    print("| pass | nodes before | after | ms | us per node |" + " records |" * options.counts)
    print("|---|---|---|---|---|" + "---|" * options.counts)
    for name, run, _ in PIPELINE:
        seconds = least_time(lambda run=run, graph=graph: run(graph), options.rounds)  # type: ignore[misc]
        total += seconds
        after = run(graph)
        row = f"| {name} | {len(graph)} | {len(after)} | {seconds * 1e3:.1f} "
        row += f"| {seconds / len(graph) * 1e6:.1f} |"
        print(row + (f" {changes(graph, after)} |" if options.counts else ""))
        graph = after
    print(f"\nall passes: {total * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
