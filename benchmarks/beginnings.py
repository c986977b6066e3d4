"""The first moments of a process: imports, first operations, first ten training steps.

    python -m benchmarks.beginnings [--processes 7] [--steps mlp cnn gpt] [kind ...]

Every figure is the median of processes of their own. An operation is timed where it is the first
of its process on many elements, once with an empty disk cache and then with what that left; beside
it stand the processor time of the call, which other programs on the machine change less, and how
many modules it imported. Ten steps are AdamW steps of `benchmarks.families`, eager and compiled,
from an empty cache and with what that left, with PyTorch's in turns; the imports are not in them.
Files of bytecode are written whatever the environment says, as they are by installations: without
them everything is parsed anew in every process, which takes six times as long.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

IMPORTS = ("adjoint", "adjoint.nn", "adjoint.distributed", "adjoint.optim")
STEPS = 10
Figures = dict[str, float]


def normal(ad: Any, *shape: int, grad: bool = False) -> Any:
    """A tensor around memory of NumPy's: making it computes nothing."""
    drawn = np.random.default_rng(0).standard_normal(shape, np.float32)
    return ad.from_numpy(drawn).requires_grad_(grad)


def softmax(ad: Any) -> Callable[[], Any]:
    """Over rows of 512."""
    x = normal(ad, 512, 512)
    return lambda: ad.softmax(x, -1)


def gelu(ad: Any) -> Callable[[], Any]:
    """Of 262,144 elements."""
    x, gelu = normal(ad, 512, 512), ad.nn.functional.gelu
    return lambda: gelu(x)


def layer_norm(ad: Any) -> Callable[[], Any]:
    """With gradients of operand, weight and bias."""
    x, w, b = (normal(ad, *shape, grad=True) for shape in ((512, 512), (512,), (512,)))
    g, norm = normal(ad, 512, 512), ad.nn.functional.layer_norm
    return lambda: norm(x, (512,), w, b).backward(g)


def cross_entropy(ad: Any) -> Callable[[], Any]:
    """With its gradient."""
    x, entropy = normal(ad, 512, 512, grad=True), ad.nn.functional.cross_entropy
    y = ad.from_numpy(np.random.default_rng(1).integers(0, 512, 512))
    return lambda: entropy(x, y).backward()


def conv2d(ad: Any) -> Callable[[], Any]:
    """With the gradients of images and filters."""
    x, w = normal(ad, 8, 16, 32, 32, grad=True), normal(ad, 32, 16, 3, 3, grad=True)
    g, convolve = normal(ad, 8, 32, 32, 32), ad.nn.functional.conv2d
    return lambda: convolve(x, w, padding=1).backward(g)


def matmul(ad: Any) -> Callable[[], Any]:
    """Of matrices of 256 rows and columns."""
    x, y = normal(ad, 256, 256), normal(ad, 256, 256)
    return lambda: x @ y


def attention(ad: Any) -> Callable[[], Any]:
    """Scaled dot-product attention, 4 heads over 128 positions."""
    q = normal(ad, 4, 4, 128, 64)
    attend = ad.nn.functional.scaled_dot_product_attention
    return lambda: attend(q, q, q)


def randn(ad: Any) -> Callable[[], Any]:
    """100,000 draws."""
    return lambda: ad.randn(100_000)


def sort(ad: Any) -> Callable[[], Any]:
    """Of 100,000 elements."""
    x = normal(ad, 100_000)
    return lambda: ad.sort(x)


def adam(ad: Any) -> Callable[[], Any]:
    """A step of Adam's on 266,000 parameters."""
    weights = [ad.nn.Parameter(normal(ad, n, 512)) for n in (512, 8)]
    for w in weights:
        w.grad = normal(ad, *w.shape)
    step: Callable[[], Any] = ad.optim.Adam(weights, lr=1e-3).step
    return step


KINDS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    kind.__name__: kind
    for kind in (
        softmax, gelu, layer_norm, cross_entropy, conv2d, matmul, attention, randn, sort, adam,
    )
}  # fmt: skip


def timed(call: Callable[[], Any]) -> Figures:
    """Milliseconds that a call takes, and of processors."""
    start, used = time.perf_counter(), time.process_time()
    call()
    wall, processor = time.perf_counter() - start, time.process_time() - used
    return {"ms": 1e3 * wall, "processor": 1e3 * processor}


def first_call(kind: str) -> Figures:
    """The first call of an operation in this process, and the second."""
    import adjoint as ad

    call = KINDS[kind](ad)
    before = len(sys.modules)
    first = timed(call)
    imported = len(sys.modules) - before
    return {**first, "second": timed(call)["ms"], "modules": imported}


def first_import(name: str) -> Figures:
    """The import of a module in this process, after NumPy's."""
    return timed(lambda: importlib.import_module(name))


def first_steps(family: str, framework: str) -> Figures:
    """The first steps of training in this process."""
    from benchmarks.families import FAMILIES
    from benchmarks.worker import MODULES, make_step

    fw = importlib.import_module(MODULES[framework])
    step, batch = make_step(fw, FAMILIES[family])
    if framework == "compiled":
        step = fw.compile(step)
    losses: list[float] = []
    each = [timed(lambda: losses.append(float(step(*batch)))) for _ in range(STEPS)]
    whole = {name: sum([figures[name] for figures in each]) for name in each[0]}
    return {**whole, "first": each[0]["ms"], "last": each[-1]["ms"], "loss": losses[-1]}


ASKED: dict[str, Callable[..., Figures]] = {
    "call": first_call, "import": first_import, "steps": first_steps,
}  # fmt: skip


def in_new_process(*asked: str, cache: str) -> Figures:
    """The same in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.beginnings", "--here", *asked],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ADJOINT_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""},
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def middle(runs: list[Figures]) -> Figures:
    """The median of each figure."""
    return {name: statistics.median([run[name] for run in runs]) for name in runs[0]}


def from_empty(count: int, *asked: str) -> Figures:
    """Medians of processes that each begin with an empty cache."""
    runs: list[Figures] = []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as cache:
            runs.append(in_new_process(*asked, cache=cache))
    return middle(runs)


def line(title: str, figures: Figures, *names: str) -> None:
    """A row of a table."""
    print(f"{title:<24}" + "".join(f"{figures[name]:11.1f}" for name in names), flush=True)


def head(title: str, *names: str) -> None:
    """What stands above the columns."""
    print(f"\n{title:<24}" + "".join(f"{name:>11}" for name in names))


def show_imports(count: int) -> None:
    """A line for each module."""
    head("import, after NumPy", "ms", "processor")
    with tempfile.TemporaryDirectory() as cache:
        for name in IMPORTS:
            runs = [in_new_process("import", name, cache=cache) for _ in range(count)]
            line(name, middle(runs), "ms", "processor")


def show_calls(count: int, kinds: list[str]) -> None:
    """Two lines for each kind of operation."""
    head("first call", "ms", "processor", "modules", "second, ms")
    for kind in kinds:
        cold = from_empty(max(count // 2, 1), "call", kind)
        line(f"{kind}, empty cache", cold, "ms", "processor", "modules", "second")
        with tempfile.TemporaryDirectory() as cache:
            in_new_process("call", kind, cache=cache)
            kept = middle([in_new_process("call", kind, cache=cache) for _ in range(count)])
        line(f"{kind}, from disk", kept, "ms", "processor", "modules", "second")


def show_steps(count: int, families: list[str]) -> None:
    """A line for each family and framework."""
    head(f"first {STEPS} steps", "ms", "processor", "first, ms", "last, ms")
    for family in families:
        runs: dict[str, list[Figures]] = {}
        for _ in range(count):
            for framework in ("torch", "eager", "compiled"):
                with tempfile.TemporaryDirectory() as cache:
                    for kept in ("",) if framework == "torch" else ("", ", disk"):
                        figures = in_new_process("steps", family, framework, cache=cache)
                        runs.setdefault(framework + kept, []).append(figures)
        for title, seen in runs.items():
            line(f"{family}, {title}", middle(seen), "ms", "processor", "first", "last")


def main() -> None:
    """Measure what is asked for, or all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--steps", nargs="*", default=["mlp", "cnn", "gpt"])
    parser.add_argument("--here", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        asked, *rest = given.here
        print(json.dumps(ASKED[asked](*rest)))
        return
    if not given.kinds:
        show_imports(given.processes)
    show_calls(given.processes, given.kinds or list(KINDS))
    if not given.kinds and given.steps:
        show_steps(given.processes, given.steps)


if __name__ == "__main__":
    main()
