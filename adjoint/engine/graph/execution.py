"""What runs a program's graph: the contract between capture and executors.

Note [executables]
    A recording is handed to an executor factory as a Task; what the factory returns is called once
    per call of the program:

        results = executable(inputs, targets)

    `inputs` has one entry per graph input: an array, or a Python number where the input is the
    host's. `targets` has one array per entry of `task.writes`. The executable computes every
    output, then, after everything that can fail, copies output k into the target of each write
    (source, k); an exception leaves all targets as they were. It returns one entry per output: an
    array that shares memory with no input, target or other result, or anything at all where the
    output is not in `task.returned` (one that is only written).

    One call runs at a time, unless the executable has an attribute `concurrent` that is true. Such
    a one may have a method `quickest`, which gives a function that does what calling it does.

    What stays the same while a task is in use: the shape, dtype, device and strides of every array
    (those of `task.examples`), and the arrays themselves where the source is a `State`, so that
    their addresses can be looked up once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state import forks
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.interpreter import interpret
from adjoint.engine.graph.ir import DataflowGraph
from adjoint.engine.graph.record.sources import Source
from adjoint.engine.graph.sizes.sizing import Sizing


@dataclass(frozen=True, slots=True)
class Task:
    """A graph to be run many times, and what is known about its inputs and outputs."""

    graph: DataflowGraph
    sources: tuple[Source, ...]  # one per graph input
    writes: tuple[tuple[Source, int], ...]  # whose array takes which output
    returned: frozenset[int]  # the outputs that are handed out as fresh arrays
    examples: tuple[Any, ...]  # the inputs of the call that was recorded
    targets: tuple[Any, ...]  # the targets of that call
    sizing: Sizing | None = None  # where the task is one of many that differ in sizes only
    # What tasks of which one runs at a time have in common, for executors to put memory in.
    shared: dict[str, Any] | None = None
    fragment: bool = False  # it is called between other operations, so a call must cost little
    # The inputs that are the same at most calls: what is made of them alone may be kept.
    lasting: frozenset[int] = frozenset()


class Executable(Protocol):
    """Runs a task's graph (Note [executables])."""

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        """Compute every output, write the targets, return the outputs."""
        ...


ExecutorFactory = Callable[[Task], Executable]


def one_at_a_time(executable: Executable) -> Executable:
    """The executable, with calls from several threads put in a row where it needs that."""
    if getattr(executable, "concurrent", False):
        return executable
    lock = forks.lock(forks.LockOrder.PROGRAM)

    def run(inputs: list[Any], targets: list[Any]) -> list[Any]:
        with lock:
            return executable(inputs, targets)

    return run


class Interpreted:
    """A task run by the reference interpreter."""

    __slots__ = ("task",)
    concurrent = True

    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, inputs: list[Any], targets: list[Any]) -> list[Any]:
        task, wrap = self.task, HOOKS.array.wrap
        operands = [
            x if value.host else wrap(x) for value, x in zip(task.graph.inputs, inputs, strict=True)
        ]
        results = interpret(task.graph, operands)
        storages = {
            id(x._storage) for x, v in zip(operands, task.graph.inputs, strict=True) if not v.host
        }
        # Take every result first: one may be (a view of) an input about to be overwritten.
        with CONTEXT.having(grad_enabled=False):
            fresh = [
                self._fresh(k, tensor, storages) if k in task.returned else None
                for k, tensor in enumerate(results)
            ]
            values = [
                results[k].clone() if id(results[k]._storage) in storages else results[k]
                for _, k in task.writes
            ]
        for target, value in zip(targets, values, strict=True):
            HOOKS.array.copy_into(target, value._array)
        return fresh

    def _fresh(self, k: int, tensor: Any, storages: set[int]) -> Any:
        """A result's array, copied if it shows memory that is not its own."""
        if id(tensor._storage) in storages or tensor._chain:
            return tensor.clone()._array
        storages.add(id(tensor._storage))
        return tensor._array


def interpreted(task: Task) -> Executable:
    """The executor factory of the reference interpreter."""
    return Interpreted(task)
