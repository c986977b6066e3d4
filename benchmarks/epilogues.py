"""What follows a product or a convolution: inside its last write, and as a kernel of its own.

    python -m benchmarks.epilogues [--rounds 15]

Processor time of one thread, the least of rounds in which both ways take turns. The ways are chosen
by the limits of `compiler.loops.epilogues`, which this sets; nothing is read from disk. A
convolution's template takes no epilogue: beside the whole stands the convolution alone, and what
lies between the two is the most that an epilogue could save.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ["ADJOINT_CACHE_SIZE"] = "0"

import adjoint as ad
from adjoint.engine.compiler.loops import epilogues
from adjoint.nn import functional as F

ENDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "residual": lambda c, r: c + r,
    "relu, residual": lambda c, r: c.relu() + r,
    "cast": lambda c, r: c.bfloat16(),
    "gelu (tanh)": lambda c, r: F.gelu(c, approximate="tanh"),
    "gelu (erf)": lambda c, r: F.gelu(c),
    "silu": lambda c, r: F.silu(c),
}
# m, k, n: from results that stay in a cache to those that do not.
PRODUCTS = [(64, 256, 64), (256, 256, 256), (512, 512, 512), (1024, 256, 1024), (2048, 256, 1024)]
# images, channels in and out, size
CONVOLUTIONS = [(8, 16, 16, 32), (8, 64, 64, 28), (16, 64, 128, 28)]


def least(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Milliseconds of processor time of each, taking turns."""
    for call in calls:
        call()
    begin = time.process_time()
    calls[0]()
    times = max(1, int(5e-3 / max(time.process_time() - begin, 1e-6)))
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begin = time.process_time()
            for _ in range(times):
                call()
            best[i] = min(best[i], (time.process_time() - begin) / times)
    return [1e3 * b for b in best]


def compiled(fn: Callable[..., Any], *args: Any, inside: bool) -> Callable[[], Any]:
    """A function compiled with epilogues inside wherever they fit, or nowhere."""
    settings = epilogues.LARGE, epilogues.is_costly
    epilogues.LARGE = 0 if inside else 1 << 62  # type: ignore[misc]
    epilogues.is_costly = lambda name: False  # type: ignore[assignment]
    try:
        made = ad.compile(lambda *xs: fn(*xs))
        made(*args)
    finally:
        epilogues.LARGE, epilogues.is_costly = settings  # type: ignore[misc, assignment]
    return lambda: made(*args)


def products(rounds: int) -> None:
    print("product (m, k, n)        bytes    ending           inside ms  after ms  ratio")
    for m, k, n in PRODUCTS:
        a, b, bias, r = ad.randn(m, k), ad.randn(k, n), ad.randn(n), ad.randn(m, n)
        for name, ending in ENDINGS.items():

            def fn(a: Any, b: Any, bias: Any, r: Any, ending: Any = ending) -> Any:
                return ending(a @ b + bias, r)

            ways = [compiled(fn, a, b, bias, r, inside=inside) for inside in (True, False)]
            inside, after = least(ways, rounds)
            print(
                f"{(m, k, n)!s:<24}{4 * m * n:>9}  bias, {name:<15}"
                f"{inside:>8.3f} {after:>9.3f} {inside / after:>6.2f}"
            )


def convolutions(rounds: int) -> None:
    print("convolution (images, in, out, size)  ending            all ms  alone ms  share")
    for images, inputs, outputs, size in CONVOLUTIONS:
        x, w = ad.randn(images, inputs, size, size), ad.randn(outputs, inputs, 3, 3)
        bias, r = ad.randn(outputs, 1, 1), ad.randn(images, outputs, size, size)
        for name, ending in ENDINGS.items():

            def fn(x: Any, w: Any, bias: Any, r: Any, ending: Any = ending) -> Any:
                return ending(F.conv2d(x, w, padding=1) + bias, r)

            whole = compiled(fn, x, w, bias, r, inside=False)
            alone = compiled(lambda x, w: F.conv2d(x, w, padding=1), x, w, inside=False)
            both, bare = least([whole, alone], rounds)
            print(
                f"{(images, inputs, outputs, size)!s:<37}bias, {name:<15}"
                f"{both:>6.3f} {bare:>9.3f} {1 - bare / both:>6.1%}"
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    ad.set_num_threads(1)
    ad.manual_seed(0)
    products(rounds)
    convolutions(rounds)


if __name__ == "__main__":
    main()
