"""Matrix products in native code, beside NumPy's: one launch, one core.

`python -m benchmarks.products` prints GFLOP/s by shape: the least processor time of several runs of
what a compiled product is made of, packing included, and of NumPy's `matmul`, which calls the BLAS
it ships. `--float64`, `--only 64x64` and `--rounds` say what is measured and how often.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.backends.llvm.runtime.pool import the_pool


@dataclass(frozen=True)
class Case:
    """A product (batch, m, n, k) and which operands are transposed in memory."""

    batch: int
    m: int
    n: int
    k: int
    layout: str  # "nt": the second operand lies transposed, as in a linear layer
    use: str

    @property
    def name(self) -> str:
        sizes = (self.batch, self.m, self.n, self.k) if self.batch > 1 else (self.m, self.n, self.k)
        return "x".join(map(str, sizes))


CASES = [
    Case(1, 1024, 128, 512, "nt", "linear layer"),
    Case(1, 1024, 512, 128, "nt", "linear layer"),
    Case(1, 1024, 512, 128, "nn", "its gradient by the input"),
    Case(1, 512, 128, 1024, "tn", "its gradient by the weights"),
    Case(1, 128, 512, 1024, "tn", "the same"),
    Case(1, 128, 128, 1024, "tn", "the same"),
    Case(1, 128, 512, 784, "nt", "linear layer, batch 128"),
    Case(1, 1024, 1024, 1024, "nn", "square"),
    Case(1, 256, 256, 256, "nn", "square"),
    Case(1, 100, 100, 100, "nn", "square, edges"),
    Case(64, 64, 64, 32, "nt", "attention, scores"),
    Case(64, 64, 32, 64, "nn", "attention, values"),
    Case(64, 64, 32, 64, "tn", "attention, gradients"),
    Case(1, 64, 64, 64, "nn", "small"),
    Case(1, 32, 32, 32, "nn", "small"),
    Case(1, 32, 32, 16, "nt", "tiny"),
    Case(1, 16, 16, 16, "nn", "tiny"),
    Case(1, 128, 10, 256, "nt", "last layer"),
    Case(1, 128, 256, 10, "nn", "its gradient by the input"),
    Case(1, 10, 256, 128, "tn", "its gradient by the weights"),
    Case(1, 1024, 1, 512, "nt", "matrix times vector"),
    Case(1, 1, 1024, 512, "nt", "vector times matrix, transposed"),
    Case(1, 1, 1024, 512, "nn", "vector times matrix"),
    Case(1, 1024, 4, 512, "nt", "four columns"),
    Case(1, 512, 1, 1024, "tn", "transposed matrix times vector"),
]


def operand(shape: tuple[int, ...], transposed: bool, dtype: str) -> Any:
    """A random operand, its rows or its columns contiguous."""
    random = np.random.default_rng(0)
    if not transposed:
        return ad.tensor(random.standard_normal(shape).astype(dtype))
    other = (*shape[:-2], shape[-1], shape[-2])
    return ad.tensor(random.standard_normal(other).astype(dtype)).mT


def ways(case: Case, dtype: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """What runs the launches of a compiled product on the calling thread, and NumPy's product."""
    batch = (case.batch,) if case.batch > 1 else ()
    a = operand((*batch, case.m, case.k), case.layout[0] == "t", dtype)
    b = operand((*batch, case.k, case.n), case.layout[1] == "t", dtype)
    compiled = ad.compile(lambda a, b: a @ b)
    result, out = compiled(a, b), np.empty((*batch, case.m, case.n), dtype)
    x, y = a.numpy(), b.numpy()
    np.testing.assert_allclose(result.numpy(), np.matmul(x, y, out=out), rtol=1e-3, atol=1e-3)
    (table,) = compiled.latest.executable.segments
    pool = the_pool()
    keep = (compiled, a, b, result)  # alive as long as what follows

    def run() -> None:
        pool.run(table.address, table.count, 1)
        assert keep

    return run, lambda: np.matmul(x, y, out=out)


def seconds(run: Callable[[], object], flops: int, rounds: int) -> float:
    """The least processor time of a run."""
    repeats = max(1, 4_000_000 // flops)
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        for _ in range(repeats):
            run()
        best = min(best, (time.thread_time() - start) / repeats)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--only", default="", help="shapes that contain this")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    dtype = "float64" if arguments.float64 else "float32"
    ad.set_num_threads(1)  # NumPy's too
    print("| product | operands | GFLOP/s | us | NumPy GFLOP/s | us | |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        if arguments.only not in case.name:
            continue
        flops = 2 * case.batch * case.m * case.n * case.k
        row = f"| {case.name} | {case.layout} |"
        for way in ways(case, dtype):
            best = seconds(way, flops, arguments.rounds)
            row += f" {flops / best / 1e9:.1f} | {best * 1e6:.1f} |"
        print(f"{row} {case.use} |", flush=True)


if __name__ == "__main__":
    main()
