"""Collectives: what every member of a group calls together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjoint.distributed.communication import operations
from adjoint.distributed.communication.buffers import describe, parts, require_tensor
from adjoint.distributed.communication.progress import PROGRESS, CollectiveCall
from adjoint.distributed.communication.reduce_op import RedOpType, ReduceOp, kind_of
from adjoint.distributed.communication.ways import HostWay, way_for
from adjoint.distributed.communication.work import Work, settle
from adjoint.distributed.constants import seconds_of
from adjoint.distributed.errors import DistBackendError
from adjoint.distributed.groups.group import ProcessGroup, get_group_rank, is_member, resolve
from adjoint.engine.backends.array.gpu.cuda import is_available, synchronize
from adjoint.engine.core.errors import DTypeError, ShapeError
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor

BITWISE = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)


def recorded(*tensors: Any) -> bool:
    """Whether a collective becomes an operation of a captured program or a transform."""
    return CONTEXT.capture is not None or any(
        isinstance(t, Tensor) and t._storage.level is not None for t in tensors
    )


def skips(group: Any, name: str) -> bool:
    """Whether this process has no part in a group's collective; PyTorch warns of it too."""
    if is_member(group):
        return False
    warnings.warn(f"{name}: this process is not a member of the group", stacklevel=3)
    return True


def root_of(name: str, group: ProcessGroup, root: int | None, group_root: int | None) -> int:
    """The place in the group of a source or destination given as a rank of the world."""
    if group_root is not None:
        if root is not None:
            raise ValueError(f"{name}: pass a rank of the world or of the group, not both")
        return group_root
    return get_group_rank(group, 0 if root is None else root)


def check_reduction(name: str, tensor: Tensor, op: Any) -> Any:
    """The kind of reduction, refused where a dtype has none."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: expected a Tensor, received {type(tensor).__name__}")
    kind = kind_of(op)
    dtype = tensor.dtype
    exact = not (dtype.is_floating_point or dtype.is_complex)
    if kind in BITWISE and not exact:
        raise DTypeError(f"{name}: {kind.value} is of integers and booleans, received {dtype}")
    if kind is RedOpType.AVG and exact:
        raise DTypeError(
            f"{name}: an average of {dtype} is no {dtype}. Use SUM and divide, or convert first."
        )
    if kind in (RedOpType.MIN, RedOpType.MAX) and dtype.is_complex:
        raise DTypeError(f"{name}: complex numbers have no order, so no {kind.value}")
    return kind


def begin(
    group: ProcessGroup, what: str, start: Any, finish: Any = None, timeout: float | None = None
) -> CollectiveCall:
    """Begin a collective of the host's; `start` is given the communicator."""
    return HostWay(group.channel).begin(what, start, finish, timeout)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Work | None:
    """Wait until every member of the group is here."""
    if skips(group, "barrier"):
        return None
    limit = None if timeout is None else seconds_of(timeout)
    if "nccl" in resolve(group).backend and is_available():
        synchronize()  # a barrier of GPUs is one for their work, too
    operation = begin(resolve(group), "barrier", lambda comm: comm.barrier(), None, limit)
    return settle(operation, async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """A barrier whose error names the ranks that did not come in time."""
    barrier(group, timeout=timeout)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the members' tensors, in place and on every member.

    Example:
        >>> import adjoint as ad, adjoint.distributed as dist
        >>> dist.init_process_group("gloo")
        >>> x = ad.ones(2)
        >>> dist.all_reduce(x, op=dist.ReduceOp.SUM)
        >>> x  # of one process
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    if skips(group, "all_reduce"):
        return None
    chosen = resolve(group)
    kind = check_reduction("all_reduce", tensor, op)
    if recorded(tensor):
        tensor.copy_(operations.all_reduce(tensor, kind, chosen))
        return Work(None, [tensor]) if async_op else None
    require_tensor("all_reduce", tensor)
    way = way_for(chosen, tensor)
    array, finish = way.written(tensor)
    what = f"all_reduce {kind.value} {describe(tensor)}"
    operation = way.begin(what, lambda comm: comm.all_reduce(array, kind), finish)
    return settle(operation, async_op, [tensor])


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine several tensors of the members, in place."""
    works = [all_reduce(t, op, group, True) for t in tensors]
    return together([w for w in works if w is not None], async_op)


def together(works: Sequence[Work], async_op: bool) -> Work | None:
    """Several collectives as one."""
    work = Works(works)
    if async_op:
        return work
    work.wait()
    return None


class Works(Work):
    """Several collectives under way."""

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__(None, [r for w in works for r in (w.result() or [])])
        self.works = list(works)

    def wait(self, timeout: Any = None) -> bool:
        for work in self.works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(w.is_completed() for w in self.works)


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[Works]:
    """Collectives inside go one after the other, as without it; `wait` has nothing left to do."""
    yield Works([])


def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Combine the members' tensors in one member's; the others' hold nothing of use after."""
    if skips(group, "reduce"):
        return None
    chosen = resolve(group)
    root = root_of("reduce", chosen, dst, group_dst)
    kind = check_reduction("reduce", tensor, op)
    require_tensor("reduce", tensor)
    way = way_for(chosen, tensor)
    array, finish = way.written(tensor)
    what = f"reduce {kind.value} to {root} {describe(tensor)}"
    operation = way.begin(what, lambda comm: comm.reduce(array, kind, root), finish)
    return settle(operation, async_op, [tensor])


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Give every member the tensor of one."""
    if skips(group, "broadcast"):
        return None
    chosen = resolve(group)
    root = root_of("broadcast", chosen, src, group_src)
    if recorded(tensor):
        tensor.copy_(operations.broadcast(tensor, root, chosen))
        return Work(None, [tensor]) if async_op else None
    require_tensor("broadcast", tensor)
    way = way_for(chosen, tensor)
    array, finish = way.written(tensor)
    what = f"broadcast from {root} {describe(tensor)}"
    operation = way.begin(what, lambda comm: comm.broadcast(array, root), finish)
    return settle(operation, async_op, [tensor])


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give every member the tensors of all, which must have one shape."""
    if skips(group, "all_gather"):
        return None
    chosen = resolve(group)
    check_list("all_gather", tensor_list, tensor, chosen.size())
    if recorded(tensor):
        for slot, part in zip(
            tensor_list, operations.all_gather(tensor, chosen).unbind(0), strict=True
        ):
            slot.copy_(part)
        return Work(None, list(tensor_list)) if async_op else None
    require_tensor("all_gather", tensor)
    way = way_for(chosen, tensor, *tensor_list)
    array = way.read(tensor)
    whole = way.xp.empty((chosen.size(), *array.shape), array.dtype)
    finish = parts(tensor_list, whole, way.put)
    what = f"all_gather {describe(tensor)}"
    operation = way.begin(what, lambda comm: comm.all_gather(whole, array), finish)
    return settle(operation, async_op, list(tensor_list))


def check_list(name: str, tensors: Sequence[Tensor], like: Tensor, size: int) -> None:
    """Refuse a list that does not fit one tensor per member."""
    for tensor in (like, *tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: expected a Tensor, received {type(tensor).__name__}")
    if len(tensors) != size:
        raise ValueError(f"{name}: expected {size} tensors, one per member, got {len(tensors)}")
    for tensor in tensors:
        if tensor.shape.numel() != like.shape.numel() or tensor.dtype != like.dtype:
            raise ValueError(
                f"{name}: expected tensors of {describe(like)}, received one of {describe(tensor)}"
            )


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give every member the tensors of all, joined (or stacked) along the first dimension."""
    if skips(group, "all_gather_into_tensor"):
        return None
    chosen = resolve(group)
    check_whole("all_gather_into_tensor", output_tensor, input_tensor, chosen.size())
    if recorded(input_tensor, output_tensor):
        gathered = operations.all_gather(input_tensor, chosen)
        output_tensor.copy_(gathered.reshape(output_tensor.shape))
        return Work(None, [output_tensor]) if async_op else None
    require_tensor("all_gather_into_tensor", output_tensor)
    require_tensor("all_gather_into_tensor", input_tensor)
    way = way_for(chosen, input_tensor, output_tensor)
    array = way.read(input_tensor)
    whole, finish = way.written(output_tensor)
    what = f"all_gather_into_tensor {describe(input_tensor)}"
    operation = way.begin(what, lambda comm: comm.all_gather(whole, array), finish)
    return settle(operation, async_op, [output_tensor])


def check_whole(name: str, whole: Tensor, part: Tensor, size: int) -> None:
    """Refuse a tensor that does not have `size` times the elements of another."""
    for tensor in (whole, part):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: expected a Tensor, received {type(tensor).__name__}")
    if whole.dtype != part.dtype or whole.shape.numel() != size * part.shape.numel():
        raise ValueError(
            f"{name}: {describe(whole)} does not hold {size} times {describe(part)}, one for "
            "each member"
        )


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]], input_tensor_list: Sequence[Tensor],
    group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """`all_gather` of several tensors."""
    works = [
        all_gather([row[i] for row in output_tensor_lists], tensor, group, True)
        for i, tensor in enumerate(input_tensor_list)
    ]
    return together([w for w in works if w is not None], async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the members' tensors and give each its part of the result."""
    if skips(group, "reduce_scatter_tensor"):
        return None
    chosen = resolve(group)
    check_whole("reduce_scatter_tensor", input, output, chosen.size())
    kind = check_reduction("reduce_scatter_tensor", input, op)
    if recorded(input, output):
        rows = input.reshape(chosen.size(), -1)
        output.copy_(operations.reduce_scatter(rows, kind, chosen).reshape(output.shape))
        return Work(None, [output]) if async_op else None
    require_tensor("reduce_scatter_tensor", output)
    require_tensor("reduce_scatter_tensor", input)
    way = way_for(chosen, input, output)
    array = way.read(input)
    part, finish = way.written(output)
    what = f"reduce_scatter_tensor {kind.value} {describe(input)}"
    operation = way.begin(what, lambda comm: comm.reduce_scatter(part, array, kind), finish)
    return settle(operation, async_op, [output])


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Combine the members' lists element by element and give each member its place's result."""
    if skips(group, "reduce_scatter"):
        return None
    chosen = resolve(group)
    check_list("reduce_scatter", input_list, output, chosen.size())
    kind = check_reduction("reduce_scatter", output, op)
    require_tensor("reduce_scatter", output)
    way = way_for(chosen, output, *input_list)
    whole = way.xp.stack([way.read(t).reshape(-1) for t in input_list])
    part, finish = way.written(output)
    what = f"reduce_scatter {kind.value} {describe(output)}"
    operation = way.begin(what, lambda comm: comm.reduce_scatter(part, whole, kind), finish)
    return settle(operation, async_op, [output])


def gather(
    tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int | None = None,
    group: Any = None, async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Give one member the tensors of all."""
    if skips(group, "gather"):
        return None
    chosen = resolve(group)
    root = root_of("gather", chosen, dst, group_dst)
    require_tensor("gather", tensor)
    way = way_for(chosen, tensor, *(gather_list or ()))
    array, finish, whole = way.read(tensor), None, None
    if chosen.rank() == root:
        check_list("gather", gather_list or [], tensor, chosen.size())
        whole = way.xp.empty((chosen.size(), *array.shape), array.dtype)
        finish = parts(gather_list or [], whole, way.put)
    elif gather_list:
        raise ValueError("gather: only the destination passes gather_list")
    what = f"gather to {root} {describe(tensor)}"
    operation = way.begin(what, lambda comm: comm.gather(whole, array, root), finish)
    return settle(operation, async_op, gather_list)


def scatter(
    tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int | None = None,
    group: Any = None, async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Give each member one of the tensors that one member has."""
    if skips(group, "scatter"):
        return None
    chosen = resolve(group)
    root = root_of("scatter", chosen, src, group_src)
    require_tensor("scatter", tensor)
    whole = None
    way = way_for(chosen, tensor, *(scatter_list or ()))
    if chosen.rank() == root:
        check_list("scatter", scatter_list or [], tensor, chosen.size())
        rows = [way.read(t).reshape(-1) for t in scatter_list or []]
        whole = way.xp.stack(rows)
    elif scatter_list:
        raise ValueError("scatter: only the source passes scatter_list")
    out, finish = way.written(tensor)
    what = f"scatter from {root} {describe(tensor)}"
    operation = way.begin(what, lambda comm: comm.scatter(out, whole, root), finish)
    return settle(operation, async_op, [tensor])


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send a part of the first dimension to every member, and join what they send."""
    if skips(group, "all_to_all_single"):
        return None
    chosen = resolve(group)
    require_tensor("all_to_all_single", output)
    require_tensor("all_to_all_single", input)
    gives = split_sizes("input", input, input_split_sizes, chosen.size())
    takes = split_sizes("output", output, output_split_sizes, chosen.size())
    if output_split_sizes or input_split_sizes:
        check_splits(chosen, gives, takes)
    row = int(np.prod(input.shape[1:], dtype=np.int64))
    way = way_for(chosen, input, output)
    array = way.read(input)
    out, finish = way.written(output)
    what = f"all_to_all_single {tuple(input.shape[1:])} {input.dtype}"
    operation = way.begin(
        what,
        lambda comm: comm.all_to_all(
            out, [n * row for n in takes], array, [n * row for n in gives]
        ),
        finish,
    )
    return settle(operation, async_op, [output])


def split_sizes(side: str, tensor: Tensor, given: Sequence[int] | None, size: int) -> list[int]:
    """How many rows go to (or come from) each member."""
    rows = tensor.shape[0] if tensor.ndim else 0
    if not given:
        if rows % size:
            raise ShapeError(
                f"all_to_all_single: {side} {tuple(tensor.shape)} cannot be divided equally among "
                f"{size} members; pass {side}_split_sizes"
            )
        return [rows // size] * size
    if len(given) != size or sum(given) != rows:
        raise ShapeError(
            f"all_to_all_single: {side}_split_sizes {list(given)} must be {size} numbers whose sum "
            f"is {rows}"
        )
    return list(given)


def check_splits(group: ProcessGroup, gives: list[int], takes: list[int]) -> None:
    """Refuse on every member that one sends more or fewer rows than another expects."""
    mine = np.array([gives, takes], np.int64)
    table = np.empty((group.size(), *mine.shape), np.int64)
    PROGRESS.wait(begin(group, "all_to_all splits", lambda comm: comm.all_gather(table, mine)))
    wrong = np.argwhere(table[:, 0, :] != table[:, 1, :].T)
    if len(wrong):
        source, target = wrong[0]
        raise DistBackendError(
            f"all_to_all: member {source} sends {table[source, 0, target]} rows to member "
            f"{target}, which expects {table[target, 1, source]}"
        )


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send a tensor to every member, and receive one from each."""
    if skips(group, "all_to_all"):
        return None
    chosen = resolve(group)
    if not len(output_tensor_list) == len(input_tensor_list) == chosen.size():
        raise ValueError(f"all_to_all: expected two lists of {chosen.size()} tensors")
    gives = [t.shape.numel() for t in input_tensor_list]
    takes = [t.shape.numel() for t in output_tensor_list]
    check_splits(chosen, gives, takes)
    way = way_for(chosen, *input_tensor_list, *output_tensor_list)
    arrays = [way.read(t).reshape(-1) for t in input_tensor_list]
    whole = way.xp.concatenate(arrays)
    out = way.xp.empty(sum(takes), whole.dtype)
    ends = np.cumsum(takes)[:-1].tolist()
    finish = parts(output_tensor_list, way.xp.split(out, ends), way.put)
    what = f"all_to_all {input_tensor_list[0].dtype}"
    operation = way.begin(what, lambda comm: comm.all_to_all(out, takes, whole, gives), finish)
    return settle(operation, async_op, list(output_tensor_list))
