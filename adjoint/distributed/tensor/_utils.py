"""Where a process's part lies, at PyTorch's path."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.tensor.layout import MeshLayout
from adjoint.distributed.tensor.placement import Placement
from adjoint.engine.core.spec import Size


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this process's part of a tensor, and where in the whole it begins."""
    layout = MeshLayout(mesh, tuple(placements), Size(global_shape))
    return layout.sizes()[-1], layout.starts()
