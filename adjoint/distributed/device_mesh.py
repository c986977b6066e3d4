"""Processes arranged in a grid, one group along each of its lines."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.distributed.groups.group import get_process_group_ranks, is_member, new_group
from adjoint.distributed.groups.start import init_process_group, is_initialized
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.state.processes import default_group
from adjoint.engine.tensor.tensor import Tensor


class DeviceMesh:
    """A grid of processes; every process makes it, in the same order.

    Args:
        device_type: the kind of device tensors are on.
        mesh: the ranks, as a nested list or tensor.
        mesh_dim_names: a name for each dimension.

    Example:
        >>> import adjoint.distributed as dist
        >>> dist.init_process_group("gloo")
        >>> mesh = DeviceMesh("cpu", [0], mesh_dim_names=("dp",))
        >>> mesh.size(), mesh["dp"].get_local_rank()
        (1, 0)
        >>> dist.destroy_process_group()
    """

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None,
        _groups: list[Any] | None = None,
    ) -> None:  # fmt: skip
        self.device_type = device_type
        self._ranks = np.asarray(mesh.tolist() if isinstance(mesh, Tensor) else mesh, np.int64)
        if self._ranks.ndim == 0:
            self._ranks = self._ranks.reshape(1)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self._ranks.ndim:
            raise RuntimeError(
                f"DeviceMesh: {len(self.mesh_dim_names)} names for {self._ranks.ndim} dimensions"
            )
        if self.mesh_dim_names is not None and len(set(self.mesh_dim_names)) != self._ranks.ndim:
            raise RuntimeError(
                f"DeviceMesh: Each mesh_dim_name must be unique, received {self.mesh_dim_names}"
            )
        if len(set(self._ranks.ravel().tolist())) != self._ranks.size:
            raise ValueError(f"DeviceMesh: a rank is in the mesh twice: {self._ranks.tolist()}")
        self._groups = self._make_groups() if _groups is None else _groups
        self._parent: DeviceMesh | None = None  # the mesh that this is some dimensions of
        # Places in the whole mesh from one process to the next along each dimension.
        self._steps = tuple(math.prod(self.shape[dim + 1 :]) for dim in range(self.ndim))
        self._flattened: dict[str, tuple[tuple[int, ...], Any]] = {}  # dimensions, and their group

    def _make_groups(self) -> list[Any]:
        groups: list[Any] = []
        everyone = self._ranks.ndim == 1 and self._ranks.size == default_group().size()
        for dim in range(self._ranks.ndim):
            if everyone and self._ranks.tolist() == sorted(self._ranks.tolist()):
                groups.append(default_group())
                continue
            mine = None
            others = [range(n) for d, n in enumerate(self._ranks.shape) if d != dim]
            for at in itertools.product(*others):
                index: list[Any] = list(at)
                index.insert(dim, slice(None))
                group = new_group(
                    self._ranks[tuple(index)].tolist(), use_local_synchronization=True
                )
                mine = group if is_member(group) else mine
            groups.append(mine)
        return groups

    @property
    def mesh(self) -> Tensor:
        """The ranks."""
        return from_numpy(self._ranks.copy())

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes there are along each dimension."""
        return tuple(self._ranks.shape)

    def size(self, mesh_dim: int | str | None = None) -> int:
        """How many processes there are, in all or along a dimension."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[self._dim(mesh_dim)]

    def _dim(self, given: int | str | None) -> int:
        if given is None:
            if self.ndim != 1:
                raise RuntimeError(f"a mesh of {self.ndim} dimensions: say which (mesh_dim=)")
            return 0
        if isinstance(given, str):
            if self.mesh_dim_names is None or given not in self.mesh_dim_names:
                raise KeyError(f"no dimension of the mesh is called {given!r}")
            return self.mesh_dim_names.index(given)
        return given

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The processes along a dimension that this one is among."""
        return self._groups[self._dim(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """The groups of all dimensions."""
        return list(self._groups)

    def get_rank(self) -> int:
        """This process's rank in the world."""
        return default_group().rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """This process's place in the mesh; None if it is not in it."""
        places = np.argwhere(self._ranks == self.get_rank())
        return tuple(places[0].tolist()) if len(places) else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's place along a dimension."""
        place = self.get_coordinate()
        if place is None:
            raise RuntimeError("this process is not in the mesh")
        return place[self._dim(mesh_dim)]

    def _dims(self, name: str) -> tuple[int, ...]:
        """The dimensions that a name stands for: one, or those that were flattened."""
        return self._flattened[name][0] if name in self._flattened else (self._dim(name),)

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the mesh along named dimensions that this process is in."""
        given = (names,) if isinstance(names, str) else tuple(names)
        lines = [self._dims(name) for name in given]
        dims = [dim for line in lines for dim in line]
        if dims != sorted(set(dims)):
            raise KeyError(f"{given}: expected different dimensions, in the mesh's order")
        place: list[Any] = list(self.get_coordinate() or [0] * self.ndim)
        for dim in dims:
            place[dim] = slice(None)
        shape = [math.prod(self.shape[dim] for dim in line) for line in lines]
        groups = [
            self._flattened[name][1] if name in self._flattened else self._groups[line[0]]
            for name, line in zip(given, lines, strict=True)
        ]
        part = DeviceMesh(
            self.device_type,
            self._ranks[tuple(place)].reshape(shape),
            mesh_dim_names=given,
            _groups=groups,
        )
        part._parent, part._steps = self, tuple(self._steps[line[-1]] for line in lines)
        return part

    def joined(self, inner: DeviceMesh) -> DeviceMesh:
        """The mesh of this line's dimension and another's, of which both were taken."""
        parent, outer, names = self._parent, self.mesh_dim_names, inner.mesh_dim_names
        if parent is None or parent is not inner._parent or outer is None or names is None:
            raise RuntimeError(
                "two meshes can be used together only if both are dimensions of one: make it with "
                'init_device_mesh(..., mesh_dim_names=("dp", "tp")) and take mesh["dp"], mesh["tp"]'
            )
        return parent[(*outer, *names)]

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """All its processes in one line, by which the mesh it was taken from knows them too.

        Every process of that mesh calls it.
        """
        root = self if self._parent is None else self._parent
        names = self.mesh_dim_names
        if names is None:
            return DeviceMesh(self.device_type, self._ranks.reshape(-1))
        name = mesh_dim_name or "_".join(names)
        if self.ndim == 1 and name == names[0]:
            return self
        dims = tuple(dim for own in names for dim in root._dims(own))
        if name in (root.mesh_dim_names or ()) or root._flattened.get(name, (dims,))[0] != dims:
            raise ValueError(f"DeviceMesh: a dimension of the mesh is called {name!r} already")
        if name not in root._flattened:
            root._flattened[name] = (dims, root._line(dims))
        return root[name]

    def _line(self, dims: tuple[int, ...]) -> Any:
        """The group of those that differ from this process in some dimensions only."""
        rest = [dim for dim in range(self.ndim) if dim not in dims]
        lines = self._ranks.transpose(*rest, *dims).reshape(
            -1, math.prod(self.shape[dim] for dim in dims)
        )
        own = None
        for ranks in lines:
            group = new_group(ranks.tolist(), use_local_synchronization=True)
            own = group if is_member(group) else own
        return own

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:  # fmt: skip
        """A mesh on a group that is there already, or on one for each dimension of `mesh`."""
        if isinstance(group, list | tuple):
            if mesh is None or mesh_dim_names is None:
                raise ValueError("DeviceMesh.from_group: several groups need mesh and names")
            return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=list(group))
        ranks = get_process_group_ranks(group) if mesh is None else mesh
        return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _groups=[group])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return (
            self.device_type == other.device_type
            and np.array_equal(self._ranks, other._ranks)
            and self.mesh_dim_names == other.mesh_dim_names
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self._ranks.tobytes(), self._ranks.shape))

    def __repr__(self) -> str:
        sizes = str(self.shape)
        if self.mesh_dim_names is not None:
            named = zip(self.mesh_dim_names, self.shape, strict=True)
            sizes = f"({', '.join(f'{name}={size}' for name, size in named)})"
        steps = zip(self.shape, self._steps, strict=True)
        strides = tuple(() if size == 1 else step for size, step in steps)  # as PyTorch has them
        text = f"DeviceMesh({sizes}, {self.device_type!r}, stride={strides}"
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL":
            text += f", Mesh: {self._ranks.tolist()}"
        return text + ")"


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None
) -> DeviceMesh:
    """A mesh of all processes, in the order of their ranks."""
    if not is_initialized():
        init_process_group()
    size = default_group().size()
    if math.prod(mesh_shape) != size:
        raise RuntimeError(
            f"init_device_mesh: {tuple(mesh_shape)} is of {math.prod(mesh_shape)} processes, but "
            f"there are {size}"
        )
    ranks = np.arange(size).reshape(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
