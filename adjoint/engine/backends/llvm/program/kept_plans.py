"""Plans for many sizes on disk: for the next process, which makes images from them at once.

A family's plans are kept under a name made of its graph with symbols for sizes, and of all else
that decides them; beside each are the sizes between which it was believed. What cannot be read, or
whose code is gone, is planned again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.program import native
from adjoint.engine.backends.llvm.program.plan_rows import DAMAGED, lines_of, plan_of
from adjoint.engine.backends.llvm.program.sized import (
    SizedPlans,
    example_of,
    row_major,
    sized_plan,
)
from adjoint.engine.backends.llvm.program.sized_plan import Sized
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.draft import Draft
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.state.timeline import stage
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.sizes.extents import SizeScope
from adjoint.engine.graph.sizes.kept_sizes import NotKept
from adjoint.engine.graph.sizes.sizing import Example

FORMAT = "sized plans 1"


def look(task: Task, options: Options, plans: SizedPlans) -> None:
    """Take a family's plans from disk, when it is met first."""
    if plans.looked:
        return
    plans.looked = True
    family = family_task(task)
    name = None if family is None else native.disk_key(family, options)
    if family is None or name is None:
        return
    plans.key = key_of(FORMAT, name)
    data = store.get(plans.key)
    if data is None:
        return
    with stage("plans found on disk"):
        try:
            plans.plans[:0] = from_bytes(data, partial(planned_again, family, options))
        except DAMAGED:
            store.default().drop(plans.key)


def keep(plans: SizedPlans) -> bool:
    """Have a family's plans on disk as they are now; whether they are."""
    if plans.key is None:
        return False
    try:
        store.put(plans.key, to_bytes(plans.plans))
    except NotKept:
        plans.key = None
    return plans.key is not None


def to_bytes(plans: list[Sized]) -> bytes:
    """Plans as they are kept."""
    return b"\n".join(lines_of(plans))


def from_bytes(data: bytes, again: Callable[..., tuple[Draft, SizeScope]]) -> list[Sized]:
    """The plans that were kept, those whose code is still there."""
    lines = data.split(b"\n")
    budget = Budget(len(data), "kept plans")
    found = [
        plan_of(bounds, rest, budget, again)
        for bounds, rest in zip(lines[::2], lines[1::2], strict=True)
    ]
    return [plan for plan in found if plan is not None]


def family_task(task: Task) -> Task | None:
    """A task for all sizes, without arrays; None where there is no plan for such."""
    sizing = task.sizing
    assert sizing is not None
    given = [*sizing.examples]
    if not given:
        given = [*map(example_of, sizing.graph.inputs, task.examples)]
        if not all(map(row_major, given, task.examples)):
            return None
        given = [*map(_lies, given)]
    places = {id(x): k for k, x in enumerate(task.examples)}
    if any(id(x) not in places for x in task.targets):
        return None
    return replace(
        task,
        graph=sizing.graph,
        examples=tuple(given),
        targets=tuple([given[places[id(x)]] for x in task.targets]),
        sizing=replace(sizing, examples=tuple(given), shared_plans={}),
    )


def _lies(example: Any) -> Any:
    """How an array lies; a number of the host's is itself."""
    if isinstance(example, Example) or not hasattr(example, "strides"):
        return example
    return Example(tuple(example.shape), tuple(example.strides), example.dtype)


def planned_again(
    task: Task, options: Options, sizes: dict[str, int], reference: dict[str, int]
) -> tuple[Draft, SizeScope]:
    """The draft that was kept, with its plan."""
    plan = sized_plan(task, options, sizes, reference)
    if isinstance(plan, str) or not isinstance(plan.draft, Draft):
        raise RuntimeError(f"compile: what was planned cannot be planned again: {plan}")
    return plan.draft, plan.scope
