"""What memory a program takes and for what: for `explain`, and the error when it is too much."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from adjoint.engine.compiler.memory.packing import ArenaBlock, alive, rounded
from adjoint.engine.compiler.memory.places import PlannedBuffer
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.compiler.schedule.steps import Step, label_text
from adjoint.engine.core.errors import OutOfMemoryError
from adjoint.engine.core.origins import Where, told_place
from adjoint.engine.graph.ir import Value

Moments = list[tuple[str, Step]]
AtSizes = Callable[[Any], Any]  # a number that may be an extent, at the sizes of a program
SHOWN = 8  # buffers that are named
LIMIT = "ADJOINT_MEMORY_LIMIT"
SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def footprint(
    plan: Plan, blocks: list[ArenaBlock], arena: int, at_sizes: AtSizes, count: int | None = SHOWN
) -> dict[str, Any]:
    """A plan's memory in plain data: sizes, and the largest buffers alive at the peak.

    So many of these are named; None for all.
    """
    room = [rounded(at_sizes(block.nbytes)) for block in blocks]
    moments = plan.moments
    sizes = alive(blocks, room, len(moments))
    most = max(sizes, default=0)
    at = sizes.index(most) if sizes else 0
    there = [(b, n) for b, n in zip(blocks, room, strict=True) if b.first <= at <= b.last]
    there.sort(key=lambda pair: -pair[1])
    values: dict[PlannedBuffer, Value] = {}
    for value, place in plan.places.items():
        values.setdefault(place.buffer, value)  # views of it come later
    inputs = {id(b): b for b in (*plan.inputs, *plan.targets) if b is not None}
    return {
        "arena": arena,
        "least": most,
        "step": moments[at][0] if moments else "1",
        "alive": len(there),
        "largest": [
            {"bytes": n} | _line(moments, block, at, values, at_sizes) for block, n in there[:count]
        ],
        "inputs": sum(at_sizes(b.nbytes) for b in inputs.values()),
        "results": sum(at_sizes(b.nbytes) for b in plan.results.values()),
        "remat": plan.remat.strategy,
        "repeated": dict(plan.remat.records.most_common()),
    }


def _line(
    moments: Moments,
    block: ArenaBlock,
    at: int,
    values: dict[PlannedBuffer, Value],
    at_sizes: AtSizes,
) -> dict[str, Any]:
    """Who made what lies in a block at a step, and who reads it last."""
    buffer = next(
        (b for b in reversed(block.buffers) if _made_at(moments, b) <= at), block.buffers[0]
    )
    maker, step = moments[_made_at(moments, buffer)]
    value = values.get(buffer)
    shape = [at_sizes(n) for n in (value.spec.shape if value is not None else (buffer.size,))]
    node = None if value is None else value.node
    return {
        "what": f"{buffer.dtype.name}{shape}",
        "made": maker,
        "by": label_text(step.label, at_sizes),
        "last": moments[block.last][0],
        "where": None if node is None else node.where,
    }


def without_places(memory: dict[str, Any]) -> dict[str, Any]:
    """A footprint to be kept on disk: programs are known by content, whatever line they are on."""
    return {**memory, "largest": [{**b, "where": None} for b in memory["largest"]]}


def _made_at(moments: Moments, buffer: PlannedBuffer) -> int:
    return next((k for k, (_, step) in enumerate(moments) if _writes(step, buffer)), 0)


def _writes(step: Step, buffer: PlannedBuffer) -> bool:
    return any(touch.buffer is buffer for touch in step.writes)


# -- too much -----------------------------------------------------------------------------------


def limit() -> int:
    """Bytes a program may take: ADJOINT_MEMORY_LIMIT, or what the machine or container has.

    The variable takes a number of bytes, or one with k, M, G or T.
    """
    text = os.environ.get(LIMIT, "").strip().lower().removesuffix("b")
    if text:
        scale = SUFFIXES.get(text[-1], 1)
        try:
            return int(float(text[:-1] if scale > 1 else text) * scale)
        except ValueError:
            raise ValueError(
                f"{LIMIT} must be a number of bytes such as 4000000000 or 4G, "
                f"received {os.environ[LIMIT]!r}"
            ) from None
    try:
        least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 1 << 62
    group = Path("/sys/fs/cgroup/memory.max")
    with suppress(OSError, ValueError):  # no container, or one without a limit
        least = min(least, int(group.read_text()))
    return least


def check(arena: int, memory: Callable[[], dict[str, Any]]) -> None:
    """Raise if a program takes more memory than there is."""
    most = limit()
    if arena > most:
        raise too_much(
            memory(), f"more than the {size(most)} there are ({LIMIT} sets another limit)"
        )


def too_much(memory: dict[str, Any], why: str, device: str = "") -> OutOfMemoryError:
    """The error for a program whose memory cannot be had; it names the largest buffers.

    `device` is what the device says of its memory.
    """
    head = (
        f"compile: the program needs {size(memory['arena'])} for temporary values, {why}. "
        f"Largest at its peak, step {memory['step']}:"
    )
    advice = "Take a smaller batch"
    if memory["remat"] != "memory":
        advice += ", or compile with options={'remat': 'memory'}, which keeps less"
    lines = largest(memory, places=True)
    said = [device] if device else []
    return OutOfMemoryError("\n".join([head, *lines, advice + ".", *said]))


def largest(memory: dict[str, Any], *, places: bool = False) -> list[str]:
    """A line per buffer alive at the peak, the largest first; with the user's line, if asked."""
    lines = []
    for b in memory["largest"]:
        lines.append(
            f"  {size(b['bytes']):>8}  {b['what']}  made by step {b['made']} "
            f"({shortened(b['by'])}), last read by step {b['last']}"
        )
        if places and b["where"]:
            lines.append(f"            {shortened(told_place(Where(*b['where'])), 100)}")
    if memory["alive"] > len(memory["largest"]):
        lines.append(f"  and {memory['alive'] - len(memory['largest'])} more")
    return lines


def shortened(label: str, length: int = 60) -> str:
    """A label's beginning."""
    return label if len(label) <= length else label[: length - 3] + "..."


def size(n: float) -> str:
    """A number of bytes for people.

    >>> size(2_500_000)
    '2.5 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


def section(memory: dict[str, Any]) -> list[str]:
    """`explain`'s lines about memory."""
    arena, least = memory["arena"], memory["least"]
    over = f"{arena / least:.3f} of what is alive at once" if least else "none"
    head = (
        f"memory: {size(arena)} for temporary values ({over}), {size(memory['inputs'])} of inputs "
        f"and state, {size(memory['results'])} of results"
    )
    lines = [head]
    if memory["largest"]:
        lines.append(f"at the peak, step {memory['step']}:")
        lines += largest(memory)
    again = ", ".join(f"{n} {name}" for name, n in memory["repeated"].items())
    lines.append(f"computed again (remat: {memory['remat']}): {again or 'nothing'}")
    return lines
