"""The executor of programs on CUDA devices."""

from __future__ import annotations

import warnings
from functools import cache, partial
from typing import Any

from adjoint.engine.backends.triton.program.apart import Apart, parts_of
from adjoint.engine.backends.triton.program.direct import DirectProgram
from adjoint.engine.backends.triton.program.mirror import small_program
from adjoint.engine.backends.triton.program.open_plans import open_program
from adjoint.engine.backends.triton.program.program import GpuProgram
from adjoint.engine.backends.triton.runtime.compile import (
    WITHOUT_TRITON,
    KernelError,
    has_triton,
)
from adjoint.engine.backends.triton.runtime.cuda import machine
from adjoint.engine.backends.triton.runtime.cudnn import CudnnConvolver
from adjoint.engine.backends.triton.runtime.direct import direct_gpu
from adjoint.engine.backends.triton.target import TritonTarget
from adjoint.engine.compiler.executors import compiler_for, register_backend, register_compiler
from adjoint.engine.compiler.options import Options, chosen
from adjoint.engine.core.device import Device
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.execution import Executable, ExecutorFactory, Task, interpreted


def device_index(task: Task) -> tuple[int | None, bool]:
    """The one GPU that a task is on (None: several), and whether it is also on the CPU."""
    values = [v for v in task.graph.inputs if not v.host]
    values += [v for node in task.graph for v in node.outputs]
    devices = {v.spec.device for v in values}
    indices = {d.index for d in devices if d.type == "cuda" and d.index is not None}
    known = {d.type for d in devices} <= {"cuda", "cpu"} and len(indices) == 1
    return (indices.pop() if known else None), any(d.type == "cpu" for d in devices)


def compile_task(task: Task, options: Options | None = None) -> Executable:
    """A program of kernels; what no GPU can run by itself is interpreted, with a warning."""
    if not has_triton():
        if not task.fragment:
            raise DeviceError(WITHOUT_TRITON)
        tell_without_triton()
        raise Unfit
    options = options or Options()
    if options.validate:
        raise NotImplementedError(
            "compile: options['validate'] checks programs on the CPU only, and this is on a CUDA "
            "device. Leave it out, or validate the function with its tensors on the CPU."
        )
    index, mixed = device_index(task)
    if task.fragment and index is not None and not mixed:
        made = DirectProgram if task.sizing is None else open_program
        return made(task, options, direct_gpu(index))
    if index is None:
        return given_up(task, "it is on several GPUs")
    library = CudnnConvolver(index)
    target = partial(TritonTarget, convolver=library, attender=library)
    try:
        if not mixed:
            return GpuProgram(task, options, machine(index), target)
        parts = parts_of(task)
        if parts is not None:
            on_device = partial(GpuProgram, options=options, machine=machine(index), target=target)
            return Apart(*parts, on_device, partial(compiler_for("cpu"), options=options))
        program = small_program(task, options, machine(index), Device("cuda", index), target)
    except KernelError as error:
        return given_up(task, str(error))
    return given_up(task, program) if isinstance(program, str) else program


@cache
def tell_without_triton() -> None:
    """Say once that no fragments can be made."""
    warnings.warn(
        "cuda: Triton is not installed, so eager operations run by CuPy one after the other, "
        "which is slower. Install it with `pip install adjoint[cuda]`.",
        stacklevel=2,
    )


def given_up(task: Task, why: str) -> Executable:
    """A task that is interpreted, and why."""
    warnings.warn(f"compile: a program on a CUDA device is interpreted: {why}.", stacklevel=2)
    return interpreted(task)


def maker(mode: str, options: dict[str, Any]) -> ExecutorFactory:
    """The factory of executables that `compile`'s arguments ask for."""
    return partial(compile_task, options=chosen(mode, options))


register_backend("triton", maker)
register_compiler("cuda", compile_task)
