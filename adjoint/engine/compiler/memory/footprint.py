"""What memory a plan takes and for what, as plain data (`limits` tells it to people)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.compiler.memory.packing import ArenaBlock, alive, rounded
from adjoint.engine.compiler.memory.places import PlannedBuffer
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.compiler.schedule.steps import Step, label_text
from adjoint.engine.graph.ir import Value

Moments = list[tuple[str, Step]]
AtSizes = Callable[[Any], Any]  # a number that may be an extent, at the sizes of a program
SHOWN = 8  # buffers that are named


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
        "kept": 0 if plan.kept is None else sum(rounded(b.nbytes) for b in plan.kept.buffers),
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


def _made_at(moments: Moments, buffer: PlannedBuffer) -> int:
    return next((k for k, (_, step) in enumerate(moments) if _writes(step, buffer)), 0)


def _writes(step: Step, buffer: PlannedBuffer) -> bool:
    return any(touch.buffer is buffer for touch in step.writes)
