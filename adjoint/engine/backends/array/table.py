"""The eager table: a kernel per record, written against the API NumPy and CuPy share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint.engine.backends.array.memory.laying import laid_by_rule
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.result_layouts import RULES

Kernel = Callable[..., Any]
GENERIC: dict[Record, Kernel] = {}  # kernel(xp, *arrays, **params)
ON_GPU: dict[Record, Kernel] = {}  # in CUDA C, of composites that are composed elsewhere
NAMED: dict[Record, str] = {}  # a function of the array library taking just the arrays
_RESOLVED: dict[tuple[Any, Record], Kernel] = {}


def lowers(record: Record) -> Callable[[Kernel], Kernel]:
    """Register the array kernel of a record: `kernel(xp, *arrays, **params)`."""

    def register(kernel: Kernel) -> Kernel:
        GENERIC[record] = kernel
        return kernel

    return register


def lowers_on_gpu(record: Record) -> Callable[[Kernel], Kernel]:
    """The same for a kernel of GPUs alone: elsewhere the record's composition is what it is."""

    def register(kernel: Kernel) -> Kernel:
        ON_GPU[record] = kernel
        return kernel

    return register


def on_device(xp: Any) -> bool:
    """Whether arrays are a GPU's, which kernels can be written for."""
    return xp is not np and hasattr(xp, "RawKernel")


def row_major(xp: Any, out: Any) -> Any:
    """A result as a record that keeps no layout has it, whatever the array library gave it.

    NumPy lets results lie as operands do also where PyTorch, and a compiled program, does not.
    """
    if not out.flags.c_contiguous:
        return xp.ascontiguousarray(out)
    return out.reshape(-1).reshape(out.shape) if 1 in out.shape else out  # steps of single elements


def kernel_for(record: Record, xp: Any = np) -> Kernel | None:
    """The kernel of `record` for one array library, or None."""
    kernel = _RESOLVED.get((xp, record))
    if kernel is None:
        if record in NAMED:
            kernel = getattr(xp, NAMED[record])
        elif record in GENERIC:
            kernel = partial(GENERIC[record], xp)
        elif record in ON_GPU and on_device(xp):
            kernel = partial(ON_GPU[record], xp)
        else:
            return None
        if record.keeps_layout in RULES:
            kernel = laid_by_rule(xp, kernel, record.keeps_layout)
        _RESOLVED[xp, record] = kernel
    return kernel
