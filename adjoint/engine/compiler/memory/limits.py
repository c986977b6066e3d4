"""The memory that programs may take, and what one takes told to people; plans are not needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from adjoint.engine.core.errors import OutOfMemoryError
from adjoint.engine.core.origins import Where, told_place

LIMIT = "ADJOINT_MEMORY_LIMIT"
SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def without_places(memory: dict[str, Any]) -> dict[str, Any]:
    """A footprint to be kept on disk: programs are known by content, whatever line they are on."""
    return {**memory, "largest": [{**b, "where": None} for b in memory["largest"]]}


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
    # No container, or one without a limit, is as good.
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as group:
        least = min(least, int(group.read()))
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
    if memory["kept"]:
        lines.append(f"of it {size(memory['kept'])} kept from call to call, made of parameters")
    if memory["largest"]:
        lines.append(f"at the peak, step {memory['step']}:")
        lines += largest(memory)
    again = ", ".join(f"{n} {name}" for name, n in memory["repeated"].items())
    lines.append(f"computed again (remat: {memory['remat']}): {again or 'nothing'}")
    return lines
