"""The native executor: a task compiled to a table of kernels and run by the worker pool."""

from __future__ import annotations

import importlib
from functools import cache, partial
from typing import Any

from adjoint.engine.backends.llvm.program.arena import Arena
from adjoint.engine.backends.llvm.program.running import (
    FilledTask,
    disk_prefix,
    get_ready,
    loaded,
    planning,
    shared_arena,
)
from adjoint.engine.backends.llvm.program.running import Native as Native
from adjoint.engine.compiler.executors import (
    compiler_for,
    interpreted_with,
    register_backend,
    register_compiler,
)
from adjoint.engine.compiler.options import Options, chosen
from adjoint.engine.compiler.package.naming import task_key
from adjoint.engine.core.identity.keys import key_of
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.timeline import stage
from adjoint.engine.graph.execution import Executable, ExecutorFactory, Task
from adjoint.engine.graph.record.sources import CallArgument
from adjoint.engine.graph.sizes.extents import Sizes
from adjoint.engine.graph.sizes.kept_sizes import NotKept


def compile_task(task: Task, options: Options | None = None) -> Executable:
    """The executor factory of native code; other devices' programs are their backends'.

    A program that is found on disk needs no planner, which takes longest to load.
    """
    options = options or Options()
    if task.sizing is not None:  # one of many sizes, for which plans are kept
        return planning().compile_sized(task, options)
    if is_elsewhere(task):
        return compile_elsewhere(task, options)
    arena = arena_for(task)
    # What is checked must be known by its nodes, which images do not keep.
    key = None if options.validate else disk_key(task, options)
    executable = None if key is None else from_disk(task, key, arena, options)
    if executable is None:
        return planning().compile_new(task, options, key, arena)
    with stage("found on disk"):
        return executable


def is_elsewhere(task: Task) -> bool:
    """Whether a task is not all on the CPU."""
    return any(v.spec.device.type != "cpu" for v in task.graph.inputs if not v.host) or any(
        v.spec.device.type != "cpu" for node in task.graph for v in node.outputs
    )


def arena_for(task: Task) -> Arena | None:
    """The memory of tasks that share it; None: one of its own."""
    if task.shared is None:
        return None
    return shared_arena(task.shared)


def compile_elsewhere(task: Task, options: Options) -> Executable:
    """An executable for a task that is not all on the CPU."""
    devices = {v.spec.device.type for v in task.graph.inputs if not v.host}
    devices |= {v.spec.device.type for node in task.graph for v in node.outputs}
    others = devices - {"cpu"}
    compile_there = compiler_for(others.pop()) if len(others) == 1 else interpreted_with
    return compile_there(task, options=options)


def disk_key(task: Task, options: Any) -> str | None:
    """Under which name a task's image is kept, if it can be named."""
    try:
        return key_of("image", disk_prefix(), task_key(task, options))
    except NotKept:
        return None


def kept_under(executable: Executable) -> str | None:
    """The name of an eager operation's image, if there is one on disk."""
    if executable.__class__ is not Native or isinstance(executable.task, FilledTask):
        return None
    task = executable.task
    if task.sizing is not None or None in executable.image.segments:
        return None
    if not all(isinstance(source, CallArgument) for source in task.sources):
        return None
    options = chosen("default", {})
    return None if options.validate else disk_key(task, options)


def draft_again(task: Task, options: Options) -> tuple[Any, Sizes]:
    """The draft of a task, planned again."""
    draft: tuple[Any, Sizes] = planning().draft_again(task, options)
    return draft


def from_disk(
    task: Task, key: str, arena: Arena | None = None, options: Options | None = None
) -> Native | None:
    """The executable of a task that was compiled before, if its image and code are all there."""
    with stage("look on disk"):
        return _from_disk(task, key, arena, options or Options())


def _from_disk(task: Task, key: str, arena: Arena | None, options: Options) -> Native | None:
    memory = arena or Arena()
    again = partial(draft_again, task, options) if task.sizing is None else None
    return loaded(key, memory, partial(Native, task, arena=memory, drafted=again))


@cache
def get_ready_for_recordings() -> None:
    """What recordings of Python code need besides.

    Done when `compile` is called, so that the first call of what it returns does not wait for it.
    """
    get_ready()
    guarding, objects, fitting = (
        importlib.import_module(f"adjoint.engine.backends.llvm.runtime.{name}")
        for name in ("guarding", "objects", "fitting")
    )
    HOOKS.guard = guarding.guard_walk()
    HOOKS.objects = objects.objects()
    HOOKS.fits = fitting.make_fits


def compile_operation(task: Task) -> Executable:
    """The program of a large eager operation (Note [loaded fragments])."""
    get_ready()
    return compile_task(task, chosen("default", {}))


def maker(mode: str, options: dict[str, Any]) -> ExecutorFactory:
    """The factory of native executables that `compile`'s arguments ask for."""
    get_ready_for_recordings()
    return partial(compile_task, options=chosen(mode, options))


register_backend("native", maker)
register_compiler("cpu", compile_task)
