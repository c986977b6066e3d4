"""How a tensor lies on the processes along one dimension of a mesh."""

from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """Whole everywhere, a part on each process, or a sum that is not made yet."""

    __slots__ = ()

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part (along `dim`)."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether every process has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self) -> bool:
        """Whether the whole is the sum of what processes have."""
        return isinstance(self, Partial)


@dataclass(frozen=True, slots=True)
class Shard(Placement):
    """Each process has a part along a dimension.

    >>> Shard(0).is_shard(0)
    True
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, slots=True, repr=False)
class _StridedShard(Placement):
    """Each process has a part along a dimension that later mesh dimensions have cut before.

    `fully_shard` of a module that is divided by `parallelize_module` makes them. `split_factor` is
    how many parts those others have made.

    >>> _StridedShard(0, split_factor=2)
    _StridedShard(dim=0, sf=2)
    """

    dim: int
    split_factor: int

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"


@dataclass(frozen=True, slots=True)
class Replicate(Placement):
    """Every process has the whole."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True, repr=False)
class Partial(Placement):
    """The whole is the sum of what processes have."""

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"
