"""One arena: buffers get offsets so that those alive together do not overlap."""

from __future__ import annotations

from adjoint.compiler.build import Plan
from adjoint.compiler.places import ARENA, Buffer

ALIGN = 64


def lifetimes(plan: Plan) -> dict[Buffer, tuple[int, int]]:
    """The first and last step that touches each arena buffer."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for k, step in enumerate(plan.steps):
        for touch in (*step.reads, *step.writes):
            buffer = touch.buffer
            if buffer.kind == ARENA:
                first, _ = spans.get(buffer, (k, k))
                spans[buffer] = (first, k)
    return spans


def assign(plan: Plan) -> int:
    """Give every arena buffer its place; returns the arena's size in bytes."""
    spans = lifetimes(plan)
    placed: list[tuple[int, int, int, int]] = []  # start, stop, first, last
    total = 0
    for buffer, (first, last) in sorted(spans.items(), key=lambda e: -e[0].nbytes):
        size = -(-max(buffer.nbytes, 1) // ALIGN) * ALIGN
        others = sorted((s, e) for s, e, f, t in placed if f <= last and first <= t)
        at, best, room = 0, -1, 0
        for start, stop in others:
            if start - at >= size and (best < 0 or start - at < room):
                best, room = at, start - at
            at = max(at, stop)
        start = best if best >= 0 else at
        buffer.start = start
        placed.append((start, start + size, first, last))
        total = max(total, start + size)
    return total


def largest(plan: Plan, count: int = 5) -> list[tuple[str, int]]:
    """The labels of the steps that make the largest buffers of the arena, and their bytes."""
    makers: dict[Buffer, str] = {}
    for step in plan.steps:
        for touch in step.writes:
            if touch.buffer.kind == ARENA:
                makers.setdefault(touch.buffer, step.label)
    found = sorted(makers, key=lambda buffer: -buffer.nbytes)[:count]
    return [(makers[buffer], buffer.nbytes) for buffer in found]
