"""What one small eager operation costs, here and in PyTorch, measured in one run.

    python -m benchmarks.overhead [--rounds 15] [--least] [--json results.json] [name ...]

The frameworks take turns, round by round, so that a slow moment of the machine meets both; each
number is the median over rounds of the mean time of one call; with `--least`, for a machine that
others use too, the least over rounds of the mean processor time.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import adjoint as ad

Call = Callable[[], Any]
TARGET_SECONDS = 0.02  # per framework, operation and round
WARM_CALLS, WARM_SECONDS = 2000, 2.0  # whichever comes first


@dataclass(frozen=True, slots=True)
class Program:
    """One thing people do all day: `make(framework)` prepares it and returns the call."""

    name: str
    make: Callable[[Any], Call]


def small_add(fw: Any) -> Call:
    x, y = fw.ones(8), fw.ones(8)
    return lambda: x + y


def add_scalar(fw: Any) -> Call:
    x = fw.ones(8)
    return lambda: x + 1.5


def multiply_with_gradient(fw: Any) -> Call:
    x, y = fw.ones(8, requires_grad=True), fw.ones(8)
    return lambda: x * y


def small_matmul(fw: Any) -> Call:
    x, y = fw.ones(8, 8), fw.ones(8, 8)
    return lambda: x @ y


def take_slice(fw: Any) -> Call:
    x = fw.ones(8, 8)
    return lambda: x[2:5]


def reshape(fw: Any) -> Call:
    x = fw.ones(8, 8)
    return lambda: x.reshape(4, 16)


def total(fw: Any) -> Call:
    x = fw.ones(8, 8)
    return lambda: x.sum()


def chain_of_twenty(fw: Any) -> Call:
    x, y = fw.ones(8, requires_grad=True), fw.full((8,), 1.01)

    def call() -> None:
        x.grad = None
        z = x
        for _ in range(20):
            z = z * y
        z.sum().backward()

    return call


def small_composites() -> list[Program]:
    """Operations that are made of many, on few elements."""

    def program(name: str, make: Callable[[Any, Any], Call]) -> Program:
        return Program(name, lambda fw: make(fw, fw.nn.functional))

    def rows(fw: Any) -> Any:
        return fw.linspace(-1, 2, 8).reshape(2, 4)

    def of_rows(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Call]:
        return lambda fw, F: partial(call, F, rows(fw))

    def of_classes(call: Callable[..., Any]) -> Callable[[Any, Any], Call]:
        return lambda fw, F: partial(call, F, rows(fw), fw.tensor([1, 3]))

    def ctc(fw: Any, F: Any) -> Call:
        scores = fw.linspace(-1, 2, 24).reshape(6, 1, 4).log_softmax(-1)
        given = [fw.tensor(x) for x in ([[1, 2]], [6], [2])]
        return lambda: F.ctc_loss(scores, *given)

    def ctc_backward(fw: Any, F: Any) -> Call:
        scores = fw.linspace(-1, 2, 24).reshape(6, 1, 4).clone().requires_grad_()
        given = [fw.tensor(x) for x in ([[1, 2]], [6], [2])]

        def run() -> None:
            scores.grad = None
            F.ctc_loss(scores.log_softmax(-1), *given).backward()

        return run

    def convolution(fw: Any, F: Any) -> Call:
        x, w = fw.ones(1, 2, 5, 5), fw.ones(3, 2, 3, 3)
        return lambda: F.conv2d(x, w, padding=1)

    def pooled(name: str) -> Callable[[Any, Any], Call]:
        return lambda fw, F: partial(getattr(F, name), fw.ones(1, 2, 6, 6), 2)

    def batch_norm(fw: Any, F: Any) -> Call:
        x, given = rows(fw), [fw.zeros(4), fw.ones(4), fw.ones(4), fw.zeros(4)]
        return lambda: F.batch_norm(x, *given, training=True)

    def cell(fw: Any, F: Any) -> Call:
        net = fw.nn.LSTMCell(4, 3)
        return partial(net, rows(fw))

    def backward(call: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], Call]:
        """With its gradient, of a tensor that is one's own."""

        def make(fw: Any, F: Any) -> Call:
            x, y = rows(fw).clone().requires_grad_(), fw.tensor([1, 3])

            def run() -> None:
                x.grad = None
                call(F, x, y).sum().backward()

            return run

        return make

    return [
        program("softmax", of_rows(lambda F, x: x.softmax(-1))),
        program("variance", of_rows(lambda F, x: x.var())),
        program("standard deviation", of_rows(lambda F, x: x.std(-1))),
        program("layer norm", of_rows(lambda F, x: F.layer_norm(x, (4,)))),
        program("group norm", of_rows(lambda F, x: F.group_norm(x.reshape(1, 2, 4), 2))),
        program("squared error", of_rows(lambda F, x: F.mse_loss(x, x))),
        program("cross entropy", of_classes(lambda F, x, y: F.cross_entropy(x, y))),
        program("normal numbers", lambda fw, F: lambda: fw.randn(8)),
        program("sort", of_rows(lambda F, x: x.sort())),
        program("CTC", ctc),
        program("convolution 5x5", convolution),
        program("largest of 2x2", pooled("max_pool2d")),
        program("mean of 2x2", pooled("avg_pool2d")),
        program("batch norm", batch_norm),
        program("LSTM cell", cell),
        program("gelu", of_rows(lambda F, x: F.gelu(x))),
        program("sum, backward", backward(lambda F, x, y: x)),
        program("softmax, backward", backward(lambda F, x, y: x.softmax(-1))),
        program("layer norm, backward", backward(lambda F, x, y: F.layer_norm(x, (4,)))),
        program("cross entropy, backward", backward(lambda F, x, y: F.cross_entropy(x, y))),
        program("CTC, backward", ctc_backward),
    ]


PROGRAMS = (
    Program("add", small_add),
    Program("add of a scalar", add_scalar),
    Program("multiply with gradient", multiply_with_gradient),
    Program("matmul 8x8", small_matmul),
    Program("slice", take_slice),
    Program("reshape", reshape),
    Program("sum", total),
    Program("20 multiplications, backward", chain_of_twenty),
    *small_composites(),
)


def time_calls(call: Call, repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call, as the mean of `repeats`."""
    calls = range(repeats)
    start = clock()
    for _ in calls:
        call()
    return (clock() - start) / repeats


def repeats_for(call: Call, seconds: float = TARGET_SECONDS) -> int:
    """How many calls fill a round, after warming up: what is met often is loaded and compiled."""
    end = time.process_time() + WARM_SECONDS
    for _ in range(WARM_CALLS // 50):
        time_calls(call, 50)
        if time.process_time() > end:
            break
    return max(5, int(seconds / max(time_calls(call, 20), 1e-7)))


def measure(
    program: Program,
    frameworks: dict[str, Any],
    rounds: int,
    least: bool,
    seconds: float = TARGET_SECONDS,
    is_clear: Callable[[dict[str, float]], bool] | None = None,
) -> dict[str, float]:
    """Microseconds of one call in each framework; no more rounds than `is_clear` asks for."""
    calls = {name: program.make(fw) for name, fw in frameworks.items()}
    repeats = {name: repeats_for(call, seconds) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    one: Callable[[list[float]], float] = min if least else statistics.median
    found: dict[str, float] = {}
    for _ in range(rounds):
        for name in order:
            clock = time.process_time if least else time.perf_counter
            times[name].append(time_calls(calls[name], repeats[name], clock))
        order.reverse()  # neither always goes first
        found = {name: 1e6 * one(seen) for name, seen in times.items()}
        if is_clear is not None and is_clear(found):
            break
    return found


def frameworks() -> dict[str, Any]:
    """Adjoint and, where it is installed, PyTorch on one thread."""
    found: dict[str, Any] = {"adjoint": ad}
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: Adjoint alone (pip install torch==2.13.0)")
        return found
    torch.set_num_threads(1)
    return found | {"torch": torch}


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, and write JSON if asked."""
    parser = argparse.ArgumentParser(description="Overhead of small eager operations.")
    parser.add_argument("names", nargs="*", help="only programs whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--least", action="store_true", help="of processor time, over rounds")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args(argv)
    chosen = [p for p in PROGRAMS if not options.names or any(n in p.name for n in options.names)]
    present = frameworks()
    results: dict[str, dict[str, float]] = {}
    print(
        f"{'microseconds a call':30s}" + "".join(f"{name:>10s}" for name in present) + "     ratio"
    )
    gc.disable()  # a collection in one framework's turn would be charged to it
    try:
        for program in chosen:
            row = results[program.name] = measure(program, present, options.rounds, options.least)
            gc.collect()
            if "torch" in row:
                row["ratio"] = row["adjoint"] / row["torch"]
            print(f"{program.name:30s}" + "".join(f"{v:10.2f}" for v in row.values()), flush=True)
    finally:
        gc.enable()
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
