"""Drafts: a plan's words before sizes are put in, and the images they become.

A plan made at extents (Note [extents]) has words that are extents. A draft keeps the plain ones in
an array and the others as polynomials, and makes the image for given sizes without planning again:
it evaluates the polynomials and packs the arena, whose best arrangement depends on sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.footprint import AtSizes, footprint
from adjoint.engine.compiler.memory.packing import blocks, lifetimes, together
from adjoint.engine.compiler.memory.places import ARENA, PlannedBuffer
from adjoint.engine.compiler.package.counts import (
    Shares,
    launch_flops,
    node_flops,
    shares_of_flops,
)
from adjoint.engine.compiler.package.image import TEST, Patches
from adjoint.engine.compiler.package.image_maker import ImageMaker
from adjoint.engine.compiler.package.image_maker import concrete as concrete
from adjoint.engine.compiler.package.image_maker import word_of as word_of
from adjoint.engine.compiler.package.naming import name_of
from adjoint.engine.compiler.schedule.lasting import KIND
from adjoint.engine.compiler.schedule.plan import Plan
from adjoint.engine.compiler.schedule.steps import (
    Address,
    EagerCall,
    Entry,
    Flow,
    HostNumber,
    Launch,
    NamedAddress,
    Status,
    Step,
    Text,
    entries_of,
    label_text,
    launches_of,
    moments,
)
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat


class Draft(ImageMaker):
    """A plan's images but for sizes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.blocks = blocks(plan, lifetimes(plan))
        self.together = together(self.blocks)
        self.block_of: dict[PlannedBuffer, int] = {
            buffer: k for k, block in enumerate(self.blocks) for buffer in block.buffers
        }
        self.hosts = {v: i for i, v in enumerate(plan.graph.inputs)}
        self.plain: list[int] = []  # words; 0 where they are extents
        self.sized: list[tuple[int, Any]] = []  # (position, extent)
        self.inside: list[tuple[int, int]] = []  # (position, block) of addresses in the arena
        self.patches: Patches = {}
        self.numbers: dict[int, list[tuple[int, int]]] = {}
        self.status: list[tuple[int, int]] = []
        self.symbols: list[tuple[int, str]] = []
        self.faults: list[Fault] = []
        self.once = -1
        self.segments: list[list[tuple[str, int, Entry]] | None] = []
        self.results = [
            (k, tuple(plan.graph.outputs[k].spec.shape), b.dtype.name)
            for k, b in sorted(plan.results.items())
        ]
        for step in plan.steps:
            self.add(step)
        self.words = np.array(self.plain or [0], np.int64)
        self.positions, self.which, self.extents = distinct(self.sized)
        self.at_words = np.array([at for at, _ in self.inside], np.int64)
        self.at_blocks = np.array([block for _, block in self.inside], np.int64)

    # -- words ----------------------------------------------------------------------------------

    def add(self, step: Step) -> None:
        """The words of a step's entries."""
        if isinstance(step, EagerCall):
            self.segments.append(None)
            return
        if not self.segments or self.segments[-1] is None:
            self.segments.append([])
        segment = self.segments[-1]
        assert segment is not None
        for entry in entries_of(step):
            name = name_of(entry) if isinstance(entry, Launch) else TEST
            segment.append((name, len(self.plain), entry))
            for word in entry.words:
                if word.__class__ is not int:
                    word = self.word(word, len(self.plain))
                self.plain.append(word)

    def word(self, word: Any, at: int) -> int:
        """A word that is not plain: what is known of it now."""
        if isinstance(word, Address):
            buffer = word.buffer
            if self.plan.kept is not None and buffer is self.plan.kept.byte:
                self.once = at
            if buffer.kind == ARENA:
                self.inside.append((at, self.block_of[buffer]))
                return self.number(word.shift, at)
            key = f"{buffer.kind} {buffer.number}"
            self.patches.setdefault(key, []).append((at, word.shift))
        elif isinstance(word, HostNumber):
            self.numbers.setdefault(self.hosts[word.value], []).append((at, word.plus))
        elif isinstance(word, Status):
            self.status.append((at, len(self.segments) - 1))
        elif isinstance(word, NamedAddress):
            self.symbols.append((at, word.name))
        elif isinstance(word, Fault):
            self.faults.append(word)
            return len(self.faults)
        else:
            return self.number(word, at)
        return 0

    def number(self, word: Any, at: int) -> int:
        if isinstance(word, (Extent, ExtentFloat)):
            self.sized.append((at, word))
            return 0
        return int(word)

    def place(self) -> None:
        """Tell buffers where in the arena they are, for calls of the eager table."""
        starts, _ = self.packed(lambda x: x)
        for block, start in zip(self.blocks, starts, strict=True):
            for buffer in block.buffers:
                buffer.start = start

    def details(self, arena: int, at_sizes: AtSizes) -> dict[str, Any]:
        """What `explain` tells."""
        launches = [step for _, step in moments(self.plan.steps) if isinstance(step, Launch)]
        shares = shares_of_flops(launches, at_sizes)
        return {
            "report": [describe(step, shares, at_sizes) for step in self.plan.steps],
            "memory": footprint(self.plan, self.blocks, arena, at_sizes),
        }


def distinct(sized: list[tuple[int, Any]]) -> tuple[Any, Any, list[Any]]:
    """Positions, which extent is at each, and the extents, each once."""
    numbers: dict[Any, int] = {}
    extents: list[Any] = []
    which = []
    for _, x in sized:
        key = frozenset(x.poly.items()) if isinstance(x, Extent) else id(x)
        if key not in numbers:
            numbers[key] = len(extents)
            extents.append(x)
        which.append(numbers[key])
    positions = [at for at, _ in sized]
    return np.array(positions, np.int64), np.array(which, np.int64), extents


def describe(step: Step, shares: Shares, at_sizes: AtSizes) -> dict[str, Any]:
    """What `explain` says of a step, and its `work`: how long it may take, roughly."""
    label = label_text(step.label, at_sizes)
    if isinstance(step, Flow):
        inside = [
            (name, [describe(s, shares, at_sizes) for s in part]) for name, part in step.parts
        ]
        return {
            "kind": step.kind,
            "what": label,
            "times": step.turns,
            **{key: in_flow(key, step, inside) for key in ("work", "flops")},
            "reason": step.reason,
            "inside": inside,
        }
    if isinstance(step, EagerCall):
        flops = node_flops(step.node, at_sizes)
        return {"kind": "call", "what": label, "reason": step.reason, "flops": flops}
    kind = "kernel" if step.form is not None else "template"
    return {
        "kind": kind,
        "what": label,
        "times": max(len(step.kernels), 1),
        "work": round(at_sizes(step.cost)),
        "flops": launch_flops(step, shares, at_sizes),
        "reason": step.reason,
        "bytes": sum(
            at_sizes(t.high - t.low) * t.buffer.dtype.itemsize for t in (*step.reads, *step.writes)
        ),
    }


def in_flow(key: str, step: Flow, inside: Any) -> int:
    """A number of a whole loop, or of the larger part of a branch."""
    parts = [sum(line.get(key, 0) for line in lines) for _, lines in inside]
    if step.kind == KIND:
        return 0  # of most calls
    return max(parts) if step.kind == "branch" else sum(parts) * (step.turns or 1)


def functions_of(plan: Plan, emit: Callable[..., Text]) -> dict[str, Callable[[], Text]]:
    """How each function of a plan is written, by name."""
    wanted: dict[str, Callable[[], Text]] = {}
    for step in (launch for step_or_flow in plan.steps for launch in launches_of(step_or_flow)):
        name = name_of(step)
        if name in wanted:
            continue
        if step.form is not None:
            wanted[name] = lambda form=step.form, name=name: emit(form, name)  # type: ignore[misc]
        else:
            assert step.text is not None
            wanted[name] = lambda text=step.text, name=name: text(name)  # type: ignore[misc]
    return wanted
