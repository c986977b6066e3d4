"""What the recorded collectives do with arrays."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from adjoint.distributed import operations as ops
from adjoint.distributed.group import resolve
from adjoint.distributed.progress import PROGRESS
from adjoint.distributed.reduce_op import RedOpType
from adjoint.engine.backends.array.table import lowers


def _host(xp: Any, x: Any) -> Any:
    return np.ascontiguousarray(x if xp is np else xp.asnumpy(x)).reshape(x.shape)


def _run(group: str, what: str, x: Any, start: Any) -> None:
    chosen = resolve(group)
    channel = chosen.channel
    text = f"{what} {x.shape} {x.dtype.name} (recorded)"
    PROGRESS.wait(PROGRESS.submit(channel, text, lambda: start(channel.data)))


def _changed(xp: Any, x: Any) -> Any:
    host = _host(xp, x)
    return host.copy() if host is x or np.shares_memory(host, x) else host


@lowers(ops.ALL_REDUCE)
def all_reduce(xp: Any, x: Any, op: str, group: str) -> Any:
    out = _changed(xp, x)
    kind = RedOpType(op)
    _run(group, f"all_reduce {op}", out, lambda comm: comm.all_reduce(out, kind))
    return xp.asarray(out)


UNDER_WAY: dict[int, tuple[Any, Any]] = {}  # number -> operation and its memory
_NUMBERS = itertools.count(1)


@lowers(ops.BEGIN_ALL_REDUCE)
def begin_all_reduce(xp: Any, x: Any, op: str, group: str) -> Any:
    out = _changed(xp, x)
    channel, kind, number = resolve(group).channel, RedOpType(op), next(_NUMBERS)
    text = f"all_reduce {op} {out.shape} {out.dtype.name} (recorded)"
    UNDER_WAY[number] = (
        PROGRESS.submit(channel, text, lambda: channel.data.all_reduce(out, kind)),
        out,
    )
    PROGRESS.wake()
    return xp.asarray(np.array([number], np.int64))


@lowers(ops.END_ALL_REDUCE)
def end_all_reduce(xp: Any, number: Any, shape: Any, dtype: Any, group: str) -> Any:
    operation, out = UNDER_WAY.pop(int(number[0]))
    PROGRESS.wait(operation)
    return xp.asarray(out)


@lowers(ops.BROADCAST)
def broadcast(xp: Any, x: Any, root: int, group: str) -> Any:
    out = _changed(xp, x)
    _run(group, f"broadcast from {root}", out, lambda comm: comm.broadcast(out, root))
    return xp.asarray(out)


@lowers(ops.REDUCE)
def reduce(xp: Any, x: Any, root: int, group: str) -> Any:
    out = _changed(xp, x)
    _run(group, f"reduce to {root}", out, lambda comm: comm.reduce(out, RedOpType.SUM, root))
    return xp.asarray(out if resolve(group).rank() == root else np.zeros_like(out))


@lowers(ops.ALL_GATHER)
def all_gather(xp: Any, x: Any, group: str) -> Any:
    host = _host(xp, x)
    out = np.empty((resolve(group).size(), *host.shape), host.dtype)
    _run(group, "all_gather", host, lambda comm: comm.all_gather(out, host))
    return xp.asarray(out)


@lowers(ops.REDUCE_SCATTER)
def reduce_scatter(xp: Any, x: Any, group: str) -> Any:
    host = _host(xp, x)
    out = np.empty(host.shape[1:], host.dtype)
    _run(group, "reduce_scatter", host, lambda comm: comm.reduce_scatter(out, host, RedOpType.SUM))
    return xp.asarray(out)


@lowers(ops.ALL_TO_ALL)
def all_to_all(xp: Any, x: Any, group: str) -> Any:
    host = _host(xp, x)
    out = np.empty_like(host)
    counts = [host[0].size] * len(host)
    _run(group, "all_to_all", host, lambda comm: comm.all_to_all(out, counts, host, counts))
    return xp.asarray(out)
