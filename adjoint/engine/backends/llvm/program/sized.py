"""One plan for many sizes: tasks that differ in sizes get their images from a common draft.

Note [sized plans]
    The planner runs on extents (Note [extents]) as it does on ints, so a plan made at some sizes
    holds for all at which its comparisons come out the same, and a draft says what its words are
    there. Where a size slipped through as a plain int (in `range`, in an index), the draft is
    wrong elsewhere. So it is not believed before it has foretold, word for word, a plan made at
    other sizes: as far off as its guards allow, on the side where it is wanted. It is then
    believed in between (Note [checked sizes]), where new sizes cost an evaluation of the draft.

    Choices that are right at any size (`typical`) are made for the sizes of the first plan, or
    `LEAST` where those are less. For sizes more than `FAR` times larger or smaller there is
    another plan.

    What a fragment computes must not depend on the sizes that were met before. So its choices are
    those of each size by itself, and guards; what a draft has to foretell is a plan made without
    extents (at odd sizes, since kernels for whole vectors are others, which compute the same); and
    sizes under `LEAST`, at which rows shorter than a vector are summed otherwise, are planned by
    themselves.

    Some choices (how high a product's tiles are) hold for a few sizes only, and a plan with extents
    takes as long as two without. So a fragment's family is `worth` no more of them than sizes came
    and were filled in: others are planned by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.llvm.loops.kernels import emit
from adjoint.engine.backends.llvm.program.arena import Arena
from adjoint.engine.backends.llvm.program.sized_plan import LEAST, Sized, reference_of
from adjoint.engine.backends.llvm.program.sized_plan import Made as Made
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.backends.llvm.target import LLVM
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.draft import Draft, functions_of
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.graph.execution import Task
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.sizes.extents import Sizes, is_extent
from adjoint.engine.graph.sizes.resizing import again, graph_at, moved, resized
from adjoint.engine.graph.sizes.sizing import Example, Sizing

# What is done with the functions of a plan, by default to have them as code in this process.
Load = Callable[[dict[str, Callable[[], library.Text]]], dict[str, library.NativeFunction]]
PLANS = 16  # that a family keeps
# What a plan with extents takes, in plans of a single size, and how many of these a fragment's
# family is worth at first; each size that comes adds a half, one that is filled in a whole one.
# A plan of many launches takes more: one for each so many of them.
WITH_EXTENTS, AT_FIRST, LAUNCHES = 2, 24, 6


@dataclass(eq=False, slots=True)
class SizedPlans:
    """What the tasks of a family share."""

    plans: list[Sized] = field(default_factory=list)  # the one used last at the end
    arena: Arena = field(default_factory=Arena)
    refused: str = ""  # why each size is planned by itself
    looked: bool = False  # whether plans were looked for on disk
    key: str | None = None  # under which they are kept there
    asked: int = 0  # sizes of a fragment that came
    filled: int = 0  # those given to plans that had been right before
    spent: int = 0  # on plans for them, in plans of a single size

    def find(self, sizes: Sizes) -> Sized | None:
        """A plan for these sizes."""
        for k in range(len(self.plans) - 1, -1, -1):
            if self.plans[k].allows(sizes):
                self.plans.append(self.plans.pop(k))
                return self.plans[-1]
        return None

    def is_worth(self, plan: Sized | None) -> bool:
        """Whether a fragment gets another plan for many sizes, or a check of one that it has."""
        cost = WITH_EXTENTS + 1 if plan is None else 1
        return self.spent + cost <= AT_FIRST + self.asked // 2 + self.filled

    def believed(self, task: Task) -> Made | None:
        """The image and code of a task from a plan that has been right before."""
        assert task.sizing is not None
        plan = self.find(task.sizing.sizes)
        if plan is None or not plan.believed(task.sizing.sizes):
            return None
        return plan.at(task.sizing.sizes)

    def draft(self, sizes: Sizes) -> tuple[Draft, Sizes]:
        """The draft that a task of these sizes was made from, and all its sizes."""
        plan = self.find(sizes)
        if plan is None:
            raise RuntimeError("compile: the plan of this program was dropped for newer ones")
        return plan.drafted(sizes)

    def add(self, plan: Sized) -> None:
        self.plans.append(plan)
        del self.plans[:-PLANS]


def origin_text(plans: dict[Any, Any]) -> str:
    """`explain`'s last line: how a program of dynamic sizes came about."""
    lines = []
    for shared in plans.values():
        if not isinstance(shared, SizedPlans):
            continue
        if shared.refused:
            lines.append(f"each size is planned by itself: {shared.refused}")
        for plan in shared.plans:
            sizes = [f"{s} {n} to {plan.high[s]}" for s, n in plan.low.items()]
            lines.append(f"one plan for the sizes {', '.join(sizes)}")
    return "".join([f"\n{line}" for line in lines])


def shared_by(task: Task, options: Options) -> SizedPlans | None:
    """What is kept for all sizes of a task, if it is one of many."""
    if task.sizing is None:
        return None
    plans: SizedPlans = task.sizing.shared_plans.setdefault(options, SizedPlans())
    return None if plans.refused else plans


def planned(
    task: Task, options: Options, plans: SizedPlans, load: Load = library.load
) -> Made | None:
    """The image and code of a task, from a plan made for many sizes; None where there is none."""
    assert task.sizing is not None
    sizes = task.sizing.sizes
    plan = plans.find(sizes)
    if task.fragment and not (plan is not None and plan.believed(sizes)):
        if not plans.is_worth(plan):
            return None
        plans.spent += WITH_EXTENTS + 1 if plan is None else 1
    if plan is None:
        fresh = sized_plan(task, options, sizes, reference_of(sizes), load)
        if isinstance(fresh, str):
            plans.refused = fresh
            return None
        plans.spent += sum([len(part or ()) for part in fresh.draft.segments]) // LAUNCHES
        if task.fragment and not foretold(task, options, fresh, odd(fresh, sizes), load):
            return None
        plans.add(fresh)
        return fresh.at(sizes)
    if not plan.believed(sizes):
        here = {s: sizes[s] for s in plan.low}
        places: list[Sizes] = [plan.outlook(sizes), plan.corner(sizes)]
        if task.fragment:  # what holds as far off as this may hold nearer by
            places = [odd(plan, place) for place in (plan.corner(sizes, LEAST), here)]
        checked = next((p for p in places if foretold(task, options, plan, p, load)), None)
        if checked is None:
            plans.refused = "a plan made at some sizes is not what one made at others says"
            return None
        plan.believe(checked)
        plan.believe(here)
    return plan.at(sizes)


def foretold(task: Task, options: Options, plan: Sized, sizes: Sizes, load: Load) -> bool:
    """Whether a draft says what is planned at other sizes: of a fragment, without extents."""
    told = plan.at(sizes)[0]
    if not task.fragment:
        check = sized_plan(task, options, sizes, plan.reference, load)
        return not isinstance(check, str) and check.at(sizes)[0].same(told)
    sizing: Sizing = task.sizing  # type: ignore[assignment]
    known = sizing.scope.complete(sizes)
    graph, examples = graph_at(sizing.graph, known), resized(sizing.examples, known)
    alone = replace(task, graph=graph, examples=tuple(examples), sizing=None)
    return Draft(plan_for(alone, LLVM, options)).at({}).same(told)


def odd(plan: Sized, sizes: Sizes) -> Sizes:
    """Sizes near some that no vector divides, or at least no powers of two: where the plan holds.

    To divide by a power of two a kernel multiplies, which is the same.
    """
    above, below = ({s: (n - k) | 1 for s, n in sizes.items()} for k in (0, 1))
    more, less = ({s: n * 3 // k for s, n in sizes.items()} for k in (1, 4))
    return next((at for at in (above, below, more, less) if plan.allows(at)), sizes)


def sized_plan(
    task: Task, options: Options, sizes: Sizes, reference: Sizes, load: Load = library.load
) -> Sized | str:
    """A plan made at extents of these sizes, or why there is none."""
    sizing: Sizing = task.sizing  # type: ignore[assignment]
    scope = sizing.scope.again(reference)
    scope.exact = task.fragment
    known = scope.complete(sizes)
    graph = again(sizing.graph, known, scope)
    if sizing.examples:
        examples = [*moved(sizing.examples, known, scope)]
    else:
        examples = [example_of(v, x) for v, x in zip(graph.inputs, task.examples, strict=True)]
    arrays = {id(x): k for k, x in enumerate(task.examples)}
    if any(id(x) not in arrays for x in task.targets):
        return "it writes to memory that it does not read"
    if not sizing.examples and not all(map(row_major, examples, task.examples)):
        return "an operand is not row-major"
    plan = plan_for(
        Task(
            graph=graph,
            sources=task.sources,
            writes=task.writes,
            returned=task.returned,
            examples=tuple(examples),
            targets=tuple([examples[arrays[id(x)]] for x in task.targets]),
            fragment=task.fragment,
        ),
        LLVM,
        options,
    )
    draft = Draft(plan)
    if None in draft.segments:
        return "the eager table does a part of it"
    functions = load(functions_of(plan, emit))
    own = own_sizes(replace(sizing, sizes=sizes))
    return Sized(draft, scope, own, reference, functions, dict(own), dict(own))


def own_sizes(sizing: Sizing) -> dict[str, int]:
    """The sizes that are not computed from others."""
    computed = {name for name, _, _ in sizing.scope.derived.values()}
    return {s: n for s, n in sizing.sizes.items() if s not in computed}


def example_of(value: Value, array: Any) -> Any:
    """An input, with extents in the place of its sizes where they are dynamic."""
    if value.host or not any(map(is_extent, value.spec.shape)):
        return array
    dtype = NUMPY_OF[value.spec.dtype]
    shape = tuple(value.spec.shape)
    return Example(shape, tuple([s * dtype.itemsize for s in contiguous_strides(shape)]), dtype)


def row_major(example: Any, array: Any) -> bool:
    """Whether the array that an example stands for lies as the example says."""
    return not isinstance(example, Example) or bool(array.flags.c_contiguous)
