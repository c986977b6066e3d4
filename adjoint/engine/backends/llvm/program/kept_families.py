"""Eager operations at many sizes, on disk by the names of their families (Note [kept families])."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.program.arena import Arena
from adjoint.engine.backends.llvm.program.plan_rows import DAMAGED, bounds_of, lines_of, plan_of
from adjoint.engine.backends.llvm.program.running import (
    FilledTask,
    Native,
    disk_prefix,
    get_ready,
    shared_arena,
)
from adjoint.engine.backends.llvm.program.sized_plan import LEAST, WORTH, Sized
from adjoint.engine.compiler.memory.limits import limit
from adjoint.engine.core.files.budget import Budget, read_json
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state.timeline import stage
from adjoint.engine.core.state.validation import validating
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.sizes.kept_sizes import NotKept

FORMAT = "family 1"  # for the names of entries
Bounds = tuple[dict[str, int], dict[str, int]]


def key_for(name: bytes) -> str:
    """Under which key a family of a name is kept."""
    return key_of(FORMAT, disk_prefix(), name)


class KeptPlans:
    """The plans of a recording, each read when a size comes that it was believed at.

    Called with sizes, what runs there; None where none of the plans is for these. `Unfit` where
    there will be none.
    """

    def __init__(self, lines: Sequence[bytes], about: dict[str, Any], arena: Arena) -> None:
        self.lines, self.arena = lines, arena
        self.budget = Budget(sum(map(len, lines)), "kept plans")
        self.bounds: list[Bounds] = [bounds_of(line, self.budget) for line in lines[::2]]
        self.names = [str(name) for name in about["names"]]
        if any(low.keys() != {*self.names} for low, _ in self.bounds):
            raise ValueError("bounds of other sizes")
        self.floats = [int(k) for k in about["floats"]]
        self.outputs = int(about["outputs"])
        self.read: dict[int, Sized | None] = {}

    def __call__(self, numbers: Sequence[int]) -> Native | None:
        if min(numbers) < LEAST:
            raise Unfit  # each by itself
        sizes = dict(zip(self.names, numbers, strict=True))
        for k, (low, high) in enumerate(self.bounds):
            if not all(n <= sizes[s] <= high[s] for s, n in low.items()):
                continue
            plan = self.plan(k)
            if plan is not None and plan.allows(sizes):
                return self.native(plan, sizes)
        return None

    def plan(self, k: int) -> Sized | None:
        """One of the plans; None where it is not whole, or its code is gone."""
        if k not in self.read:
            try:
                bounds, rest = self.lines[2 * k : 2 * k + 2]
                plan = self.read[k] = plan_of(bounds, rest, self.budget, cannot_tell)
                if plan is not None:
                    plan.used = WORTH - 1  # one that is read is for several sizes
            except DAMAGED:
                self.read[k] = None
        return self.read[k]

    def native(self, plan: Sized, sizes: dict[str, int]) -> Native | None:
        image, functions = plan.at(sizes)
        if image.arena > self.arena.nbytes and image.arena > limit():
            return None  # planned, it can say which lines need the memory
        floats = frozenset([k for k in self.floats if k in image.numbers])
        task = FilledTask(floats, self.outputs, frozenset())
        return Native(task, image, functions, arena=self.arena)


def cannot_tell(*_: Any) -> Any:
    """In the place of what plans a kept plan again: who asks for it records the operation."""
    raise RuntimeError("an operation found on disk cannot say what it was made from")


def find(name: bytes, shared: dict[str, Any]) -> list[tuple[dict[str, Any], KeptPlans]] | None:
    """What was told of a family's recordings, and their plans; None where nothing is kept."""
    if validating():  # what is checked must be known by its nodes, which plans do not keep
        return None
    get_ready()
    with stage("look on disk"):
        key = key_for(name)
        data = store.get(key)
        if data is None:
            return None
        try:
            head, *lines = data.split(b"\n")
            found = []
            for about in read_json(head, Budget(len(data), "a kept family")):
                count = 2 * int(about["plans"])
                own, lines = lines[:count], lines[count:]
                if len(own) != count:
                    raise ValueError("plans are missing")
                found.append((about, KeptPlans(own, about, shared_arena(shared))))
        except DAMAGED:
            store.default().drop(key)
            return None
        return found


def keep(name: bytes, recordings: Sequence[tuple[dict[str, Any], Any]]) -> None:
    """Have a family found by its name from now on.

    With what is told of a recording comes what fills in its sizes: `OpenFragment`, or plans that
    were found themselves.
    """
    if not store.default().limit:
        return
    abouts: list[dict[str, Any]] = []
    lines: list[bytes] = []
    for about, fill in recordings:
        try:
            own = fill.lines if isinstance(fill, KeptPlans) else lines_of(fill.plans.plans)
        except NotKept:
            continue
        abouts.append({**about, "plans": len(own) // 2})
        lines += own
    store.put(key_for(name), b"\n".join([json.dumps(abouts).encode(), *lines]))
