"""Collectives as operations: with derivatives, and nodes of a captured program.

A group is named by a string, so that a recorded program can be kept and printed. The derivative
of a collective is a collective, so every member must also run its backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.distributed.communication.reduce_op import RedOpType
from adjoint.distributed.groups.group import ProcessGroup, resolve
from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.families import linear, primitive
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor


def _same(x: Spec, **_: Any) -> Spec:
    return x


def _refuse_batch(name: str) -> Any:
    def batch(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            f"{name}: inside vmap there is one process, so a collective cannot be batched. Call it "
            "outside, on the whole batch."
        )

    return batch


def _collective(family: Any, name: str, infer: Any, *rules: Any) -> Record:
    return family(name, infer, *rules, batch=_refuse_batch(name), communicates=True)


# Each member's cotangent reaches every member's operand: the transpose of a sum is a sum.
ALL_REDUCE: Record = _collective(
    primitive, "all_reduce", _same,
    lambda g, x, out, op, group: _all_reduce_vjp(g, x, out, op, group),
)  # fmt: skip
BROADCAST: Record = _collective(
    linear, "broadcast_from", _same, lambda g, root, group: REDUCE(g, root=root, group=group)
)
REDUCE: Record = _collective(
    linear, "reduce_to", _same, lambda g, root, group: BROADCAST(g, root=root, group=group)
)
ALL_GATHER: Record = _collective(
    linear,
    "all_gather",
    lambda x, group: Spec((resolve(group).size(), *x.shape), x.dtype, x.device),
    lambda g, group: REDUCE_SCATTER(g, group=group),
)
REDUCE_SCATTER: Record = _collective(
    linear,
    "reduce_scatter",
    lambda x, group: Spec(x.shape[1:], x.dtype, x.device),
    lambda g, group: ALL_GATHER(g, group=group),
)
# The same in two halves, for gradients: what is recorded between them is computed meanwhile. The
# number that the first gives stands for the message under way.
BEGIN_ALL_REDUCE: Record = _collective(
    primitive, "begin_all_reduce", lambda x, op, group: Spec((1,), int64, x.device)
)
END_ALL_REDUCE: Record = _collective(
    primitive,
    "end_all_reduce",
    lambda number, shape, dtype, group: Spec(tuple(shape), dtype, number.device),
)
ALL_TO_ALL: Record = _collective(
    linear, "all_to_all", _same, lambda g, group: ALL_TO_ALL(g, group=group)
)


# The same with rows of different numbers: `gives` for each member, `takes` from each.
EXCHANGE: Record = _collective(
    linear,
    "exchange",
    lambda x, gives, takes, group: Spec((sum(takes), *x.shape[1:]), x.dtype, x.device),
    lambda g, gives, takes, group: EXCHANGE(g, gives=takes, takes=gives, group=group),
)


def _all_reduce_vjp(g: Any, x: Any, out: Any, op: str, group: str) -> Any:
    total = ALL_REDUCE(g, op="sum", group=group)
    match op:
        case "sum":
            return total
        case "avg":
            return total / resolve(group).size()
        case "product":  # not out / x, which may be zero by zero
            place, rows = resolve(group).rank(), ALL_GATHER(x, group=group)
            return total * cat([rows[:place], rows[place + 1 :]]).prod(0)
        case "min" | "max":
            mine = (x == out).to(g.dtype)
            return total * mine / ALL_REDUCE(mine, op="sum", group=group)
        case _:
            raise NotImplementedError(f"all_reduce: {op} has no derivative")


def all_reduce(tensor: Tensor, op: Any, group: ProcessGroup) -> Tensor:
    """The members' tensors combined, as a new tensor."""
    if isinstance(op, RedOpType):
        return ALL_REDUCE(tensor, op=op.value, group=group.group_name)
    return ALL_REDUCE(tensor * op.factor, op="sum", group=group.group_name)


def begin_all_reduce(tensor: Tensor, op: RedOpType, group: ProcessGroup) -> Tensor:
    """Begin to combine the members' tensors; without a derivative. `end_all_reduce` gives them."""
    return BEGIN_ALL_REDUCE(tensor, op=op.value, group=group.group_name)


def end_all_reduce(number: Tensor, like: Tensor, group: ProcessGroup) -> Tensor:
    """What `begin_all_reduce` has begun, waited for."""
    return END_ALL_REDUCE(number, shape=tuple(like.shape), dtype=like.dtype, group=group.group_name)


def broadcast(tensor: Tensor, root: int, group: ProcessGroup) -> Tensor:
    """The tensor of one member."""
    return BROADCAST(tensor, root=root, group=group.group_name)


def reduce(tensor: Tensor, root: int, group: ProcessGroup) -> Tensor:
    """The sum of the members' tensors on one member, zeros on the others."""
    return REDUCE(tensor, root=root, group=group.group_name)


def all_gather(tensor: Tensor, group: ProcessGroup) -> Tensor:
    """The members' tensors stacked along a new first dimension."""
    return ALL_GATHER(tensor, group=group.group_name)


def reduce_scatter(rows: Tensor, op: Any, group: ProcessGroup) -> Tensor:
    """Row r of the members' tensors, summed, on member r."""
    if op not in (RedOpType.SUM, RedOpType.AVG):
        raise NotImplementedError(
            f"reduce_scatter: as an operation it is sum or avg, received {op.value}"
        )
    total = REDUCE_SCATTER(rows, group=group.group_name)
    return total / group.size() if op is RedOpType.AVG else total


def all_to_all(rows: Tensor, group: ProcessGroup) -> Tensor:
    """Row r goes to member r; the rows received, in the members' order."""
    return ALL_TO_ALL(rows, group=group.group_name)


def exchanged(
    tensor: Tensor, takes: Sequence[int] | None, gives: Sequence[int] | None, group: ProcessGroup
) -> Tensor:
    """Rows given to every member, and those received joined; equal numbers unless given."""
    size = group.size()
    rows = tensor.shape[0]
    if not gives and rows % size:
        raise ShapeError(
            f"all_to_all_single: {tuple(tensor.shape)} cannot be divided equally among {size} "
            "members; pass input_split_sizes"
        )
    sent = tuple(gives) if gives else (rows // size,) * size
    received = tuple(takes) if takes else (rows // size,) * size
    if sum(sent) != rows or len(sent) != size or len(received) != size:
        raise ShapeError(
            f"all_to_all_single: input_split_sizes {list(sent)} and output_split_sizes "
            f"{list(received)} must be {size} numbers each, the former with the sum {rows}"
        )
    return EXCHANGE(tensor, gives=sent, takes=received, group=group.group_name)
