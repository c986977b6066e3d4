"""Collectives that return their results, with derivatives: `torch.distributed.nn.functional`.

Every member must run backward too: the derivative of a collective is a collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.distributed.communication import operations
from adjoint.distributed.communication.collectives import check_reduction, root_of
from adjoint.distributed.communication.reduce_op import ReduceOp
from adjoint.distributed.groups.group import resolve
from adjoint.engine.core.dtype import bool_
from adjoint.engine.ops.create.creation import ones
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The members' tensors combined.

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
    return operations.all_reduce(tensor, check_reduction("all_reduce", tensor, op), resolve(group))


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all members."""
    return tuple(operations.all_gather(tensor, resolve(group)).unbind(0))


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all members for one of them; zeros for the others."""
    chosen = resolve(group)
    gathered = operations.all_gather(tensor, chosen)
    if chosen.rank() != root_of("gather", chosen, dst, None):
        gathered = gathered.masked_fill(ones((), dtype=bool_, device=gathered.device), 0)
    return tuple(gathered.unbind(0))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Of the tensors of one member, this member's."""
    chosen = resolve(group)
    whole = operations.broadcast(
        stack(list(tensors)), root_of("scatter", chosen, src, None), chosen
    )
    return whole[chosen.rank()]


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The members' tensors summed, for one of them; zeros for the others."""
    chosen = resolve(group)
    if op is not ReduceOp.SUM:
        raise NotImplementedError("distributed.nn.reduce: only ReduceOp.SUM is supported")
    return operations.reduce(tensor, root_of("reduce", chosen, dst, None), chosen)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The members' lists combined, of which this member gets its place's tensor."""
    return operations.reduce_scatter(stack(list(input_list)), op, resolve(group))


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """A tensor for every member, exchanged for one from each; all of one shape."""
    exchanged = operations.all_to_all(stack(list(input_tensor_list)), resolve(group))
    return tuple(exchanged.unbind(0))


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: Any = None,
) -> Tensor:  # fmt: skip
    """Parts of the first dimension exchanged with every member."""
    received = operations.exchanged(input, output_split_sizes, input_split_sizes, resolve(group))
    return received.reshape(output.shape)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of one member."""
    chosen = resolve(group)
    return operations.broadcast(tensor, root_of("broadcast", chosen, src, None), chosen)
