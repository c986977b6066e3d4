"""Do both profilers say of the same model that the same kinds of operations dominate?

    python -m benchmarks.profiler_tables [MODEL ...] [--steps 5]

Trains each model with PyTorch and with Adjoint, eager on one thread of the CPU (threads that wait
for one another on a busy machine are no operation's time), and prints the share of the operations'
own time that each kind has, the largest first. Kernels that Adjoint has made of several operations
count by the first of these. Ends with status 1 where the kind that
comes first differs, unless the two that lead have shares within a tenth of one another. Needs
PyTorch.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad

KINDS = {
    "convolution": ("conv", "winograd"),
    "attention": ("attention", "flash"),
    "product": ("mm", "matmul", "linear", "addbmm", "einsum"),
    "recurrent": ("lstm", "gru", "rnn"),
    "normalisation": ("norm",),
    "softmax": ("softmax",),
    "pooling": ("pool",),
    "embedding": ("embedding",),
}
SHOWN = 4
WARM = 4  # steps until fragments that come again are compiled
NEAR = 0.1


def kind_of(operation: str) -> str:
    """The kind of an operation, by its name."""
    name = operation.removeprefix("aten::")
    kinds = [kind for kind, words in KINDS.items() if any(word in name for word in words)]
    return kinds[0] if kinds else "other"


def mlp(fw: Any) -> tuple[Any, Any]:
    nn = fw.nn
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    return model, fw.randn(512, 512)


def cnn(fw: Any) -> tuple[Any, Any]:
    nn = fw.nn
    model = nn.Sequential(nn.Conv2d(8, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU())
    return model, fw.randn(8, 8, 32, 32)


def transformer(fw: Any) -> tuple[Any, Any]:
    layer = fw.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return layer, fw.randn(8, 64, 256)


MODELS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "mlp": mlp, "cnn": cnn, "transformer": transformer,
}  # fmt: skip


def shares(fw: Any, model: Any, x: Any, steps: int) -> list[tuple[str, float]]:
    """The kinds of operations in training steps with their shares of the time, largest first."""
    for _ in range(WARM):
        model(x).sum().backward()
    with fw.profiler.profile(activities=[fw.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(steps):
            model(x).sum().backward()
    times: Counter[str] = Counter()
    for row in profile.key_averages():
        if not row.key.startswith("autograd::"):
            times[kind_of(row.key)] += int(row.self_cpu_time_total)
    total = max(1, sum(times.values()))
    return [(kind, time / total) for kind, time in times.most_common()]


def agree(ours: Sequence[tuple[str, float]], theirs: Sequence[tuple[str, float]]) -> bool:
    """Whether the same kind leads, or either one's leader is near the lead of the other.

    >>> agree([("product", 0.6), ("other", 0.4)], [("other", 0.51), ("product", 0.49)])
    True
    >>> agree([("product", 0.6), ("other", 0.4)], [("other", 0.7), ("product", 0.3)])
    False
    """
    lead, other = ours[0][0], theirs[0][0]
    return lead == other or dict(theirs).get(lead, 0.0) >= theirs[0][1] - NEAR


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables of each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], help="all unless given")
    parser.add_argument("--steps", type=int, default=5)
    chosen = parser.parse_args(arguments)
    try:
        import torch
    except ImportError:
        print("benchmarks.profiler_tables: PyTorch is not installed")
        return 1
    before = [fw.get_num_threads() for fw in (torch, ad)]
    for fw in (torch, ad):
        fw.set_num_threads(1)
    try:
        return compare(torch, chosen.models or list(MODELS), chosen.steps)
    finally:
        for fw, threads in zip((torch, ad), before, strict=True):
            fw.set_num_threads(threads)


def compare(torch: Any, models: Sequence[str], steps: int) -> int:
    """Print both tables of some models; 1 if they differ."""
    differ = 0
    for name in models:
        tables = {fw.__name__: shares(fw, *MODELS[name](fw), steps) for fw in (torch, ad)}
        for framework, table in tables.items():
            text = ", ".join(f"{kind} {share:.0%}" for kind, share in table[:SHOWN])
            print(f"{name:12} {framework:8} {text}")
        if not agree(tables[ad.__name__], tables[torch.__name__]):
            print(f"{name}: they differ")
            differ += 1
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
