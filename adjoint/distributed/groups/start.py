"""Setting the group of all processes up, and leaving it."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import sys
import time
from contextlib import suppress
from datetime import timedelta
from multiprocessing.util import Finalize
from typing import Any
from urllib.parse import urlparse

from adjoint.distributed.communication.progress import PROGRESS, Channel, refuse_recorded
from adjoint.distributed.constants import seconds_of
from adjoint.distributed.engines import mpi, nccl
from adjoint.distributed.engines.alone import AloneEngine
from adjoint.distributed.engines.base import ProcessEngine
from adjoint.distributed.engines.process_manager import under_process_manager
from adjoint.distributed.engines.stored import StoreEngine
from adjoint.distributed.errors import DistError
from adjoint.distributed.groups.group import GROUPS, ProcessGroup
from adjoint.distributed.groups.monitor import Monitor
from adjoint.distributed.rendezvous import ProcessPlace, meet, place_from, reach_store
from adjoint.distributed.store.base import PrefixStore, Store
from adjoint.distributed.store.files import FileStore
from adjoint.distributed.store.tcp import TCPStore
from adjoint.engine.core.state.processes import STATE, default_group

BACKENDS = ("gloo", "mpi", "nccl")
FAREWELL = 30.0  # seconds a process that has ended waits for the others, to end MPI together
AWAITED = 3  # so many looks in a row at others that wait show that they wait in vain
WORLD = "world"


class _Job:
    """What outlives a group: MPI can be started only once."""

    engine: ProcessEngine | None = None
    store: TCPStore | None = None
    name = ""
    size = 1
    started = 0


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return STATE.group is not None


def check_backend(backend: str | None) -> str:
    """The backend a program asks for; refused where it cannot be had."""
    asked = (backend or ("nccl" if nccl.is_usable() else "gloo")).lower()
    parts = [p.split(":")[-1] for p in asked.split(",")]
    for part in parts:
        if part not in BACKENDS:
            raise ValueError(
                f"init_process_group: Invalid backend: {backend!r}. Expected gloo, mpi or nccl "
                "(or cpu:gloo,cuda:nccl)."
            )
    lacking = nccl.missing() if parts == ["nccl"] else None
    if lacking is not None:
        raise RuntimeError(f"init_process_group: NCCL is not available: {lacking}")
    return asked


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the processes that were started together; every one of them calls this.

    MPI carries the messages of CPUs (`pip install 'adjoint[mpi]'`), also for a program that asks
    for "gloo"; where "nccl" is asked for, collectives of tensors on GPUs and messages from one
    process to another go by NCCL. One process alone needs no engine on the CPU.

    Args:
        backend: "gloo", "mpi" or "nccl"; what is asked for is what `get_backend` says.
        init_method: "env://" (the default), "tcp://host:port" or "file:///path".
        timeout: how long collectives wait for other processes; 30 minutes unless given.
        world_size: how many processes; what the launcher says unless given.
        rank: which one this is; what the launcher says unless given.
        store: a store that all processes have, instead of `init_method`.
        group_name: accepted as PyTorch has it.
        pg_options: accepted as PyTorch has it.
        device_id: accepted as PyTorch has it.

    Example:
        >>> import adjoint.distributed as dist
        >>> dist.init_process_group("gloo", world_size=1, rank=0)
        >>> dist.get_rank(), dist.get_world_size()
        (0, 1)
        >>> dist.destroy_process_group()
    """
    refuse_recorded("init_process_group")
    if STATE.group is not None:
        raise ValueError("trying to initialize the default process group twice!")
    asked, seconds = check_backend(backend), seconds_of(timeout)
    place = place_from(os.environ, rank, world_size, init_method)
    if place.size == 1:
        STATE.group = _world(AloneEngine(asked), place, asked, store, seconds)
    elif _Job.engine is not None:
        _rejoin(place, asked, seconds)
    else:
        _join(place, asked, seconds, init_method, store)
    GROUPS[WORLD] = default_group()


def _world(
    engine: ProcessEngine, place: ProcessPlace, backend: str, store: Store | None, seconds: float
) -> ProcessGroup:
    members = tuple(range(place.size))
    check = None if place.size == 1 else engine.world.split(members)
    data = engine.world if place.size == 1 else engine.world.split(members)
    channel = Channel(data, check, members, WORLD, seconds)
    return ProcessGroup(engine, channel, backend, store, "default_pg")


def _rejoin(place: ProcessPlace, backend: str, seconds: float) -> None:
    """A second group of all processes, after the first was destroyed."""
    engine = _Job.engine
    if engine is None or (engine.world.rank, engine.world.size) != (place.rank, place.size):
        raise DistError(
            f"init_process_group: this process was rank {engine and engine.world.rank} of "
            f"{_Job.size} and cannot become rank {place.rank} of {place.size}: start it anew"
        )
    STATE.group = PROGRESS.blocking(
        "init_process_group", lambda: _world(engine, place, backend, _Job.store, seconds), seconds
    )


def _join(
    place: ProcessPlace, backend: str, seconds: float, init_method: str | None, store: Store | None
) -> None:
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    job = f"{os.environ.get('TORCHELASTIC_RUN_ID', 'job')}/{attempt}"
    joinable = mpi.is_installed() if under_process_manager() else mpi.joins()
    by_store = "nccl" in backend and not joinable
    if not by_store:
        mpi.load()  # the clearest error first
    engine: ProcessEngine
    if under_process_manager() and not by_store:
        joined = mpi.start(None, place.rank, place.size)
        engine, shared_store = joined, _share_store(joined, place, seconds)
    else:
        shared_store = _agreed_store(place, seconds, init_method, store)
        meet(PrefixStore(job, shared_store), place, seconds)
        engine = _host_engine(shared_store, job, place, by_store)
    PROGRESS.monitor = Monitor(shared_store, job, place.rank, PROGRESS.report)
    _Job.engine, _Job.store, _Job.name, _Job.size = engine, shared_store, job, place.size
    atexit.register(_leave)
    Finalize(None, _leave, exitpriority=1)  # a forked child of multiprocessing knows no atexit
    STATE.group = PROGRESS.blocking(
        "init_process_group", lambda: _world(engine, place, backend, shared_store, seconds), seconds
    )


def _host_engine(
    shared_store: TCPStore, job: str, place: ProcessPlace, by_store: bool
) -> ProcessEngine:
    """What carries the messages of CPUs: MPI, else the store itself, for what NCCL needs."""
    if by_store:
        return StoreEngine(
            PrefixStore(f"{job}/engine", shared_store.clone()), place.rank, place.size
        )
    return mpi.start(PrefixStore(f"{job}/mpi", shared_store), place.rank, place.size)


def _agreed_store(
    place: ProcessPlace, seconds: float, init_method: str | None, given: Store | None
) -> TCPStore:
    """A store over the network; another kind serves to say where it is."""
    if isinstance(given, TCPStore):
        return given
    if init_method is not None and init_method.startswith("file://"):
        given = FileStore(urlparse(init_method).path, place.size)
    if given is None:
        return reach_store(place, seconds, os.environ)
    if place.rank == 0:
        network_store = TCPStore(_own_address(), 0, is_master=True, timeout=seconds)
        given.set("adjoint/store", f"{network_store.host} {network_store.port}")
        return network_store
    host, port = given.get("adjoint/store").decode().split()
    return TCPStore(host, int(port), timeout=seconds)


def _share_store(engine: Any, place: ProcessPlace, seconds: float) -> TCPStore:
    """Under mpiexec: rank 0 keeps a store, and MPI says where."""
    comm = engine.world.comm
    hosts = comm.allgather(socket.gethostname())
    secret = comm.bcast(secrets.token_bytes(32) if place.rank == 0 else None)
    local = len(set(hosts)) == 1
    own_store = None
    if place.rank == 0:
        host = "127.0.0.1" if local else _own_address()
        own_store = TCPStore(host, 0, is_master=True, timeout=seconds, secret=secret)
    where = comm.bcast(None if own_store is None else (own_store.host, own_store.port))
    host, port = where
    return own_store or TCPStore(host, port, timeout=seconds, secret=secret)


def _own_address() -> str:
    """An address under which other machines reach this one; this machine's own if there is none."""
    host = socket.gethostname()
    try:
        return socket.gethostbyname(host)
    except OSError:
        return "127.0.0.1"


def destroy_process_group(group: Any = None) -> None:
    """Forget a group, or all of them.

    Example:
        >>> import adjoint.distributed as dist
        >>> dist.init_process_group("gloo")
        >>> dist.destroy_process_group()
        >>> dist.is_initialized()
        False
    """
    refuse_recorded("destroy_process_group")
    if STATE.group is None:
        raise ValueError("Invalid process group specified: none has been initialized")
    everything = group is None or group is STATE.group
    chosen = list(GROUPS.values()) if everything else [group]
    for group_of in chosen:
        for channel in group_of.device_channels.values():
            channel.close()
        GROUPS.pop(group_of.group_name, None)
    if everything:
        STATE.group = None


def abandon(why: str) -> None:
    """Have the others know at once that this process ends early, and why."""
    if PROGRESS.broken is None:
        PROGRESS.broken = why


def _leave() -> None:
    """At the end of the process: say goodbye, and end MPI together with the others."""
    monitor, store, engine = PROGRESS.monitor, _Job.store, _Job.engine
    if monitor is None or store is None or engine is None:
        return
    PROGRESS.monitor = None
    failed = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if failed is not None:
        monitor.leave(f"it ended with {type(failed).__name__}: {failed}")
    elif PROGRESS.broken is not None:
        monitor.leave(f"it ended: {PROGRESS.broken}")
    else:
        with suppress(DistError):
            if _all_end(monitor, store):
                engine.close(orderly=True)
        monitor.leave()


def _all_end(monitor: Monitor, store: TCPStore) -> bool:
    """Wait until all processes end, unless some wait for this one, which ends without them."""
    if store.add(f"{_Job.name}/ended", 1) == _Job.size:
        store.set(f"{_Job.name}/all ended", b"")
    begun = time.monotonic()
    looked, awaited = begun, 0
    while not store.check([f"{_Job.name}/all ended"]):
        now = time.monotonic()
        if monitor.gone or monitor.lost or now > begun + FAREWELL or awaited >= AWAITED:
            return False
        if now > looked + 1.0:
            looked = now
            waiting = any(text.startswith("waits in") for text in monitor.others().values())
            awaited = awaited + 1 if waiting else 0
        time.sleep(0.01)
    return True
