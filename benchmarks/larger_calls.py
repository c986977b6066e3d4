"""Some six hundred calls on thousands to millions of elements, here and in PyTorch.

    python -m benchmarks.larger_calls [--elements 200000] [--gradients] [--worst 40] [text ...]

Processor time of one thread, the least of rounds in which the frameworks take turns; with text,
only calls that contain one of them. With `--gradients` a call is what it gives and the gradients of
all that it is made of, for cotangents of ones; calls that have none are left out.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import adjoint as ad
from benchmarks.larger_call_cases import LARGER_CALLS, larger_operands
from benchmarks.overhead import frameworks
from benchmarks.small_calls import show

WARM_SECONDS, WARM_CALLS = 0.05, 40  # what is met often is compiled
SECONDS, LEAST_ROUNDS, SHORTEST = 0.04, 3, 2e-4  # of a call in both frameworks; of one turn
Call = Callable[[], Any]


def floats_in(out: Any) -> list[Any]:
    """The tensors in a result to which gradients lead."""
    if isinstance(out, (tuple, list)):
        return [tensor for item in out for tensor in floats_in(item)]
    return [out] if getattr(out, "requires_grad", False) else []


def with_gradients(fw: Any, call: Call, leaves: list[Any]) -> Call | None:
    """The call and its gradients; None where it has none."""
    if not floats_in(call()):
        return None
    ones = [fw.ones_like(out).detach() for out in floats_in(call())]

    def both() -> Any:
        return fw.autograd.grad(floats_in(call()), leaves, ones, allow_unused=True)

    return both


def prepared(fw: Any, text: str, given: dict[str, Any], gradients: bool) -> Call | None:
    """One call, evaluated where its operands are; None where it is left out."""
    code = compile(f"lambda: {text}", text, "eval")
    call: Call = eval(code, given)
    if not gradients:
        return call
    names = {name for part in code.co_consts if hasattr(part, "co_names") for name in part.co_names}
    leaves = [given[name] for name in sorted(names) if getattr(given.get(name), "is_leaf", False)]
    return with_gradients(fw, call, [leaf for leaf in leaves if leaf.requires_grad])


def followed(given: dict[str, Any]) -> dict[str, Any]:
    """Operands, of which the floats are asked for gradients; what is written to is not."""
    leaves = {
        name: x.detach().clone().requires_grad_()
        for name, x in given.items()
        if hasattr(x, "is_leaf") and (x.is_floating_point() or x.is_complex()) and name != "n"
    }
    return given | leaves


def seconds_of(call: Call, times: int) -> float:
    """Of one call, of some that follow each other."""
    started = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - started) / times


def in_turns(calls: dict[str, Call]) -> dict[str, float]:
    """Microseconds of one call in each framework."""
    once = max(seconds_of(call, 1) for call in calls.values())
    for call in calls.values():
        seconds_of(call, max(3, min(WARM_CALLS, int(WARM_SECONDS / max(once, 1e-6)))))
    times = max(1, int(SHORTEST / max(*(seconds_of(c, 3) for c in calls.values()), 1e-7)))
    least, spent, order = dict.fromkeys(calls, math.inf), 0.0, list(calls)
    rounds = 0
    while rounds < LEAST_ROUNDS or spent < SECONDS:
        for name in order:
            took = seconds_of(calls[name], times)
            least[name] = min(least[name], took)
            spent += took * times
        order.reverse()  # neither always goes first
        rounds += 1
    return {name: 1e6 * took for name, took in least.items()}


def main(argv: list[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Larger calls beside PyTorch's.")
    parser.add_argument("texts", nargs="*", help="only calls that contain one of these")
    parser.add_argument("--elements", type=int, default=200_000)
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--worst", type=int, default=40, help="rows that are printed")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    present = frameworks()
    ad.set_num_threads(1)
    given = {name: larger_operands(fw, options.elements) for name, fw in present.items()}
    if options.gradients:
        given = {name: followed(operands) for name, operands in given.items()}
    rows: dict[str, dict[str, float]] = {}
    gc.disable()  # a collection in one framework's turn would be charged to it
    for text in [call for calls in LARGER_CALLS.values() for call in calls]:
        told = text.lstrip("!")
        if (options.gradients and told != text) or not any(
            part in told for part in options.texts or [""]
        ):
            continue
        calls = {
            name: prepared(fw, told, given[name], options.gradients) for name, fw in present.items()
        }
        known = {name: call for name, call in calls.items() if call is not None}
        if len(known) == len(calls):
            rows[told] = in_turns(known)
        gc.collect()
    gc.enable()
    if "torch" in present:
        show(rows, options.worst)
    print(f"{len(rows)} calls")
    return 0


if __name__ == "__main__":
    sys.exit(main())
