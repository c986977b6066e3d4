"""The executor of programs on CUDA devices."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from adjoint.engine.backends.triton.program.program import Program
from adjoint.engine.backends.triton.runtime.compile import KernelError, triton
from adjoint.engine.backends.triton.runtime.cuda import machine
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.compiler.options import Options, chosen
from adjoint.engine.graph.execution import Executable, ExecutorFactory, Task, interpreted


def device_index(task: Task) -> int | None:
    """The GPU that all of a task is on; None where it is on several devices."""
    values = [v for v in task.graph.inputs if not v.host]
    values += [v for node in task.graph for v in node.outputs]
    devices = {v.spec.device for v in values}
    if {d.type for d in devices} != {"cuda"}:
        return None
    indices = {d.index for d in devices if d.index is not None}
    return indices.pop() if len(indices) == 1 else None


def compile_task(task: Task, options: Options | None = None) -> Executable:
    """A program of kernels; what lies on several devices is interpreted."""
    index = device_index(task)
    if index is None:
        return interpreted(task)
    triton()
    try:
        return Program(task, options or Options(), machine(index))
    except KernelError as error:
        warnings.warn(f"{error}; the program is interpreted instead.", stacklevel=2)
        return interpreted(task)


def maker(mode: str, options: dict[str, Any]) -> ExecutorFactory:
    """The factory of executables that `compile`'s arguments ask for."""
    return partial(compile_task, options=chosen(mode, options))


register_backend("triton", maker)
