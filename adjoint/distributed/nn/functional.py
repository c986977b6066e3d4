"""Collective operations that return their results, for a group of one process.

Each gives a new tensor on the tape of what it was given.
"""

from __future__ import annotations

from typing import Any

from adjoint.distributed import ReduceOp
from adjoint.engine.core.state.processes import default_group
from adjoint.engine.tensor.tensor import Tensor


def _of_one(tensor: Tensor) -> Tensor:
    default_group()
    return tensor.clone()


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The processes' tensors combined.

    >>> import adjoint as ad
    >>> import adjoint.distributed as dist
    >>> import adjoint.distributed.nn as dist_nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> dist_nn.all_reduce(x * 3).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    >>> dist.destroy_process_group()
    """
    return _of_one(tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes."""
    return (_of_one(tensor),)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, for one of them."""
    return (_of_one(tensor),)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The processes' tensors combined, for one of them."""
    return _of_one(tensor)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of one process."""
    return _of_one(tensor)
