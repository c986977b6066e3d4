"""PyTorch's process groups for a single process: collectives of one.

A program written for many processes runs as it does when started with one. More are refused by
`init_process_group`.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import Any

from adjoint.engine.core.state.processes import STATE, ProcessGroup, default_group
from adjoint.engine.tensor.tensor import Tensor


class ReduceOp(Enum):
    """How values of several processes become one."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


class Work:
    """A collective that is under way; of one process, it is done at once."""

    def wait(self, timeout: Any = None) -> bool:
        """Wait for its end."""
        return True

    def is_completed(self) -> bool:
        """Whether it has ended."""
        return True

    is_success = is_completed


class group:
    """Names of groups."""

    WORLD: Any = None


def is_available() -> bool:
    """Whether process groups can be made: of one process."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return STATE.group is not None


def is_nccl_available() -> bool:
    """Whether NCCL can be used; not yet."""
    return False


def is_gloo_available() -> bool:
    """Whether gloo can be used; it has no part here."""
    return False


def is_mpi_available() -> bool:
    """Whether MPI can be used; not yet."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Set up the group of this one process.

    Args:
        backend: what would carry messages; kept for `get_backend`.
        init_method: accepted as PyTorch has it.
        timeout: accepted as PyTorch has it.
        world_size: how many processes; `$WORLD_SIZE` unless given.
        rank: which one this is; `$RANK` unless given.
        store: accepted as PyTorch has it.
        group_name: accepted as PyTorch has it.
        pg_options: accepted as PyTorch has it.
        device_id: accepted as PyTorch has it.

    Example:
        >>> init_process_group("gloo", world_size=1, rank=0)
        >>> get_rank(), get_world_size()
        (0, 1)
        >>> destroy_process_group()
    """
    if STATE.group is not None:
        raise ValueError("trying to initialize the default process group twice!")
    size = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", "1"))
    place = rank if rank >= 0 else int(os.environ.get("RANK", "0"))
    if size != 1 or place != 0:
        raise NotImplementedError(
            f"init_process_group: {size} processes (this one of rank {place}) are not supported "
            "yet. Start the program with a single process."
        )
    STATE.group = ProcessGroup(backend or "gloo")
    group.WORLD = STATE.group


def destroy_process_group(group: Any = None) -> None:
    """Forget the group."""
    STATE.group = None


def get_rank(group: Any = None) -> int:
    """Which process of the group this is."""
    return default_group().rank


def get_world_size(group: Any = None) -> int:
    """How many processes the group has."""
    return default_group().size


def get_backend(group: Any = None) -> str:
    """What `init_process_group` was told."""
    return default_group().backend


def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A group of some of the processes, which are one."""
    found = default_group()
    if ranks is not None and list(ranks) != [0]:
        raise ValueError(f"new_group: ranks must be [0] in a group of one, received {ranks}")
    return found


def _done(async_op: bool, *tensors: Any) -> Work | None:
    default_group()
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected a Tensor, received {type(tensor).__name__}")
    return Work() if async_op else None


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Work | None:
    """Wait for all processes."""
    return _done(async_op)


def broadcast(
    tensor: Tensor, src: int | None = 0, group: Any = None, async_op: bool = False, **_: Any
) -> Work | None:
    """Give every process the tensor of one."""
    return _done(async_op, tensor)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the processes' tensors in place: of one, nothing changes."""
    return _done(async_op, tensor)


def reduce(
    tensor: Tensor, dst: int | None = 0, op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, **_: Any,
) -> Work | None:  # fmt: skip
    """Combine the processes' tensors in one of them."""
    return _done(async_op, tensor)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give every process the tensors of all."""
    found = _done(async_op, tensor, *tensor_list)
    for slot in tensor_list:
        slot.detach().copy_(tensor.detach())
    return found


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give every process the tensors of all, joined."""
    found = _done(async_op, output_tensor, input_tensor)
    output_tensor.detach().copy_(input_tensor.detach().reshape(output_tensor.shape))
    return found


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the processes' tensors and give each a part."""
    return all_gather_into_tensor(output, input, group, async_op)


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = 0,
    group: Any = None, async_op: bool = False, **_: Any,
) -> Work | None:  # fmt: skip
    """Give one process the tensors of all."""
    return all_gather(gather_list or [], tensor, group, async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = 0,
    group: Any = None, async_op: bool = False, **_: Any,
) -> Work | None:  # fmt: skip
    """Give each process one of a list of tensors."""
    if not scatter_list or len(scatter_list) != 1:
        raise ValueError("scatter: the source process must give one tensor per process")
    return all_gather([tensor], scatter_list[0], group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Give every process the objects of all."""
    _done(False)
    object_list[0] = obj


def broadcast_object_list(object_list: list[Any], src: int | None = 0, *_: Any, **__: Any) -> None:
    """Give every process the objects of one."""
    _done(False)
