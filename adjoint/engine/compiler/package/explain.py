"""explain: what a compiled program does, step by step, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.engine.compiler.memory.limits import section, size
from adjoint.engine.compiler.package.image import ProgramImage

FLOWS = ("loop", "branch", "kept")
SHOWN = {"call": "Python"}  # the other kinds by their names


def explain(image: ProgramImage) -> str:
    """One line per step: what it does, how much, and why it is not part of the one before.

    The steps of a loop or branch, which the first line does not count, follow it indented.
    """
    kinds = [line["kind"] for line in image.report]
    flows = sum(kind in ("loop", "branch") for kind in kinds)
    head = (
        f"{len(kinds)} steps: {kinds.count('kernel')} launches of fused kernels, "
        f"{kinds.count('template')} of templates, {kinds.count('call')} calls of the eager table"
        f"{f', {flows} loops and branches' if flows else ''}; "
        f"{len(image.functions)} functions of machine code; {size(image.arena)} of memory; "
        f"{'all workers' if image.parallel else 'one worker'}"
    )
    return "\n".join([head, *_lines(image.report), *section(image.memory)])


def _lines(report: list[dict[str, Any]], within: str = "", margin: str = "") -> Iterator[str]:
    """A line per step, with the steps of loops and branches below it."""
    width = len(within) + len(str(len(report)))
    for number, line in enumerate(report, 1):
        part = f"{line['part']}: " if line.get("part") else ""
        head = (
            f"{margin}{within + str(number):>{width}}  {SHOWN.get(line['kind'], line['kind']):<9}"
        )
        yield f"{head}{part}{_describe(line)}"
        inner = [
            inner_line | {"part": name}
            for name, lines in line.get("inside", ())
            for inner_line in lines
        ]
        yield from _lines(inner, f"{within}{number}.", margin + " " * (width + 2))


def _describe(line: dict[str, Any]) -> str:
    text: str = line["what"]
    if line["kind"] == "call":
        return f"{text}  [{line['reason']}]" if line["reason"] else text
    if line["kind"] in FLOWS:
        times = line["times"]
        text += f"  ({times} turns)" if times else ""
        if line["kind"] == "kept":
            return f"{text}  [again where they have changed]"
        a_turn = " a turn" if line["kind"] == "loop" and not times else ""
        text += f"  {count(line['flops'])} FLOPs{a_turn}"
    else:
        text += f"  ({line['times']} times in one launch)" if line["times"] > 1 else ""
        text += f"  {count(line['flops'])} FLOPs, {size(line['bytes'])}"
    return f"{text}  [{line['reason']}]" if line.get("reason") else text


def count(n: float) -> str:
    """A number of floating-point operations for people.

    >>> count(1_234_567)
    '1.23 M'
    """
    for unit in ("", " k", " M"):
        if n < 1000:
            return f"{n:.3g}{unit}"
        n /= 1000
    return f"{n:.3g} G"
