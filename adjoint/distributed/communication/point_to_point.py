"""Messages from one process to another: through the host, or between GPUs by NCCL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.distributed.communication.buffers import (
    Finish,
    describe,
    read,
    require_tensor,
    written,
)
from adjoint.distributed.communication.collectives import skips
from adjoint.distributed.communication.gpu_messages import message_device, receive_by, send_by
from adjoint.distributed.communication.messages import DATA, Receiving, Sending
from adjoint.distributed.communication.progress import PROGRESS
from adjoint.distributed.communication.work import Work, settle
from adjoint.distributed.engines.base import Communicator, Request
from adjoint.distributed.groups.group import ProcessGroup, get_group_rank, resolve
from adjoint.engine.tensor.tensor import Tensor

ANY = -1


def check_tag(tag: int) -> None:
    """Refuse tags that are not numbers of this module's."""
    if not 0 <= tag < DATA:
        raise ValueError(f"tag: expected a number from 0 to {DATA - 1}, received {tag}")


def peer_of(name: str, group: ProcessGroup, world: int | None, place: int | None) -> int:
    """The other's place in the group."""
    if world is not None and place is not None:
        raise ValueError(f"{name}: pass a rank of the world or of the group, not both")
    if world is None and place is None:
        return ANY
    peer = get_group_rank(group, world) if world is not None else place
    if peer is None or not 0 <= peer < group.size():
        raise ValueError(f"{name}: the group has no member {peer}")
    return peer


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Begin to send a tensor to one process."""
    if skips(group, "isend"):
        return None
    chosen = resolve(group)
    peer = peer_of("send", chosen, dst, group_dst)
    if peer == ANY:
        raise ValueError("send: expected dst, the rank that the tensor is for")
    if peer == chosen.rank() and chosen.size() > 1:
        raise ValueError("send: invalid destination rank: it is this process's own")
    require_tensor("send", tensor)
    check_tag(tag)
    label, start = sending(chosen, tensor, peer, tag)
    text = f"{label} to rank {chosen.ranks[peer]}"
    operation = PROGRESS.submit(chosen.channel, text, start, peers=(chosen.ranks[peer],))
    return settle(operation, True, [tensor])


def sending(
    group: ProcessGroup, tensor: Tensor, peer: int, tag: int
) -> tuple[str, Callable[[], Any]]:
    """What a message to a member is called, and what begins it."""
    what, comm, device = describe(tensor), group.channel.data, message_device(group, tensor)
    if device is not None:
        return f"send {what} by NCCL", send_by(device, group, tensor, peer, tag)
    array = read(tensor)
    return f"send {what}", lambda: Sending(comm, array, what, peer, tag)


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Begin to receive a tensor from one process, or from any if none is named."""
    if skips(group, "irecv"):
        return None
    chosen = resolve(group)
    peer = peer_of("recv", chosen, src, group_src)
    require_tensor("recv", tensor)
    check_tag(tag)
    label, start, finish = receiving(chosen, tensor, peer, tag)
    begun: list[Any] = []

    def begin() -> Request:
        begun.append(start())
        return begun[0]

    others = tuple(r for r in chosen.ranks if r != chosen.ranks[chosen.rank()])
    peers = others if peer == ANY else (chosen.ranks[peer],)
    whom = "any rank" if peer == ANY else f"rank {chosen.ranks[peer]}"
    work = Receipt(
        PROGRESS.submit(chosen.channel, f"{label} from {whom}", begin, finish, peers=peers),
        tensor,
        lambda: chosen.ranks[begun[0].source],
    )
    PROGRESS.wake()
    return work


def receiving(
    group: ProcessGroup, tensor: Tensor, peer: int, tag: int
) -> tuple[str, Callable[[], Any], Finish]:
    """What a message from a member is called, what begins it, and what the host does at its end."""
    what, comm, device = describe(tensor), group.channel.data, message_device(group, tensor)
    source = any_source(comm, peer)
    if device is not None:
        return f"receive {what} by NCCL", receive_by(device, group, tensor, source, tag), None
    array, finish = written(tensor)
    return f"receive {what}", lambda: Receiving(comm, array, what, source, tag), finish


def any_source(comm: Communicator, peer: int) -> int:
    """MPI's name for any process, where none is named."""
    return peer if peer != ANY else getattr(comm, "any_source", 0)


class Receipt(Work):
    """A message to come."""

    def __init__(self, operation: Any, tensor: Tensor, source: Callable[[], int]) -> None:
        super().__init__(operation, [tensor])
        self._find_source = source

    def source_rank(self) -> int:
        return self._find_source()


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send a tensor to one process."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive a tensor from one process, or from any; returns whose it was."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """A message for `batch_isend_irecv`: `P2POp(isend, tensor, peer)`."""

    def __init__(
        self, op: Callable[..., Any], tensor: Tensor, peer: int | None = None, group: Any = None,
        tag: int = 0, group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("P2POp: expected distributed.isend or distributed.irecv")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin several messages at once; in whatever order, they do not wait for one another."""
    if not p2p_op_list:
        raise ValueError("batch_isend_irecv: expected at least one P2POp")
    works = []
    for operation in p2p_op_list:
        if not isinstance(operation, P2POp):
            raise ValueError(
                f"batch_isend_irecv: expected P2POp, received {type(operation).__name__}"
            )
        other = {"group_dst" if operation.op is isend else "group_src": operation.group_peer}
        works.append(
            operation.op(operation.tensor, operation.peer, operation.group, operation.tag, **other)
        )
    return [w for w in works if w is not None]
