"""Batching: kernels of one form are launched together.

Note [put off, brought forward]
    What is read at the end of a step (gradients, by an optimizer) waits for the last of its form.
    What is made of parameters alone and read at once (the scales of a network's norms, when it is
    evaluated) cannot wait: where it is small it joins the first of its form instead.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from adjoint.engine.compiler.loops.ir import Kernel
from adjoint.engine.compiler.memory.places import ARENA, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import Launch, Step, Touches, by_buffer, overlap
from adjoint.engine.graph.sizes.extents import typical

ADJACENT = 4  # steps that a kernel may be put off whatever it reads


class Launching(Protocol):
    """What batching asks of a target."""

    @property
    def waiting_bytes(self) -> int: ...
    @property
    def early_bytes(self) -> int: ...
    def beside(self, kernel: Kernel) -> Hashable: ...
    def fill_words(self, launch: Launch) -> None: ...


def batch(steps: list[Step], target: Launching) -> list[Step]:
    """Launch kernels of one form together where nothing between them forbids it.

    A kernel is put off to a later one of its form that can wait for it: no step from here to there
    may read what it writes, or write what it reads or writes. Nor must much memory be kept for
    that, more than the target's `waiting_bytes`: a launch saved is worth microseconds, which large
    operands do not notice. At the end `fill_words` writes down what each launch tells its kernels.
    """
    result: list[Step] = []
    ends: dict[PlannedBuffer, int] = {}  # the last step to touch each buffer, counted from the end
    open_launches: dict[Any, _OpenLaunch] = {}  # by form: a launch, and what the steps since touch
    for step in reversed(steps):
        form = form_of(step, target)
        reads, writes = by_buffer(step.reads), by_buffer(step.writes)
        later = open_launches.get(form) if form is not None else None
        far = later is not None and len(result) - later.at > ADJACENT
        if (
            later is not None
            and later.can_take(step)
            and not (far and holds(reads, ends, later.at) > target.waiting_bytes)
        ):
            later.take(step)
            at = later.at  # it is no longer in the way of launches before its new place
        else:
            result.append(step)
            at = len(result)
            if form is not None:
                open_launches[form] = _OpenLaunch(step, at, {}, {})  # type: ignore[arg-type]
        for buffer in (*reads, *writes):
            ends[buffer] = min(ends.get(buffer, at), at)
        for earlier in open_launches.values():
            if earlier.at <= at:
                earlier.add(reads, writes)
    result.reverse()
    if target.early_bytes:
        result = advance(result, target)
    for step in result:
        if isinstance(step, Launch) and step.form is not None:
            target.fill_words(step)
    return result


def advance(steps: list[Step], target: Launching) -> list[Step]:
    """Have kernels that write little, and no state, join earlier launches of their form."""
    result: list[Step] = []
    open_launches: dict[Any, _OpenLaunch] = {}
    for step in steps:
        form = form_of(step, target)
        reads, writes = by_buffer(step.reads), by_buffer(step.writes)
        earlier = open_launches.get(form) if form is not None else None
        if earlier is not None and is_brief(writes, target) and earlier.can_take(step):
            earlier.take(step, later=True)
            at = earlier.at
        else:
            at = len(result)
            result.append(step)
            if form is not None and earlier is None:
                open_launches[form] = _OpenLaunch(step, at, {}, {})  # type: ignore[arg-type]
        for other in open_launches.values():
            if other.at <= at:
                other.add(reads, writes)
    return result


def is_brief(writes: Touches, target: Launching) -> bool:
    """Whether what is written is a program's own, and takes little memory meanwhile."""
    kept = sum(typical(b.nbytes) for b in writes)
    return kept <= target.early_bytes and all(b.kind == ARENA for b in writes)


def form_of(step: Step, target: Launching) -> Hashable:
    """What kernels that can be launched together have in common; None for other steps."""
    if not isinstance(step, Launch) or step.form is None:
        return None
    return step.form.key(), target.beside(step.kernels[0])


def holds(reads: Touches, ends: dict[PlannedBuffer, int], at: int) -> int:
    """Bytes that would be kept longer if what reads them were put off."""
    return sum(typical(b.nbytes) for b in reads if b.kind == ARENA and ends.get(b, at + 1) > at)


@dataclass(slots=True)
class _OpenLaunch:
    """A launch that earlier kernels may join, and what they would have to wait for."""

    launch: Launch
    at: int  # its place, counted from the end
    reads: Touches
    writes: Touches

    def can_take(self, step: Step) -> bool:
        """Whether a kernel can be put off to this launch."""
        return not (
            overlap(step.writes, self.reads)
            or overlap(step.writes, self.writes)
            or overlap(step.reads, self.writes)
        )

    def take(self, step: Step, later: bool = False) -> None:
        """Have a kernel launched with this one, before or behind those that are there."""
        assert isinstance(step, Launch)
        first, last = (self.launch, step) if later else (step, self.launch)
        self.launch.kernels[:] = first.kernels + last.kernels
        self.launch.works = first.works + last.works
        self.launch.reads += step.reads
        self.launch.writes += step.writes
        self.launch.cost += step.cost

    def add(self, reads: Touches, writes: Touches) -> None:
        for mine, theirs in ((self.reads, reads), (self.writes, writes)):
            for buffer, touches in theirs.items():
                mine.setdefault(buffer, []).extend(touches)
