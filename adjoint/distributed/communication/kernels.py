"""What the recorded collectives do with arrays."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from adjoint.distributed.communication import operations as ops
from adjoint.distributed.communication.collectives import check_splits
from adjoint.distributed.communication.progress import PROGRESS
from adjoint.distributed.communication.reduce_op import RedOpType
from adjoint.distributed.communication.ways import HostWay, device_way
from adjoint.distributed.groups.group import resolve
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.core.device import Device


def _way(group: str, x: Any) -> Any:
    """The way of an array: between GPUs, or through the host."""
    chosen = resolve(group)
    if "nccl" in chosen.backend and hasattr(x, "__cuda_array_interface__"):
        return device_way(chosen, Device("cuda", int(x.device.id)))
    return HostWay(chosen.channel)


def _array(way: Any, xp: Any, x: Any) -> Any:
    """An array as its way takes it, its own memory where possible."""
    array = x if way.xp is xp else xp.asnumpy(x)
    return way.xp.ascontiguousarray(array).reshape(x.shape)


def _changed(way: Any, xp: Any, x: Any) -> Any:
    """The same to write in."""
    return way.xp.array(x, copy=True, order="C") if way.xp is xp else _array(way, xp, x)


def _back(way: Any, xp: Any, out: Any) -> Any:
    return out if way.xp is xp else xp.asarray(out)


def _begin(way: Any, what: str, x: Any, start: Any) -> Any:
    return way.begin(f"{what} {x.shape} {x.dtype.name} (recorded)", start, None, None)


def _run(way: Any, what: str, x: Any, start: Any) -> None:
    PROGRESS.wait(_begin(way, what, x, start))


@lowers(ops.ALL_REDUCE)
def all_reduce(xp: Any, x: Any, op: str, group: str) -> Any:
    way = _way(group, x)
    out = _changed(way, xp, x)
    kind = RedOpType(op)
    _run(way, f"all_reduce {op}", out, lambda comm: comm.all_reduce(out, kind))
    return _back(way, xp, out)


UNDER_WAY: dict[int, tuple[Any, Any]] = {}  # number -> operation and its memory
_NUMBERS = itertools.count(1)


@lowers(ops.BEGIN_ALL_REDUCE)
def begin_all_reduce(xp: Any, x: Any, op: str, group: str) -> Any:
    way = _way(group, x)
    out = _changed(way, xp, x)
    kind, number = RedOpType(op), next(_NUMBERS)
    operation = _begin(way, f"all_reduce {op}", out, lambda comm: comm.all_reduce(out, kind))
    UNDER_WAY[number] = operation, out
    PROGRESS.wake()
    return xp.asarray(np.array([number], np.int64))


@lowers(ops.END_ALL_REDUCE)
def end_all_reduce(xp: Any, number: Any, shape: Any, dtype: Any, group: str) -> Any:
    operation, out = UNDER_WAY.pop(int(number[0]))
    PROGRESS.wait(operation)
    return xp.asarray(out)


@lowers(ops.BROADCAST)
def broadcast(xp: Any, x: Any, root: int, group: str) -> Any:
    way = _way(group, x)
    out = _changed(way, xp, x)
    _run(way, f"broadcast from {root}", out, lambda comm: comm.broadcast(out, root))
    return _back(way, xp, out)


@lowers(ops.REDUCE)
def reduce(xp: Any, x: Any, root: int, group: str) -> Any:
    way = _way(group, x)
    out = _changed(way, xp, x)
    _run(way, f"reduce to {root}", out, lambda comm: comm.reduce(out, RedOpType.SUM, root))
    return _back(way, xp, out if resolve(group).rank() == root else way.xp.zeros_like(out))


@lowers(ops.ALL_GATHER)
def all_gather(xp: Any, x: Any, group: str) -> Any:
    way = _way(group, x)
    host = _array(way, xp, x)
    out = way.xp.empty((resolve(group).size(), *host.shape), host.dtype)
    _run(way, "all_gather", host, lambda comm: comm.all_gather(out, host))
    return _back(way, xp, out)


@lowers(ops.REDUCE_SCATTER)
def reduce_scatter(xp: Any, x: Any, group: str) -> Any:
    way = _way(group, x)
    host = _array(way, xp, x)
    out = way.xp.empty(host.shape[1:], host.dtype)
    _run(way, "reduce_scatter", host, lambda comm: comm.reduce_scatter(out, host, RedOpType.SUM))
    return _back(way, xp, out)


@lowers(ops.ALL_TO_ALL)
def all_to_all(xp: Any, x: Any, group: str) -> Any:
    way = _way(group, x)
    host = _array(way, xp, x)
    out = way.xp.empty_like(host)
    counts = [host[0].size] * len(host)
    _run(way, "all_to_all", host, lambda comm: comm.all_to_all(out, counts, host, counts))
    return _back(way, xp, out)


@lowers(ops.EXCHANGE)
def exchange(xp: Any, x: Any, gives: Any, takes: Any, group: str) -> Any:
    way = _way(group, x)
    host = _array(way, xp, x)
    out = way.xp.empty((sum(takes), *host.shape[1:]), host.dtype)
    row = int(np.prod(host.shape[1:], dtype=np.int64))
    given, taken = [n * row for n in gives], [n * row for n in takes]
    check_splits(resolve(group), list(gives), list(takes))
    what = f"all_to_all {host.shape[1:]} {host.dtype.name} (recorded)"
    operation = way.begin(what, lambda comm: comm.all_to_all(out, taken, host, given), None, None)
    PROGRESS.wait(operation)
    return _back(way, xp, out)
