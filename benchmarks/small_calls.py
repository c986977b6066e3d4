"""Some eighteen hundred calls on eight elements or so, here and in PyTorch: who takes how long.

    python -m benchmarks.small_calls [--rounds 5] [--worst 40] [--json results.json] [text ...]

Processor time, the least over rounds in which the frameworks take turns, on one thread; with text,
only calls that contain one of them. Sorted by our time over PyTorch's, the worst first. Of a call
whose first rounds leave no doubt that it is within `CLEAR` of PyTorch's time there are no more; all
others, those of the table among them, have every round.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import adjoint as ad
from benchmarks.everyday_call_cases import EVERYDAY_CALLS, everyday_operands
from benchmarks.overhead import Call, Program, frameworks, measure
from benchmarks.small_call_cases import CALLS, operands
from benchmarks.small_program_cases import PROGRAM_CALLS, program_operands

SECONDS = 0.01  # per framework, call and round
CLEAR, SURE = 1.2, 2  # far from the mark of 1.7, and after how many rounds


ALL_CALLS = CALLS | PROGRAM_CALLS | EVERYDAY_CALLS


def all_operands(fw: Any) -> dict[str, Any]:
    """What calls are made with: tensors, modules, optimizers, data."""
    given = operands(fw)
    given |= program_operands(fw, given)
    return given | everyday_operands(fw, given)


@cache
def names_of_more() -> frozenset[str]:
    """Of these all that takes longer to make than to time."""
    return frozenset(all_operands(ad).keys() - operands(ad).keys())


def program(text: str) -> Program:
    """One call, evaluated where its operands are."""
    code = compile(f"lambda: {text}", text, "eval")
    (used,) = (part.co_names for part in code.co_consts if isinstance(part, CodeType))

    def make(fw: object) -> Call:
        more = not names_of_more().isdisjoint(used)
        call: Call = eval(code, all_operands(fw) if more else operands(fw))
        return call

    return Program(text, make)


def clear_after(rounds: int) -> Callable[[dict[str, float]], bool]:
    """Whether a call need not be timed again, asked after each round."""
    seen = iter(range(1, 1 << 30))

    def is_clear(row: dict[str, float]) -> bool:
        ratio = row["adjoint"] / row.get("torch", row["adjoint"])
        return next(seen) >= rounds and ratio < CLEAR

    return is_clear


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, and write JSON if asked."""
    parser = argparse.ArgumentParser(description="Small calls beside PyTorch's.")
    parser.add_argument("texts", nargs="*", help="only calls that contain one of these")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worst", type=int, default=40, help="rows that are printed")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    present = frameworks()
    rows: dict[str, dict[str, float]] = {}
    started = time.process_time()
    gc.disable()  # a collection in one framework's turn would be charged to it
    gc.freeze()  # what stays: each collection would look through it, for longer than a call
    for text in [call for calls in ALL_CALLS.values() for call in calls]:
        if not options.texts or any(part in text for part in options.texts):
            rows[text] = measure(
                program(text), present, options.rounds, True, SECONDS, clear_after(SURE)
            )
            gc.collect()
            gc.freeze()
    gc.unfreeze()
    gc.enable()
    if "torch" in present:
        show(rows, options.worst)
    print(f"{len(rows)} calls, {time.process_time() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


def show(rows: dict[str, dict[str, float]], worst: int) -> None:
    """The table, and how many take more than PyTorch's time."""
    ratios = {text: row["adjoint"] / row["torch"] for text, row in rows.items()}
    print("   ratio   adjoint     torch  microseconds a call")
    for text in sorted(ratios, key=ratios.__getitem__, reverse=True)[:worst]:
        row = rows[text]
        print(f"{ratios[text]:8.2f}{row['adjoint']:10.2f}{row['torch']:10.2f}  {text}")
    beyond = ", ".join(
        f"{sum(ratio > limit for ratio in ratios.values())} beyond {limit}" for limit in (1, 1.7, 2)
    )
    print(f"median {statistics.median(ratios.values()):.2f}; {beyond}")


if __name__ == "__main__":
    sys.exit(main())
