"""Products of int8 beside those of float32, compiled, on one core: the least of many repeats.

python -m benchmarks.integers
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.backends.llvm.templates.integers.dots import host_dot
from adjoint.engine.ops.quantized.products import INTEGER_MATMUL
from adjoint.quantization.modules.weight_only import WeightOnlyLinear
from adjoint.quantization.weights import group_weight

SHAPES = [(128, 512, 784), (128, 384, 384), (512, 1536, 384), (32, 2048, 2048), (8, 1024, 1024)]
REPEATS = 60


def least(runs: Sequence[Callable[[], Any]]) -> list[float]:
    """The shortest time of each, in turn."""
    found = [float("inf")] * len(runs)
    for _ in range(REPEATS):
        for k, run in enumerate(runs):
            start = time.perf_counter()
            run()
            found[k] = min(found[k], time.perf_counter() - start)
    return found


def products() -> None:
    random = np.random.default_rng(0)
    print(f"dots by {host_dot().name}; m n k, GOP/s of int8, of float32, ratio")
    for m, n, k in SHAPES:
        x, y = (
            ad.tensor(random.integers(-128, 128, shape).astype(np.int8))
            for shape in ((m, k), (n, k))
        )
        whole = ad.compile(lambda a, b: INTEGER_MATMUL(a, b))
        real = ad.compile(lambda a, b: a @ b.t())
        pair = x.float(), y.float()
        whole(x, y)
        real(*pair)
        times = least([lambda f=whole, a=x, b=y: f(a, b), lambda f=real, p=pair: f(*p)])  # type: ignore[misc]
        rates = [2 * m * n * k / t / 1e9 for t in times]
        print(f"{m:5} {n:5} {k:5} {rates[0]:8.1f} {rates[1]:8.1f} {rates[0] / rates[1]:6.2f}")


def weights() -> None:
    print("one row times (n, n): ms of float32, weights of 8 bits, of 4 in groups of 128")
    for n in (1024, 4096):
        weight, x = ad.randn(n, n), ad.randn(1, n)
        layers: list[Any] = [ad.nn.Linear(n, n, bias=False)]
        layers += [WeightOnlyLinear(group_weight(weight, 8))]
        layers += [WeightOnlyLinear(group_weight(weight, 4, 128, symmetric=False))]
        runs = [ad.compile(layer) for layer in layers]
        with ad.no_grad():
            for run in runs:
                run(x)
            times = least([lambda run=run, x=x: run(x) for run in runs])  # type: ignore[misc]
        print(f"{n:5} " + " ".join(f"{1e3 * t:8.2f}" for t in times))


if __name__ == "__main__":
    ad.set_num_threads(1)
    products()
    weights()
