"""Dividing the layers of a module by a plan."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any

from adjoint.distributed.group import resolve
from adjoint.distributed.tensor.parallel.styles import ParallelStyle
from adjoint.nn.modules.module import Module


def parallelize_module(
    module: Module, device_mesh: Any = None, parallelize_plan: Any = None, *, src_data_rank: Any = 0
) -> Module:
    """Divide layers among the processes of a mesh; every process has begun with the same values.

    Args:
        module: the module, changed in place.
        device_mesh: a mesh of one dimension, or a group; all processes unless given.
        parallelize_plan: a style for the module itself, or a dict from names of inner modules
            (`*` stands for any part of a name) to styles.
        src_data_rank: accepted as PyTorch has it.

    Returns:
        The module.
    """
    group = resolve(device_mesh)
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.apply(module, group)
        return module
    if not isinstance(parallelize_plan, Mapping):
        raise TypeError("parallelize_module: expected a ParallelStyle or a dict of them")
    for pattern, style in parallelize_plan.items():
        found = [m for name, m in module.named_modules() if name and fnmatch(name, pattern)]
        if not found:
            raise ValueError(f"parallelize_module: no inner module is called {pattern!r}")
        if not isinstance(style, ParallelStyle):
            raise TypeError(f"parallelize_module: {pattern!r} has no ParallelStyle")
        for each in found:
            style.apply(each, group)
    return module
