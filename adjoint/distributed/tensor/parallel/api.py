"""Dividing the layers of a module by a plan."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any

from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.groups.group import resolve
from adjoint.distributed.tensor.parallel.styles import ParallelStyle
from adjoint.nn.modules.module import Module


def parallelize_module(
    module: Module, device_mesh: Any = None, parallelize_plan: Any = None, *, src_data_rank: Any = 0
) -> Module:
    """Divide layers among the processes of a mesh: their parameters become DTensors.

    Args:
        module: the module, changed in place.
        device_mesh: a mesh of one dimension, or a group; all processes unless given.
        parallelize_plan: a style for the module itself, or a dict from names of inner modules
            (`*` stands for any part of a name) to styles.
        src_data_rank: whose values are taken; None takes each process's own.

    Returns:
        The module.
    """
    mesh = line_of(device_mesh)
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        parallelize_plan.apply(module, mesh)
        return module
    if not isinstance(parallelize_plan, Mapping):
        raise TypeError("parallelize_module: expected a ParallelStyle or a dict of them")
    for pattern, style in parallelize_plan.items():
        layers = [m for name, m in module.named_modules() if name and fnmatch(name, pattern)]
        if not layers:
            raise ValueError(f"parallelize_module: no inner module is called {pattern!r}")
        if not isinstance(style, ParallelStyle):
            raise TypeError(f"parallelize_module: {pattern!r} has no ParallelStyle")
        style.src_data_rank = src_data_rank
        for layer in layers:
            style.apply(layer, mesh)
    return module


def line_of(mesh: Any) -> DeviceMesh:
    """A mesh of one dimension, or the processes of a group in one line."""
    if isinstance(mesh, DeviceMesh):
        if mesh.ndim != 1:
            raise ValueError(
                f"parallelize_module: expected a mesh of one dimension, received {mesh.ndim}; take "
                'one of them, such as mesh["tp"]'
            )
        return mesh
    group = resolve(mesh)
    return DeviceMesh("cpu", list(group.ranks), _groups=[group])
