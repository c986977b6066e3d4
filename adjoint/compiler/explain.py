"""explain: what a compiled program does, step by step, as text."""

from __future__ import annotations

from typing import Any

from adjoint.compiler.footprint import section, size
from adjoint.compiler.image import Image

KINDS = {"loop": "loop", "kernel": "kernel", "template": "template", "call": "Python"}


def explain(image: Image) -> str:
    """One line per step: what it does, how much, and why it is not part of the one before."""
    kinds = [line["kind"] for line in image.report]
    functions = {name for entries in image.segments if entries for name, _, _ in entries}
    loops = f", {kinds.count('loop')} loops" if "loop" in kinds else ""
    head = (
        f"{len(kinds)} steps: {kinds.count('kernel')} launches of fused kernels, "
        f"{kinds.count('template')} of templates, {kinds.count('call')} calls of the eager table"
        f"{loops}; "
        f"{len(functions)} functions of machine code; {size(image.arena)} of memory; "
        f"{'all workers' if image.parallel else 'one worker'}"
    )
    width = len(str(len(kinds)))
    lines = [head]
    for number, line in enumerate(image.report, 1):
        lines.append(f"{number:>{width}}  {KINDS[line['kind']]:<9}{_describe(line)}")
    lines += section(image.memory)
    return "\n".join(lines)


def _describe(line: dict[str, Any]) -> str:
    text: str = line["what"]
    if line["kind"] == "call":
        return f"{text}  [{line['reason']}]" if line["reason"] else text
    if line["kind"] == "loop":
        text += f"  ({line['times']} turns)"
    elif line["times"] > 1:
        text += f"  ({line['times']} times in one launch)"
    text += f"  {count(line['work'])} operations, {size(line['bytes'])}"
    return f"{text}  [{line['reason']}]" if line.get("reason") else text


def count(n: float) -> str:
    """A number of operations for people.

    >>> count(1_234_567)
    '1.23 M'
    """
    for unit in ("", " k", " M"):
        if n < 1000:
            return f"{n:.3g}{unit}"
        n /= 1000
    return f"{n:.3g} G"
