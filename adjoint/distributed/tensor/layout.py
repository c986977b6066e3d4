"""How a tensor lies on a mesh of processes, and how it is moved from one layout to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from adjoint.distributed.device_mesh import DeviceMesh
from adjoint.distributed.tensor.moves import COPIED, DIVIDED, GATHERED, SUMMED
from adjoint.distributed.tensor.placement import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.spec import Size
from adjoint.engine.ops.image.pad_modes import pad
from adjoint.engine.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class MeshLayout:
    """The whole tensor's shape, and its placement along each dimension of a mesh.

    `order` says which mesh dimension cuts first where two cut the same tensor dimension: the
    mesh's own order, but for a module that was divided by `parallelize_module` before
    `fully_shard` divided the parts again.
    """

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: Size
    order: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        if len(self.placements) != self.mesh.ndim:
            raise ValueError(
                f"DTensor: {len(self.placements)} placements for a mesh of {self.mesh.ndim} "
                "dimension(s); give one for each"
            )
        if not self.order:
            object.__setattr__(self, "order", self._order_of_cuts())
        fixed = tuple(self._counted(p) for p in self.placements)
        object.__setattr__(self, "placements", fixed)

    def _counted(self, placement: Placement) -> Placement:
        """A placement whose dimension counts from the front."""
        if not isinstance(placement, (Shard, _StridedShard)):
            return placement
        ndim = len(self.shape)
        if not -ndim <= placement.dim < ndim:
            raise ShapeValueError(
                f"DTensor: {placement!r} of a tensor with {ndim} dimension(s) {tuple(self.shape)}"
            )
        return Shard(placement.dim % ndim)

    def _order_of_cuts(self) -> tuple[int, ...]:
        """The mesh's own order, but for strided cuts: they come after those of later dimensions."""
        order = list(range(self.mesh.ndim))
        for at, placement in reversed(list(enumerate(self.placements))):
            if not isinstance(placement, _StridedShard):
                continue
            before = self._later_cuts(at, placement.dim)
            parts = math.prod(self.mesh.size(other) for other in before)
            if parts != placement.split_factor:
                raise NotImplementedError(
                    f"DTensor: {placement!r} (mesh dimension {at}), but later mesh dimensions cut "
                    f"its tensor dimension in {parts}; split_factor must be that"
                )
            order.remove(at)
            order.insert(max((order.index(other) for other in before), default=at - 1) + 1, at)
        return tuple(order)

    def _later_cuts(self, at: int, dim: int) -> list[int]:
        """Mesh dimensions after one that cut the same dimension of the tensor."""
        ndim = len(self.shape)
        return [
            other
            for other in range(at + 1, self.mesh.ndim)
            if isinstance(cut := self.placements[other], (Shard, _StridedShard))
            and (cut.dim - dim) % ndim == 0
        ]

    def shown(self) -> tuple[Placement, ...]:
        """Placements that tell the order of cuts as well, as `_StridedShard`."""
        shown = list(self.placements)
        for at, placement in enumerate(self.placements):
            if isinstance(placement, Shard):
                place = self.order.index(at)
                others = self._later_cuts(at, placement.dim)
                before = [other for other in others if self.order.index(other) < place]
                if before:
                    parts = math.prod(self.mesh.size(other) for other in before)
                    shown[at] = _StridedShard(placement.dim, parts)
        return tuple(shown)

    def with_placements(
        self, placements: Sequence[Placement], order: tuple[int, ...] | None = None
    ) -> MeshLayout:
        """The same tensor placed otherwise."""
        return replace(self, placements=tuple(placements), order=order or self.order)

    def like(self, placements: Sequence[Placement], shape: Sequence[int]) -> MeshLayout:
        """Another tensor's layout on the same mesh."""
        return MeshLayout(self.mesh, tuple(placements), Size(shape), self.order)

    def replicated(self, shape: Sequence[int] | None = None) -> MeshLayout:
        """The layout of a tensor that is whole everywhere."""
        whole = self.shape if shape is None else shape
        return self.like([Replicate()] * self.mesh.ndim, whole)

    def cuts(self) -> list[tuple[int, int]]:
        """(mesh dimension, tensor dimension) of each cut, in the order in which they are made."""
        cuts = []
        for at in self.order:
            placement = self.placements[at]
            if isinstance(placement, Shard):
                cuts.append((at, placement.dim))
        return cuts

    def sizes(self) -> list[tuple[int, ...]]:
        """The local shape after none, one, ... of the cuts; the last is what this process has."""
        shapes: list[tuple[int, ...]] = [tuple(self.shape)]
        for at, dim in self.cuts():
            shape = list(shapes[-1])
            start, stop = chunk_of(shape[dim], self.mesh.size(at), self.mesh.get_local_rank(at))
            shape[dim] = stop - start
            shapes.append(tuple(shape))
        return shapes

    def starts(self) -> tuple[int, ...]:
        """Where this process's part begins in the whole, where its cuts are of one dimension each.

        >>> from adjoint.distributed import DeviceMesh, destroy_process_group, init_process_group
        >>> init_process_group("gloo")
        >>> MeshLayout(DeviceMesh("cpu", [0]), (Shard(0),), Size((4, 2))).starts()
        (0, 0)
        >>> destroy_process_group()
        """
        starts = [0] * len(self.shape)
        for (at, dim), before in zip(self.cuts(), self.sizes(), strict=False):
            start, _ = chunk_of(before[dim], self.mesh.size(at), self.mesh.get_local_rank(at))
            starts[dim] += start
        return tuple(starts)

    @property
    def divided(self) -> bool:
        """Whether some process has less than the whole."""
        return any(not isinstance(p, Replicate) for p in self.placements)

    def group(self, at: int) -> str:
        """The name of the group along a dimension of the mesh."""
        return str(self.mesh.get_group(at).group_name)


def chunk_of(length: int, parts: int, number: int) -> tuple[int, int]:
    """Which elements part `number` has, as `chunk` cuts: the first parts are full.

    >>> [chunk_of(5, 3, i) for i in range(3)]
    [(0, 2), (2, 4), (4, 5)]
    """
    size = math.ceil(length / parts)
    return min(number * size, length), min((number + 1) * size, length)


def padded(x: Tensor, dim: int, length: int) -> Tensor:
    """A tensor with zeros after its end along a dimension, up to a length."""
    missing = length - x.shape[dim]
    if not missing:
        return x
    return pad(x, [0, 0] * (x.ndim - 1 - dim) + [0, missing])  # the last dimension comes first


def gather(x: Tensor, dim: int, whole: int, parts: int, group: str) -> Tensor:
    """Everybody's parts along a dimension, joined to its `whole` length."""
    size = math.ceil(whole / parts)
    if size == 0:
        return x
    joined = GATHERED(padded(x, dim, size).contiguous(), dim=dim, group=group)
    return joined.narrow(dim, 0, whole)


def divide(x: Tensor, dim: int, parts: int, number: int, group: str) -> Tensor:
    """This process's part along a dimension."""
    whole = x.shape[dim]
    size = math.ceil(whole / parts)
    start, stop = chunk_of(whole, parts, number)
    if size == 0:
        return x
    part = DIVIDED(padded(x, dim, size * parts).contiguous(), dim=dim, group=group)
    return part.narrow(dim, 0, stop - start)


def move(local: Tensor, now: MeshLayout, then: MeshLayout) -> Tensor:
    """This process's part of a tensor in another layout, from its part in this one."""
    if now.mesh != then.mesh:
        raise NotImplementedError(
            f"redistribute: from {now.mesh} to another mesh, {then.mesh}, is not supported. Take "
            "the whole with full_tensor() and distribute it."
        )
    for at, (old, new) in enumerate(zip(now.placements, then.placements, strict=True)):
        if isinstance(new, Partial) and old != new:
            raise RuntimeError(
                f"redistribute: from {old!r} to {new!r} (mesh dimension {at}) is not possible: a "
                "sum that is made cannot be taken apart"
            )
        if isinstance(old, Partial) and old != new:
            local = _summed(local, old, now.mesh.size(at), now.group(at))
    have, want = now.cuts(), then.cuts()
    common = 0
    while common < min(len(have), len(want)) and have[common] == want[common]:
        common += 1
    sizes = now.sizes()
    for position in reversed(range(common, len(have))):
        at, dim = have[position]
        local = gather(local, dim, sizes[position][dim], now.mesh.size(at), now.group(at))
    for at, dim in want[common:]:
        number = then.mesh.get_local_rank(at)
        local = divide(local, dim, then.mesh.size(at), number, then.group(at))
    return local


def _summed(local: Tensor, partial: Partial, size: int, group: str) -> Tensor:
    if partial.reduce_op not in ("sum", "avg"):
        raise NotImplementedError(f"redistribute: {partial!r} is not supported; use sum or avg")
    total = SUMMED(local, group=group)
    return total / size if partial.reduce_op == "avg" else total


def shared(local: Tensor, layout: MeshLayout, dims: Sequence[int]) -> Tensor:
    """A whole operand of work that is divided over mesh dimensions: its cotangents are summed."""
    if not local.requires_grad:
        return local
    for at in dims:
        local = COPIED(local, group=layout.group(at))
    return local
