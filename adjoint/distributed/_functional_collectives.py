"""Collectives that return new tensors, with derivatives: PyTorch's functional ones."""

from __future__ import annotations

from typing import Any

from adjoint.distributed import operations
from adjoint.distributed.collectives import check_reduction
from adjoint.distributed.group import resolve
from adjoint.engine.ops.shape.join import cat
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
    from adjoint.engine.ops.shape.join import stack

    chosen = resolve(group)
    rows = stack(list(self.chunk(chosen.size(), scatter_dim)))
    return operations.reduce_scatter(
        rows, check_reduction("reduce_scatter_tensor", self, reduceOp), chosen
    )


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of one member, by its rank in the world."""
    chosen = resolve(group)
    return operations.broadcast(self, chosen.ranks.index(src), chosen)


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: it is there already."""
    return tensor
