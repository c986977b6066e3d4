"""Collectives of Python objects, pickled.

As everywhere with pickles: only among processes that trust one another, which those of one job do.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.distributed.communication.collectives import begin, root_of, skips
from adjoint.distributed.communication.point_to_point import recv, send
from adjoint.distributed.communication.progress import PROGRESS
from adjoint.distributed.groups.group import ProcessGroup, resolve
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.dtype import int64, uint8
from adjoint.engine.ops.create.creation import zeros


def _pickled(value: Any) -> Any:
    return np.frombuffer(pickle.dumps(value), np.uint8).copy()


def _wait(group: ProcessGroup, what: str, start: Any) -> None:
    PROGRESS.wait(begin(group, what, start))


def gathered(group: ProcessGroup, value: Any, name: str) -> list[Any]:
    """The objects of all members, on every member."""
    mine = _pickled(value)
    size = np.array([mine.size], np.int64)
    sizes = np.empty(group.size(), np.int64)
    _wait(group, f"{name} sizes", lambda comm: comm.all_gather(sizes, size))
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: mine.size] = mine
    whole = np.empty((group.size(), padded.size), np.uint8)
    _wait(group, name, lambda comm: comm.all_gather(whole, padded))
    return [pickle.loads(row[:n].tobytes()) for row, n in zip(whole, sizes, strict=True)]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Give every member the objects of all."""
    if skips(group, "all_gather_object"):
        return
    chosen = resolve(group)
    if len(object_list) != chosen.size():
        raise ValueError(
            f"all_gather_object: expected a list of {chosen.size()}, received {len(object_list)}"
        )
    object_list[:] = gathered(chosen, obj, "all_gather_object")


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """Give one member the objects of all."""
    if skips(group, "gather_object"):
        return
    chosen = resolve(group)
    root = root_of("gather_object", chosen, dst, group_dst)
    objects = gathered(chosen, obj, f"gather_object to {root}")
    if chosen.rank() == root:
        if object_gather_list is None or len(object_gather_list) != chosen.size():
            raise ValueError(f"gather_object: the destination passes a list of {chosen.size()}")
        object_gather_list[:] = objects


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Give every member the objects of one."""
    if skips(group, "broadcast_object_list"):
        return
    chosen = resolve(group)
    root = root_of("broadcast_object_list", chosen, src, group_src)
    object_list[:] = broadcasted(chosen, list(object_list), root)


def broadcasted(group: ProcessGroup, value: Any, root: int) -> Any:
    """The object of one member."""
    mine = _pickled(value if group.rank() == root else None)
    size = np.array([mine.size], np.int64)
    _wait(group, f"broadcast size from {root}", lambda comm: comm.broadcast(size, root))
    data = mine if group.rank() == root else np.empty(int(size[0]), np.uint8)
    _wait(group, f"broadcast object from {root}", lambda comm: comm.broadcast(data, root))
    return pickle.loads(data.tobytes())


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Give each member one of the objects that one member has."""
    if skips(group, "scatter_object_list"):
        return
    chosen = resolve(group)
    root = root_of("scatter_object_list", chosen, src, group_src)
    if not scatter_object_output_list:
        raise ValueError("scatter_object_list: expected a list of at least one place for results")
    given = list(scatter_object_input_list or [])
    if chosen.rank() == root and len(given) != chosen.size():
        raise ValueError(f"scatter_object_list: the source passes a list of {chosen.size()}")
    scatter_object_output_list[0] = broadcasted(chosen, given, root)[chosen.rank()]


def send_object_list(
    object_list: Sequence[Any], dst: int | None = None, group: Any = None, device: Any = None,
    group_dst: int | None = None, use_batch: bool = False,
) -> None:  # fmt: skip
    """Send objects to one process."""
    data = _pickled(list(object_list))
    size = from_numpy(np.array([data.size], np.int64))
    send(size, dst, group, group_dst=group_dst)
    send(from_numpy(data), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None, use_batch: bool = False,
) -> int:  # fmt: skip
    """Receive objects from one process; returns whose they were."""
    size = zeros(1, dtype=int64)
    source = recv(size, src, group, group_src=group_src)
    data = zeros(int(size[0]), dtype=uint8)
    recv(data, source, group)
    object_list[:] = pickle.loads(data.numpy().tobytes())
    return source
