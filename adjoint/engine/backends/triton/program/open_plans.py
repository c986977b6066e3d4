"""Programs of eager mode for many sizes, made of one plan by arithmetic.

Note [open plans]
    A fragment that was recorded for many sizes (Note [open kinds]) is planned once with extents
    (Note [extents]). What the planner decided by sizes (tiles, what is fused, how wide loads are)
    are guards, so the plan is used only where a plan made afresh would decide the same. Words,
    grids, shapes and memory are evaluated for each size; numbers in a kernel's text that depend on
    sizes are words too (Note [open numbers]).

    A size may have turned into a plain number unseen. So a plan is not believed before a plan made
    afresh without extents was the same, word for word and text for text: at the sizes at hand, and
    as far beyond as its guards allow on the side where it is wanted, up to `FARTHEST` times. It is
    believed in between.
    Where the two differ, every size is planned by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.program.direct import (
    DirectMachine,
    DirectProgram,
    LaunchedWork,
    NumberedDraft,
    drafted,
)
from adjoint.engine.backends.triton.program.filling import ProgramForm
from adjoint.engine.backends.triton.program.open_launches import (
    OpenLaunch,
    filled,
    numbers_of,
    opened,
    product_at,
    ways_of,
)
from adjoint.engine.backends.triton.program.program import MakeTarget
from adjoint.engine.backends.triton.target import EagerTarget
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.image import ProgramImage
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, SizeScope, evaluate
from adjoint.engine.graph.sizes.formulas import Answer, formula
from adjoint.engine.graph.sizes.marked import written as plain_text
from adjoint.engine.graph.sizes.patterns import LEAST
from adjoint.engine.graph.sizes.resizing import again, graph_at, moved, resized
from adjoint.engine.graph.sizes.sizing import FILL, Sizing

Sizes = tuple[int, ...]

PLANS = 32  # of one family, the one used last at the end
SEVERAL = 8  # plans, of which each has to be used twice for more to be made
REFUSED = 2  # plans that were not what a fresh one is before no more are made
FARTHEST = 8  # times a size, and an eighth of it: how far off a plan is checked at most
KINDS = 16  # guards ask what sizes are multiples of: so many in a row are of every kind


@dataclass(eq=False, slots=True)
class OpenPlan:
    """A plan for many sizes."""

    draft: NumberedDraft
    scope: SizeScope  # with the guards of the plan
    launches: list[OpenLaunch]
    names: tuple[str, ...]
    extents: list[Any]  # what is evaluated for each size, each once
    which: list[int]  # the identities of these
    numbers: Answer  # what extents are; None: the plan is not for these sizes
    low: tuple[int, ...]  # the sizes between which it is believed
    high: tuple[int, ...]
    form: ProgramForm | None = None  # what programs are copies of (Note [filled programs])
    is_copied: bool = True  # whether they may be

    def believed(self, sizes: Sequence[int]) -> bool:
        """Whether the plan was right at these sizes, or at smaller and at larger ones."""
        return all(a <= n <= b for a, n, b in zip(self.low, sizes, self.high, strict=True))

    def believe(self, sizes: Sequence[int]) -> None:
        """Take note that the plan was right."""
        self.low = tuple(map(min, self.low, sizes))
        self.high = tuple(map(max, self.high, sizes))

    def allows(self, sizes: Sequence[int]) -> tuple[Any, ...] | None:
        """All numbers at some sizes; None where the plan does not hold."""
        try:
            return self.numbers(*sizes)
        except ZeroDivisionError:  # of what was no divisor where it was decided on
            return None

    def program(self, machine: DirectMachine, numbers: tuple[Any, ...]) -> DirectProgram:
        """The program at sizes at which the numbers are these."""
        form = self.form
        copy = None if form is None else form.program(numbers)
        if form is not None and copy is not None and form.is_checked:
            return copy
        program = object.__new__(DirectProgram)
        program.fill(machine, self.draft, *self.at(numbers))
        if program.is_ahead:  # no copies before its kernels are there
            return program
        if form is not None and copy is not None:
            if not form.check(copy, program):
                self.form, self.is_copied = None, False
        elif self.is_copied and program.joined is not None:
            self.form = ProgramForm(self.draft, self.launches, self.which, program, self.at)
        return program

    def at(self, numbers: tuple[Any, ...]) -> tuple[ProgramImage, list[LaunchedWork]]:
        """The image and the launches at sizes at which the numbers are these."""
        values = dict(zip(self.which, numbers, strict=True))
        image = self.draft.image(lambda x: values.get(id(x), x))
        return image, [filled(launch, image.words, values) for launch in self.launches]


class OpenPlans:
    """The plans of a recording; called with sizes, what runs there (`FILL`)."""

    def __init__(
        self,
        task: Task,
        options: Options,
        machine: DirectMachine,
        target: MakeTarget = EagerTarget,
    ) -> None:
        assert task.sizing is not None
        self.sizing: Sizing = task.sizing
        self.options, self.machine, self.target = options, machine, target
        computed = {name for name, _, _ in self.sizing.scope.derived.values()}
        self.names = tuple([name for name in self.sizing.sizes if name not in computed])
        self.task = task
        self.allows = formula(self.sizing.scope, self.names, [True])  # whether a recording is for
        self.plans: list[OpenPlan] = []
        self.refused: list[str] = []  # why plans came to nothing
        self.uses = 0

    def __call__(self, sizes: Sequence[int]) -> DirectProgram | None:
        """The program for some sizes; None where each has to be planned by itself."""
        found = self.find(sizes)
        if found is None:
            found = self.added(sizes)
        if found is None:
            return None
        plan, numbers = found
        if not plan.believed(sizes) and not self.check(plan, sizes):
            return None
        self.uses += 1
        return plan.program(self.machine, numbers)

    @property
    def is_refused(self) -> bool:
        """Whether no more plans are made."""
        return len(self.refused) >= REFUSED

    def find(self, sizes: Sequence[int]) -> tuple[OpenPlan, tuple[Any, ...]] | None:
        """A plan that holds at some sizes, and its numbers there."""
        for k in range(len(self.plans) - 1, -1, -1):
            numbers = self.plans[k].allows(sizes)
            if numbers is not None:
                self.plans.append(self.plans.pop(k))
                return self.plans[-1], numbers
        return None

    def added(self, sizes: Sequence[int]) -> tuple[OpenPlan, tuple[Any, ...]] | None:
        """A new plan for some sizes, if one is to be had."""
        if len(self.plans) >= SEVERAL and self.uses < 2 * len(self.plans):
            self.refused += ["plans are for few sizes each"] * REFUSED
        if self.is_refused:
            return None
        try:
            plan = self.planned(sizes)
        except (NotImplementedError, TypeError, ValueError, KeyError) as error:
            plan = f"{type(error).__name__}: {error}"
        if isinstance(plan, str):
            self.refused.append(plan)
            return None
        numbers = plan.allows(sizes)
        if numbers is None or not self.same(plan, sizes):
            self.refused.append("a plan made with extents is not what one made without them is")
            return None
        self.plans.append(plan)
        del self.plans[:-PLANS]
        return plan, numbers

    def planned(self, sizes: Sequence[int]) -> OpenPlan | str:
        """A plan made at extents of some sizes, or why there is none."""
        scope = self.sizing.scope.again({})
        scope.exact, scope.marks = True, []
        known = scope.complete(dict(zip(self.names, sizes, strict=True)))
        graph = again(self.sizing.graph, known, scope)
        examples = moved(self.sizing.examples, known, scope)
        task = replace(self.task, graph=graph, examples=examples, sizing=None)
        draft = drafted(task, self.options, self.target)
        entries = draft.launches()
        if entries is None:
            return "the eager table does a part of it"
        launches = [opened(entry, scope) for entry in entries]
        extents = numbers_of(launches, draft)
        numbers = formula(scope, self.names, extents)
        which, low = [*map(id, extents)], tuple(sizes)
        return OpenPlan(draft, scope, launches, self.names, extents, which, numbers, low, low)

    def check(self, plan: OpenPlan, sizes: Sequence[int]) -> bool:
        """Whether a plan is right as far off as it is to be believed."""
        far = farthest(
            sizes, plan.low, plan.high, lambda far: self.allows(*far) and plan.allows(far)
        )
        if not self.same(plan, far):
            self.plans.remove(plan)
            known = dict(zip(self.names, far, strict=True))
            self.refused.append(f"a plan is not what one made at {known} is")
            return False
        plan.believe(far)
        plan.believe(sizes)
        return True

    def same(self, plan: OpenPlan, sizes: Sequence[int]) -> bool:
        """Whether a plan is at some sizes what one is that is made without extents."""
        return differs(plan, sizes, self.fresh(sizes)) == ""

    def fresh(self, sizes: Sequence[int]) -> NumberedDraft:
        """The draft for some sizes, planned without extents."""
        known = self.sizing.scope.complete(dict(zip(self.names, sizes, strict=True)))
        graph = graph_at(self.sizing.graph, known)
        examples = resized(self.sizing.examples, known)
        task = replace(self.task, graph=graph, examples=examples, sizing=None)
        return drafted(task, self.options, self.target)


def farthest(
    sizes: Sequence[int], low: Sequence[int], high: Sequence[int], allowed: Callable[[Sizes], Any]
) -> Sizes:
    """The allowed sizes farthest off from some between others, on the side of given ones.

    Sizes move in proportion, the least of them by one: one may have to be a multiple of another.

    >>> farthest((5, 20), (3, 12), (4, 16), lambda n: n[0] < 19 and n[1] == 4 * n[0])
    (18, 72)
    """
    spans = [*zip(sizes, low, high, strict=True)]
    up = min([n for n, _, top in spans if n > top], default=0)
    down = min([n for n, bottom, _ in spans if n < bottom], default=0)
    room = max((FARTHEST - 1) * up, down - down // FARTHEST)

    def moved(by: int) -> Sizes:
        return tuple(
            [
                n * (up + by) // up
                if n > top
                else max(LEAST, n * max(down - by, 0) // down)
                if n < bottom
                else n
                for n, bottom, top in spans
            ]
        )

    def reached(row: int) -> Sizes | None:
        steps = range(min(KINDS * row + KINDS, room), KINDS * row, -1)
        return next((far for far in map(moved, steps) if allowed(far)), None)

    # The last row of steps in which some are allowed, by halving.
    found, near, beyond = tuple(sizes), -1, -(-room // KINDS)
    row = beyond - 1
    while near < row:
        far = reached(row)
        if far is None:
            beyond = row
        else:
            found, near = far, row
        row = (near + beyond) // 2
    return found


def differs(plan: OpenPlan, sizes: Sequence[int], fresh: NumberedDraft) -> str:
    """In what a plan is at some sizes not what a fresh one is; "": in nothing."""
    known = plan.scope.complete(dict(zip(plan.names, sizes, strict=True)))

    def value(x: Any) -> Any:
        if isinstance(x, Extent):
            return evaluate(x.poly, known)
        return x.at(known) if isinstance(x, ExtentFloat) else x

    entries, others = plan.draft.launches(), fresh.launches()
    if entries is None or others is None or len(entries) != len(others):
        return "launches"
    image, other = plan.draft.at(known), fresh.at({})
    for name in ("words", "inside"):
        if not np.array_equal(getattr(image, name), getattr(other, name)):
            return name
    for name in ("arena", "patches", "numbers", "status", "symbols", "faults", "results"):
        if getattr(image, name) != getattr(other, name):
            return name
    if plan.draft.codes != fresh.codes:
        return "codes"
    for (_, at, launch), (_, where, wanted) in zip(entries, others, strict=True):
        if at != where or len(launch.words) != len(wanted.words):
            return "entries"
        found, theirs = (work_at(x, plan.scope, value) for x in (launch, wanted))
        if found != theirs:
            return f"{found} and {theirs}"
    return ""


def work_at(launch: Launch, scope: SizeScope, value: Callable[[Any], Any]) -> Any:
    """What a launch runs, with numbers in the place of marks and extents."""
    product = launch.kernels[0] if launch.kernels else None
    if isinstance(product, MatrixProduct):
        return product_at(product, value)
    if not isinstance(launch.text, Written):
        return launch.text
    return [
        replace(
            way,
            source=plain_text(way.source, scope, value)[0],
            grid=tuple(map(value, way.grid)),
        )
        for way in ways_of(launch.text)
    ]


def open_program(
    task: Task, options: Options, machine: DirectMachine, target: MakeTarget = EagerTarget
) -> DirectProgram:
    """The program of a task that is one of many sizes."""
    assert task.sizing is not None
    shared = task.sizing.shared_plans
    plans = shared.setdefault(FILL, OpenPlans(task, options, machine, target))
    found = plans and plans([task.sizing.sizes[name] for name in plans.names])
    if plans and plans.is_refused:
        shared[FILL] = None
    return found or DirectProgram(task, options, machine, target)
