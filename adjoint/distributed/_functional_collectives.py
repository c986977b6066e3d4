"""Collectives that return new tensors, with derivatives: PyTorch's functional ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.distributed.communication import operations
from adjoint.distributed.communication.collectives import check_reduction
from adjoint.distributed.groups.group import resolve
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The members' tensors combined: "sum", "avg", "max", ..."""
    return operations.all_reduce(
        self, check_reduction("all_reduce", self, reduceOp), resolve(group)
    )


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The members' tensors joined along a dimension."""
    rows = operations.all_gather(self, resolve(group))
    return cat(list(rows.unbind(0)), gather_dim)


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """The members' tensors combined, of which each gets a part along a dimension."""
    chosen = resolve(group)
    rows = stack(list(self.chunk(chosen.size(), scatter_dim)))
    return operations.reduce_scatter(
        rows, check_reduction("reduce_scatter_tensor", self, reduceOp), chosen
    )


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of one member, by its rank in the world."""
    chosen = resolve(group)
    return operations.broadcast(self, chosen.ranks.index(src), chosen)


def all_to_all_single(
    self: Tensor, output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None, group: Any, tag: str = "",
) -> Tensor:  # fmt: skip
    """Parts of the first dimension exchanged with every member; differentiable."""
    return operations.exchanged(self, output_split_sizes, input_split_sizes, resolve(group))


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """Each member's tensor, given to another: that of member i to member `src_dst[i]`."""
    chosen = resolve(group)
    if sorted(src_dst) != list(range(chosen.size())):
        raise ValueError(f"permute_tensor: {list(src_dst)} is no permutation of the members")
    length = self.shape[0] if self.ndim else 1
    mine = chosen.rank()
    gives = [length if to == src_dst[mine] else 0 for to in range(chosen.size())]
    takes = [length if src_dst[source] == mine else 0 for source in range(chosen.size())]
    rows = self.reshape(length, *self.shape[1:])
    return operations.exchanged(rows, takes, gives, chosen).reshape(self.shape)


def all_reduce_coalesced(
    self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = ""
) -> list[Tensor]:
    """`all_reduce` of several tensors."""
    return [all_reduce(tensor, reduceOp, group, tag) for tensor in self]


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: Any, tag: str = ""
) -> list[Tensor]:
    """`all_gather_tensor` of several tensors, along their first dimension."""
    return [all_gather_tensor(tensor, 0, group, tag) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """`reduce_scatter_tensor` of several tensors."""
    pairs = zip(inputs, scatter_dim, strict=True)
    return [reduce_scatter_tensor(tensor, reduceOp, dim, group, tag) for tensor, dim in pairs]


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: it is there already."""
    return tensor


# What PyTorch calls so has the derivative that these have in any case.
all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
