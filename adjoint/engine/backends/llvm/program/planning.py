"""Programs that are not on disk yet: planned, emitted, assembled, and kept for the next process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.loops.kernels import emit
from adjoint.engine.backends.llvm.program import kept_plans, native
from adjoint.engine.backends.llvm.program.arena import Arena
from adjoint.engine.backends.llvm.program.running import FilledTask, Native
from adjoint.engine.backends.llvm.program.sized import (
    SizedPlans,
    origin_text,
    own_sizes,
    planned,
    shared_by,
)
from adjoint.engine.backends.llvm.program.sized_plan import LEAST
from adjoint.engine.backends.llvm.program.validate import Validated
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.backends.llvm.target import LLVM
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.accounts import Account, accounts
from adjoint.engine.compiler.package.draft import Draft, concrete, functions_of
from adjoint.engine.compiler.package.explain import explain
from adjoint.engine.compiler.package.image import ProgramImage, from_bytes, to_bytes
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.calls import HostCall
from adjoint.engine.compiler.schedule.steps import EagerCall
from adjoint.engine.core.state.timeline import stage
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.sizes.extents import Sizes
from adjoint.engine.graph.sizes.sizing import FILL


def host_calls(executable: Native) -> list[HostCall]:
    """What the eager table does in the middle of a program, in order."""
    plan, arena = executable.plan, executable.arena
    assert plan is not None  # programs with such calls are not kept
    steps = [step for step in plan.steps if isinstance(step, EagerCall)]
    return [HostCall(step, plan, arena.array, executable.origin) for step in steps]


def compile_new(
    task: Task, options: Options, key: str | None, arena: Arena | None = None
) -> Executable:
    """An executable that is planned now, and kept under a key."""
    plan = plan_for(task, LLVM, options)
    with store.default().together():
        with stage("write and assemble machine code"):
            functions = library.load(functions_of(plan, emit))
        draft = Draft(plan)
        draft.place()
        image = draft.at({})
        stored = keep(task, key, image, functions)
    drafted: Callable[[], tuple[Draft, Sizes]] = partial(draft_again, task, options)
    if stored is not None and task.shared is not None and not options.validate:
        executable = Native(task, from_bytes(stored)[0], functions, None, arena, drafted)
        return executable  # one of many: the plan is let go of
    executable = Native(task, image, functions, plan, arena, drafted)
    return Validated(executable, draft, {}) if options.validate else executable


def keep(
    task: Task, key: str | None, image: ProgramImage, functions: dict[str, library.NativeFunction]
) -> bytes | None:
    """Have a program on disk for other processes; the image as it is kept, if it can be."""
    if None in image.segments or (key is None and task.shared is None):
        return None
    modules = sorted({function.module for function in functions.values()})
    stored = to_bytes(image, modules)
    if key is not None:
        store.put(key, stored)
    return stored


class OpenFragment:
    """An eager operation on the CPU; called with sizes, what runs there (`FILL`)."""

    def __init__(self, task: Task, plans: SizedPlans) -> None:
        assert task.sizing is not None
        self.names = [*own_sizes(task.sizing)]
        self.task, self.plans = replace(task, graph=task.sizing.graph), plans

    def __call__(self, numbers: Sequence[int]) -> Native | None:
        """The program for some sizes; None where there is no plan yet that is believed.

        `Unfit` where there will be none: they are to be planned by themselves.
        """
        if min(numbers) < LEAST:
            raise Unfit
        sizes = dict(zip(self.names, numbers, strict=True))
        self.plans.asked += 1
        plan = self.plans.find(sizes)
        if plan is None or not plan.believed(sizes):
            if not self.plans.is_worth(plan):
                raise Unfit
            return None
        self.plans.filled += 1
        return self.native(*plan.at(sizes), sizes)

    def native(
        self, image: ProgramImage, functions: dict[str, library.NativeFunction], sizes: Sizes
    ) -> Native:
        drafted = partial(self.plans.draft, sizes)
        return Native(self.task, image, functions, None, native.arena_for(self.task), drafted)


def compile_fragment(task: Task, options: Options) -> Executable:
    """An eager operation at one of many sizes; `Unfit` where it is to be planned by itself.

    Plans are not looked for on disk: which ones are believed would depend on what is there.
    """
    assert task.sizing is not None
    shared = task.sizing.shared_plans
    plans = None if options.validate else shared_by(task, options)
    if plans is None:
        shared[FILL] = None
        raise Unfit
    fill: OpenFragment = shared.setdefault(FILL, OpenFragment(task, plans))
    is_many = min(own_sizes(task.sizing).values()) >= LEAST
    program = planned(task, options, plans) if is_many else None
    if plans.refused:
        shared[FILL] = None
    if program is None:
        raise Unfit
    return fill.native(*program, task.sizing.sizes)


def compile_sized(task: Task, options: Options) -> Executable:
    """An executable for one of many sizes: from a plan for several, if there is one."""
    assert task.sizing is not None
    if task.fragment and not native.is_elsewhere(task):
        return compile_fragment(task, options)
    shared = shared_by(task, options)
    drafted: Callable[[], tuple[Draft, Sizes]] | None = None
    if shared is not None:
        if not options.validate and not native.is_elsewhere(task):
            kept_plans.look(task, options, shared)
        drafted = partial(shared.draft, task.sizing.sizes)
        believed = shared.believed(task)
        if believed is not None:
            executable = Native(task, *believed, arena=shared.arena, drafted=drafted)
            return checked(executable, task, shared) if options.validate else executable
    if native.is_elsewhere(task):
        return native.compile_elsewhere(task, options)
    key = None if options.validate else native.disk_key(task, options)
    arena = native.arena_for(task) if shared is None else shared.arena
    ready = None if key is None else native.from_disk(task, key, arena, options)
    if ready is not None:
        with stage("found on disk"):
            return ready
    program = None if shared is None else planned(task, options, shared)
    if shared is None or program is None:  # a plan for one size has memory of its own
        return compile_new(task, options, key, arena if shared is None else None)
    if not kept_plans.keep(shared):
        keep(task, key, *program)
    executable = Native(task, *program, None, arena, drafted)
    return checked(executable, task, shared) if options.validate else executable


def checked(executable: Native, task: Task, shared: SizedPlans) -> Executable:
    """An executable whose first call is validated by the draft of its family."""
    assert task.sizing is not None
    sized = shared.find(task.sizing.sizes)
    assert sized is not None
    return Validated(executable, *sized.drafted(task.sizing.sizes))


def draft_again(task: Task, options: Options) -> tuple[Draft, Sizes]:
    """The draft of a task, planned again."""
    return Draft(plan_for(task, LLVM, options)), {}


def explained(executable: Native) -> str:
    """What a program does, step by step."""
    task = executable.task
    sizing = None if isinstance(task, FilledTask) else task.sizing
    return explain(executable.image) + ("" if sizing is None else origin_text(sizing.shared_plans))


def accounts_of(executable: Native) -> list[list[Account]]:
    """By segment, what every entry of a program's table does; none where that is not known."""
    if executable.drafted is None:
        return []
    draft, sizes = executable.drafted()
    entries = accounts(draft, concrete(sizes))
    fits = [len(part) for part in entries] == [
        len(part or "1") for part in executable.image.segments
    ]
    return entries if fits else []


def sources_of(executable: Native) -> dict[str, str]:
    """The LLVM text of every function of a program, by name."""
    if executable.drafted is None:
        return {}
    texts = functions_of(executable.drafted()[0].plan, emit)
    return {name: write()[0] for name, write in texts.items()}
