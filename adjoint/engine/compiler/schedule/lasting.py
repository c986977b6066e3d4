"""What a program makes of parameters alone, as a step of its own that most calls leave out.

Note [kept for calls]
    Where no gradients are taken, a program reads the same parameters call after call. What its
    launches make of nothing else (panels of a product, filters at Winograd's points, a norm's
    scales, tables of taps) is the same as long as those are unchanged. Such launches come first,
    behind a test of a byte, and what they make lies in memory that nothing else uses. The
    executable sets the byte where parameters may have changed since (Note [watched memory]).

    Templates are told which inputs last (`Setting.lasts`), as in bodies of loops (Note [made
    once]): they order for all calls what would not be worth it for one. What is kept takes memory,
    so programs that read very large parameters keep nothing, and a launch is kept only where it
    writes little more than it reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import ARENA, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import (
    Address,
    Flow,
    HostNumber,
    Launch,
    Status,
    Step,
    Test,
    whole,
)
from adjoint.engine.core.dtype import bool_

GROWS = 4  # times the bytes that a launch reads, that it may have kept
LITTLE = 1 << 16  # bytes that any launch may have kept
KIND = "kept"  # of the step


@dataclass(frozen=True, slots=True)
class KeptSteps:
    """What is kept from call to call."""

    byte: PlannedBuffer  # whether it has to be made
    buffers: frozenset[PlannedBuffer]  # that are nobody else's, the byte among them


def kept_apart(
    steps: Sequence[Step], inputs: Sequence[PlannedBuffer | None], lasting: Iterable[int]
) -> tuple[list[Step], KeptSteps | None]:
    """The steps with those first that depend on lasting inputs alone, behind a test."""
    once = launches_once(steps, {b for i in lasting if (b := inputs[i]) is not None})
    if not once:
        return list(steps), None
    byte = PlannedBuffer(ARENA, bool_, 1, name="changed")
    made = [touch for launch in once for touch in launch.writes]
    reads = [touch for launch in once for touch in launch.reads]
    for launch in once:
        launch.times = 0  # it is no work of most calls
    flow = Flow(
        KIND,
        [Test(Address(byte), len(once)), *once],
        ((KIND, once),),
        (whole(byte), *reads),
        tuple(made),
        label="made of parameters",
    )
    chosen = set(map(id, once))
    rest = [step for step in steps if id(step) not in chosen]
    return [flow, *rest], KeptSteps(byte, frozenset([byte, *(touch.buffer for touch in made)]))


def launches_once(steps: Sequence[Step], lasting: set[PlannedBuffer]) -> list[Launch]:
    """The launches that make the same at every call with the same lasting inputs."""
    if not lasting:
        return []
    written = Counter(touch.buffer for step in steps for touch in step.writes)
    known = {b for b in lasting if not written[b]}
    once = []
    for step in steps:
        if not isinstance(step, Launch) or step.skip:
            continue
        made = {touch.buffer for touch in step.writes}
        if not known.issuperset(touch.buffer for touch in step.reads):
            continue
        if not all(b.kind == ARENA and written[b] == 1 for b in made):
            continue
        if any(isinstance(word, (HostNumber, Status, Fault)) for word in step.words):
            continue
        room = GROWS * sum((t.high - t.low) * t.buffer.dtype.itemsize for t in step.reads)
        if sum(b.nbytes for b in made) > max(room, LITTLE):
            continue
        once.append(step)
        known |= made
    return once
