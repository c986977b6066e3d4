"""Products of int8 beside those of float32, compiled, on one core: the least of many repeats.

    python -m benchmarks.integers [--device cuda]

On a GPU they are beside those of bfloat16, and weights of 8 and 4 bits beside bfloat16's, all as
milliseconds of one call among many.
"""

from __future__ import annotations

import argparse
import copy
import importlib
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
    best = [float("inf")] * len(runs)
    for _ in range(REPEATS):
        for k, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


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


# -- on a GPU -----------------------------------------------------------------------------------

GPU_SHAPES = [(8192, 8192, 8192), (4096, 4096, 4096), (1024, 4096, 4096), (16, 8192, 8192)]
GPU_ROWS = (1, 2, 4, 8, 16, 64, 256, 1024)
CACHED = 160 << 20  # bytes of weights, more than caches hold
CALLS = 20


def milliseconds(run: Callable[[], Any]) -> float:
    """Of a call, the least of some stretches of many."""
    run()
    run()
    best = float("inf")
    for _ in range(3):
        ad.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            run()
        ad.cuda.synchronize()
        best = min(best, 1e3 * (time.perf_counter() - start) / CALLS)
    return best


def products_on_gpu() -> None:
    print("m n k: ms of int8 compiled, int8 eager, bfloat16; TOP/s of int8, ratio to bfloat16")
    for m, n, k in GPU_SHAPES:
        x, y = (ad.randint(-128, 128, s, device="cuda").to(ad.int8) for s in ((m, k), (n, k)))
        halves = x.to(ad.bfloat16), y.to(ad.bfloat16)
        whole = ad.compile(lambda a, b: INTEGER_MATMUL(a, b))
        real = ad.compile(lambda a, b: a @ b.t())
        times = [
            milliseconds(lambda f=f, p=p: f(*p))  # type: ignore[misc]
            for f, p in ((whole, (x, y)), (INTEGER_MATMUL, (x, y)), (real, halves))
        ]
        row = " ".join(f"{t:8.3f}" for t in times)
        rate = 2e-9 * m * n * k / times[0]
        print(f"{m:5} {n:5} {k:5} {row} {rate:8.1f} {times[2] / times[0]:6.2f}", flush=True)


def weights_on_gpu() -> None:
    """Layers whose weights of few bits lie one behind another, so that no cache holds them all."""
    torch = torch_if_there()
    print("rows times (n, n): ms of PyTorch's bfloat16, ours, weights of 8 bits, of 4 in groups of")
    print("128; then the same two eagerly, and how many times PyTorch's speed those of 4 bits have")
    for n in (4096, 8192):
        weight = ad.randn(n, n)
        kinds: list[Any] = [ad.nn.Linear(n, n, bias=False)]
        kinds += [WeightOnlyLinear(group_weight(weight, 8))]
        kinds += [WeightOnlyLinear(group_weight(weight, 4, 128, symmetric=False))]
        kinds[0] = kinds[0].to(ad.bfloat16)
        stacks = [
            [copy.deepcopy(kind).to("cuda") for _ in range(max(2, CACHED // held(kind)))]
            for kind in kinds
        ]
        runs = [ad.compile(lambda x, layers=layers: [f(x) for f in layers]) for layers in stacks]
        runs += [lambda x, layers=layers: [f(x) for f in layers] for layers in stacks[1:]]
        counts = [len(layers) for layers in (*stacks, *stacks[1:])]
        theirs = None if torch is None else torch_weights(torch, n, counts[0])
        for rows in GPU_ROWS:
            x = ad.randn(rows, n, device="cuda").to(ad.bfloat16)
            with ad.no_grad():
                times = [
                    milliseconds(lambda run=run, x=x: run(x)) / count  # type: ignore[misc]
                    for run, count in zip(runs, counts, strict=True)
                ]
            before = float("nan") if theirs is None else theirs(rows)
            row = " ".join(f"{t:8.4f}" for t in (before, *times))
            print(f"{rows:5} {n:5} {row} {before / times[2]:6.2f}", flush=True)


def held(layer: Any) -> int:
    """Bytes of a layer."""
    return sum(t.numel() * t.element_size() for t in layer.state_dict().values())


def torch_if_there() -> Any:
    """PyTorch with a GPU, if it is installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def torch_weights(torch: Any, n: int, count: int) -> Callable[[int], float]:
    """What times PyTorch's products of so many rows by weights one behind another, as a graph."""
    weights = [torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(count)]

    def measure(rows: int) -> float:
        x = torch.randn(rows, n, device="cuda", dtype=torch.bfloat16)
        for w in weights:
            x @ w.t()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for w in weights:
                x @ w.t()
        return milliseconds(graph.replay) / count

    return measure


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    if parser.parse_args().device == "cuda":
        products_on_gpu()
        weights_on_gpu()
    else:
        ad.set_num_threads(1)
        products()
        weights()
