"""A parameter of which this process keeps a part: some of its rows."""

from __future__ import annotations

from typing import Any

from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor, part_of
from adjoint.distributed.tensor.layout import MeshLayout, chunk_of
from adjoint.distributed.tensor.placement import Replicate, Shard
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.device import Device
from adjoint.engine.core.spec import Size
from adjoint.engine.tensor.tensor import Tensor


def layout_over(parameter: Tensor, mesh: DeviceMesh) -> MeshLayout:
    """How a parameter lies when its rows are divided over the last dimension of a mesh.

    Along a first dimension of the mesh it is repeated. One that `parallelize_module` has divided
    already lies on both meshes, cut by that one first.
    """
    if not parameter.ndim:
        raise ValueError(
            "fully_shard doesn't support scalar parameters. Change it to a 1D tensor with numel "
            "equal to 1."
        )
    if not isinstance(parameter, DTensor):
        outer = [Replicate()] * (mesh.ndim - 1)
        return MeshLayout(mesh, (*outer, Shard(0)), Size(parameter.shape))
    inner = parameter._layout
    if inner.mesh.ndim != 1 or mesh.ndim != 1:
        raise NotImplementedError(
            "fully_shard: a parameter that is divided over a mesh of several dimensions cannot be "
            "divided further; use one dimension for each"
        )
    both = mesh.joined(inner.mesh)
    return MeshLayout(both, (Shard(0), *inner.placements), inner.shape, order=(1, 0))


def shard_parameter(parameter: Any, mesh: DeviceMesh, device: Device | None = None) -> Any:
    """A parameter's part, on a device, as a parameter that knows what it is a part of."""
    layout = layout_over(parameter, mesh)
    at = mesh.ndim - 1
    local = part_of(parameter) if isinstance(parameter, DTensor) else parameter
    with no_grad():
        first, last = chunk_of(local.shape[0], mesh.size(at), mesh.get_local_rank(at))
        rows = local.detach()[first:last].clone()
        if device is not None and rows.device.type != "meta":
            rows = rows.to(device)
    part: Any = as_dtensor(rows, layout)
    part._is_param = True
    return part.requires_grad_(parameter.requires_grad)


def gathered_shape(part: DTensor) -> Size:
    """The shape that the parts of all processes are gathered to: before the last cut."""
    return Size(part._layout.sizes()[-2])
