"""A parameter of which this process keeps a part: some of its rows."""

from __future__ import annotations

from typing import Any

from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.sharded.offload import require_on_host
from adjoint.distributed.tensor.dtensor import DTensor, as_dtensor, part_of
from adjoint.distributed.tensor.layout import MeshLayout, chunk_of
from adjoint.distributed.tensor.placement import Replicate, Shard
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.device import Device
from adjoint.engine.core.spec import Size
from adjoint.engine.ops.elementwise.comparison import equal
from adjoint.engine.tensor.storage import Storage
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module


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


class Tie:
    """One parameter's part, and the places that have it: one in each unit that uses it."""

    def __init__(self, part: DTensor, mesh: DeviceMesh) -> None:
        self.part: Any = part  # the last that was found
        self.mesh = mesh
        self.places: list[SharedPlace] = []


class SharedPlace:
    """Where a unit keeps a part: all the names, in its modules, that one parameter has."""

    def __init__(self, tie: Tie, *, on_host: bool) -> None:
        self.tie = tie
        self.layout = tie.part._layout
        self.on_host = on_host
        self.names: list[tuple[Module, str]] = []
        self.is_whole = False  # whether a unit has put the whole parameter there
        tie.places.append(self)

    @property
    def part(self) -> Any:
        """The part that was found last."""
        return self.tie.part

    def find(self) -> Any:
        """The part that the modules have now, put under all its names again, in other units too."""
        tie = self.tie
        places = [place for place in tie.places if not place.is_whole]
        found = [owner._parameters.get(name) for place in places for owner, name in place.names]
        new = [part for part in found if part is not tie.part]
        if new:
            for part in new:
                self._check(part)
                if part is not new[0]:
                    self._require_equal(new[0], part)
            tie.part = new[0]
            for place in places:
                place.put(new[0])
        else:
            self._check(tie.part)
        tie.part.fully_sharded = True
        return tie.part

    def put(self, parameter: Any) -> None:
        """Give a tensor all the names."""
        for owner, name in self.names:
            owner._parameters[name] = parameter

    def put_whole(self, parameter: Tensor) -> None:
        """Give the whole parameter all the names, for a call."""
        self.is_whole = True
        self.put(parameter)

    def put_back(self) -> None:
        """Give the part all the names again."""
        self.is_whole = False
        self.put(self.part)

    def _check(self, part: Any) -> None:
        name = self.names[0][1]
        if not isinstance(part, DTensor):
            raise RuntimeError(
                f"fully_shard: parameter {name!r} was "
                f"{'taken away' if part is None else 'replaced by a plain tensor'}. Load whole "
                "tensors with checkpoint.state_dict.set_model_state_dict, or distribute_tensor "
                "them first."
            )
        if part._layout != self.layout:
            layout = self.layout
            raise RuntimeError(
                f"fully_shard: parameter {name!r} was replaced by a DTensor of shape "
                f"{tuple(part.shape)} placed {part.placements} on {part.device_mesh}; wanted "
                f"{tuple(layout.shape)}, {layout.shown()} on {layout.mesh}. Use redistribute."
            )
        if self.on_host:
            require_on_host(name, part)

    def _require_equal(self, one: Any, other: Any) -> None:
        """Refuse two parts of different elements for what is one parameter."""
        if one._storage is other._storage or "meta" in (one.device.type, other.device.type):
            return
        with no_grad():
            alike = one.dtype is other.dtype and equal(part_of(one), part_of(other))
        if not alike:
            first, second = self.names[0][1], self.names[-1][1]
            raise RuntimeError(
                f"fully_shard: {first!r} and {second!r} are names of one parameter, and were "
                "replaced by tensors that differ"
            )

    def mark(self) -> tuple[Storage, int]:
        """What tells whether the part is replaced or written to from now on."""
        return self.part._storage, self.part._storage.version

    def refuse_changes(self, mark: tuple[Storage, int]) -> None:
        """Raise if a part is not the one that was marked, as it was then."""
        storage = self.part._storage
        if storage is not mark[0] or storage.version != mark[1]:
            raise RuntimeError(
                f"fully_shard: parameter {self.names[0][1]!r} (shape {tuple(self.layout.shape)}) "
                "was changed between forward and backward, which gathers it again. Change it after "
                "backward, or keep what forward has gathered: reshard_after_forward=False."
            )

    def refuse_writes(self, whole: Tensor, version: int) -> None:
        """Raise if forward has written to or replaced what was gathered, which is lost."""
        for owner, name in self.names:
            if owner._parameters.get(name) is not whole or whole._storage.version != version:
                raise RuntimeError(
                    f"fully_shard: forward wrote to parameter {name!r}. That is lost, as it was "
                    "gathered for this call. Write to the part, outside of forward."
                )
