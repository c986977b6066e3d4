"""DTensors made as such, and modules whose parameters are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor, distribute_tensor, world_mesh
from adjoint.distributed.tensor.layout import MeshLayout
from adjoint.distributed.tensor.placement import Placement, Replicate
from adjoint.distributed.tensor.rules import drawn_alike
from adjoint.engine.core.spec import Size
from adjoint.engine.ops.create import creation
from adjoint.engine.ops.random import random
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter


def _laid_out(
    shape: tuple[Any, ...], mesh: DeviceMesh | None, placements: Sequence[Placement] | None
) -> MeshLayout:
    sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    chosen = mesh or world_mesh(creation.zeros(()))
    return MeshLayout(chosen, tuple(placements or [Replicate()] * chosen.ndim), Size(sizes))


def _constant(function: Callable[..., Any]) -> Callable[..., DTensor]:
    def make(
        *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
        device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
    ) -> DTensor:  # fmt: skip
        placed = _laid_out(size, device_mesh, placements)
        local = function(placed.sizes()[-1], dtype=dtype)
        tensor: Any = as_dtensor(local, placed)
        return tensor.requires_grad_(requires_grad)

    make.__name__ = function.__name__
    make.__doc__ = f"`{function.__name__}` of a whole tensor, of which each process makes its part."
    return make


def _drawn(draw: Callable[..., Any]) -> Callable[..., DTensor]:
    def make(
        *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
        device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
    ) -> DTensor:  # fmt: skip
        placed = _laid_out(size, device_mesh, placements)
        whole = drawn_alike(placed, lambda: draw(tuple(placed.shape), dtype=dtype))
        tensor: Any = distribute_tensor(whole, placed.mesh, placed.placements, src_data_rank=None)
        return tensor.requires_grad_(requires_grad)

    make.__name__ = draw.__name__
    make.__doc__ = f"`{draw.__name__}` of a whole tensor: however it is placed, the same numbers."
    return make


zeros = _constant(creation.zeros)
ones = _constant(creation.ones)
empty = _constant(creation.empty)
rand = _drawn(random.rand)
randn = _drawn(random.randn)


def full(
    size: Sequence[int], fill_value: float, *, dtype: Any = None, requires_grad: bool = False,
    layout: Any = None, device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:  # fmt: skip
    """`full` of a whole tensor, of which each process makes its part."""
    placed = _laid_out((size,), device_mesh, placements)
    local = creation.full(placed.sizes()[-1], fill_value, dtype=dtype)
    tensor: Any = as_dtensor(local, placed)
    return tensor.requires_grad_(requires_grad)


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Make a module's parameters and buffers DTensors, and convert its inputs and results.

    Args:
        module: the module, changed in place.
        device_mesh: the processes; all unless given.
        partition_fn: `partition_fn(name, submodule, mesh)` places parameters; those it leaves are
            whole on every process.
        input_fn: `input_fn(module, inputs, mesh)`, called before forward.
        output_fn: `output_fn(module, outputs, mesh)`, called after it.
    """
    first = next(iter(module.parameters()), None)
    mesh = device_mesh or world_mesh(creation.zeros(()) if first is None else first)
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, mesh)
        replicate(submodule, mesh)
    if input_fn is not None:
        given = input_fn
        module.register_forward_pre_hook(lambda m, inputs: given(m, inputs, mesh))
    if output_fn is not None:
        convert = output_fn
        module.register_forward_hook(lambda m, inputs, outputs: convert(m, outputs, mesh))
    return module


def replicate(module: Module, mesh: DeviceMesh) -> None:
    """Make a module's own plain parameters and buffers whole DTensors."""
    placements = [Replicate()] * mesh.ndim
    for key, parameter in module._parameters.items():
        if parameter is not None and not isinstance(parameter, DTensor):
            whole = distribute_tensor(parameter.detach(), mesh, placements)
            module.register_parameter(key, Parameter(whole, parameter.requires_grad))
    for key, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[key] = distribute_tensor(buffer, mesh, placements)
