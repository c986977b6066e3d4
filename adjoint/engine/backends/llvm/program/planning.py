"""Programs that are not on disk yet: planned, emitted, assembled, and kept for the next process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adjoint.engine.backends.disk import store
from adjoint.engine.backends.llvm.loops.kernels import emit
from adjoint.engine.backends.llvm.program import native
from adjoint.engine.backends.llvm.program.arena import Arena
from adjoint.engine.backends.llvm.program.native import Native
from adjoint.engine.backends.llvm.program.sized import SizedPlans, planned, shared_by
from adjoint.engine.backends.llvm.program.sized import told_of as told_of
from adjoint.engine.backends.llvm.program.validate import Validated
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.backends.llvm.target import LLVM
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.accounts import Account, accounts
from adjoint.engine.compiler.package.draft import Draft, concrete, functions_of
from adjoint.engine.compiler.package.image import ProgramImage, from_bytes, to_bytes
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.core.state.timeline import stage
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.sizes.extents import Sizes


def compile_new(
    task: Task, options: Options, key: str | None, arena: Arena | None = None
) -> Executable:
    """An executable that is planned now, and kept under a key."""
    plan = plan_for(task, LLVM, options)
    with stage("write and assemble machine code"):
        functions = library.load(functions_of(plan, emit))
    draft = Draft(plan)
    draft.place()
    image = draft.at({})
    told = keep(task, key, image, functions)
    drafted: Callable[[], tuple[Draft, Sizes]] = partial(draft_again, task, options)
    if told is not None and task.shared is not None and not options.validate:
        made = Native(task, from_bytes(told)[0], functions, None, arena, drafted)
        return made  # one of many: the plan is let go of
    made = Native(task, image, functions, plan, arena, drafted)
    return Validated(made, draft, {}) if options.validate else made


def keep(
    task: Task, key: str | None, image: ProgramImage, functions: dict[str, library.NativeFunction]
) -> bytes | None:
    """Have a program on disk for other processes; the image as it is kept, if it can be."""
    if None in image.segments or (key is None and task.shared is None):
        return None
    modules = sorted({function.module for function in functions.values()})
    told = to_bytes(image, modules)
    if key is not None:
        store.put(key, told)
    return told


def compile_sized(task: Task, options: Options) -> Executable:
    """An executable for one of many sizes: from a plan for several, if there is one."""
    assert task.sizing is not None
    shared = shared_by(task, options)
    drafted: Callable[[], tuple[Draft, Sizes]] | None = None
    if shared is not None:
        drafted = partial(shared.draft, task.sizing.sizes)
        believed = shared.believed(task)
        if believed is not None:
            made = Native(task, *believed, arena=shared.arena, drafted=drafted)
            return checked(made, task, shared) if options.validate else made
    if native.is_elsewhere(task):
        return native.compile_elsewhere(task, options)
    key = None if options.validate else native.disk_key(task, options)
    arena = native.arena_for(task) if shared is None else shared.arena
    kept = None if key is None else native.from_disk(task, key, arena, options)
    if kept is not None:
        with stage("found on disk"):
            return kept
    found = None if shared is None else planned(task, options, shared)
    if shared is None or found is None:  # a plan for one size has memory of its own
        return compile_new(task, options, key, arena if shared is None else None)
    keep(task, key, *found)
    made = Native(task, *found, None, arena, drafted)
    return checked(made, task, shared) if options.validate else made


def checked(made: Native, task: Task, shared: SizedPlans) -> Executable:
    """An executable whose first call is validated by the draft of its family."""
    assert task.sizing is not None
    found = shared.find(task.sizing.sizes)
    assert found is not None
    return Validated(made, found.draft, found.scope.complete(task.sizing.sizes))


def draft_again(task: Task, options: Options) -> tuple[Draft, Sizes]:
    """The draft of a task, planned again."""
    return Draft(plan_for(task, LLVM, options)), {}


def accounts_of(made: Native) -> list[list[Account]]:
    """By segment, what every entry of a program's table does; none where that is not known."""
    if made.drafted is None:
        return []
    draft, sizes = made.drafted()
    found = accounts(draft, concrete(sizes))
    fits = [len(part) for part in found] == [len(part or "1") for part in made.image.segments]
    return found if fits else []


def sources_of(made: Native) -> dict[str, str]:
    """The LLVM text of every function of a program, by name."""
    if made.drafted is None:
        return {}
    texts = functions_of(made.drafted()[0].plan, emit)
    return {name: write()[0] for name, write in texts.items()}
