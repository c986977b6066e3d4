"""How processes find one another: who am I, how many are we, where is the store."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlparse

from adjoint.distributed.errors import DistBackendError, DistStoreError
from adjoint.distributed.store.base import PrefixStore, Store
from adjoint.distributed.store.tcp import TCPStore

SERVED = "ADJOINT_STORE_SERVED"  # set by a launcher that keeps the store at MASTER_ADDR:MASTER_PORT
DEFAULT_PORT = 29500
HIGHEST_PORT = 65535
LOOK = 0.02  # seconds between looks for processes that have not come yet
TELLING = 2.0  # seconds rank 0, who may keep the store, waits until others have read of a conflict


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """A process's place among those that were started together."""

    rank: int
    size: int
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT


# Variables that say rank, size and place on the machine, by who sets them.
LAUNCHERS = {
    "torchrun's": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "Open MPI's": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "MPICH's": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    "Slurm's": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
}


def place_from(
    environment: Mapping[str, str], rank: int = -1, size: int = -1, init_method: str | None = None
) -> ProcessPlace:
    """Where this process stands, from arguments first and the environment otherwise.

    >>> place_from({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "7"})
    ProcessPlace(rank=1, size=2, host='a', port=7)
    """
    for rank_name, size_name, _ in LAUNCHERS.values():
        if rank_name in environment and size_name in environment:
            rank = _number(environment, rank_name, 0) if rank < 0 else rank
            size = _number(environment, size_name, 1) if size < 0 else size
            break
    host = environment.get("MASTER_ADDR") or slurm_host(environment) or "127.0.0.1"
    given = bool(environment.get("MASTER_PORT"))
    port = _number(environment, "MASTER_PORT", 0, HIGHEST_PORT) if given else DEFAULT_PORT
    if init_method is not None and init_method.startswith("tcp://"):
        url = urlparse(init_method)
        query = parse_qs(url.query)
        host, port = url.hostname or host, url.port or port
        rank = int(query["rank"][0]) if "rank" in query and rank < 0 else rank
        size = int(query["world_size"][0]) if "world_size" in query and size < 0 else size
    rank, size = max(rank, 0) if size in (-1, 1) else rank, 1 if size < 0 else size
    if not 0 <= rank < size:
        raise ValueError(
            f"init_process_group: rank must be from 0 to {size - 1} (world_size {size}), received "
            f"{rank}. Pass rank=, or set $RANK and $WORLD_SIZE."
        )
    return ProcessPlace(rank, size, host, port)


def _number(environment: Mapping[str, str], name: str, least: int, most: int | None = None) -> int:
    """What a variable of the environment says, refused where it cannot be meant."""
    text = environment[name]
    number = int(text) if re.fullmatch(r"\s*[+-]?\d+\s*", text) else least - 1
    if number < least or (most is not None and number > most):
        upto = "" if most is None else f" to {most}"
        raise ValueError(
            f"init_process_group: ${name} must be a number from {least}{upto}, received {text!r}"
        )
    return number


def slurm_host(environment: Mapping[str, str]) -> str | None:
    """The first machine of a Slurm step.

    >>> slurm_host({"SLURM_STEP_NODELIST": "node[03-05,9],gpu1"})
    'node03'
    """
    given = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    match = re.match(r"([^,\[]+)(?:\[([^,\]-]+))?", given) if given else None
    return None if match is None else match[1] + (match[2] or "")


_SERVERS: dict[tuple[str, int], TCPStore] = {}  # stores kept by this process, to its end


def reach_store(place: ProcessPlace, timeout: float, environment: Mapping[str, str]) -> TCPStore:
    """The job's store: kept by the launcher, else by rank 0."""
    keep = place.rank == 0 and environment.get(SERVED) != "1"
    if keep and (place.host, place.port) in _SERVERS:
        return _SERVERS[place.host, place.port]
    store = TCPStore(place.host, place.port, is_master=keep, timeout=timeout)
    if keep:
        _SERVERS[place.host, place.port] = store
    return store


def meet(store: Store, place: ProcessPlace, timeout: float) -> None:
    """Wait until every rank is there; processes that disagree are an error for all of them."""
    mine = f"rank {place.rank} of {place.size}, process {os.getpid()} on {socket.gethostname()}"
    # The size first: who sees that all ranks are there then sees what they disagree on as well.
    agreed = store.compare_set("size", "", str(place.size)).decode()
    if agreed != str(place.size):
        store.set("conflict", f"processes disagree on world_size: {agreed}, but {mine}")
    present = store.compare_set(f"rank{place.rank}", "", mine).decode()
    if present != mine:
        store.set("conflict", f"two processes are rank {place.rank}: {present}; {mine}")
    wanted = [f"rank{r}" for r in range(place.size)]
    end = time.monotonic() + timeout
    while True:
        complete = store.check(wanted)
        if store.check(["conflict"]):
            _refuse_conflict(store, place)
        if complete:
            return
        if time.monotonic() > end:
            late = [r for r in range(place.size) if not store.check([f"rank{r}"])]
            raise DistStoreError(
                f"init_process_group: after {timeout:g} s rank(s) {', '.join(map(str, late))} of "
                f"{place.size} have not come. Check that they were started, and with this "
                "MASTER_ADDR, MASTER_PORT and WORLD_SIZE."
            )
        time.sleep(LOOK)


def _refuse_conflict(store: Store, place: ProcessPlace) -> None:
    """Raise what ranks disagree on, when the others have read it as well."""
    why = store.get("conflict").decode()
    end = time.monotonic() + TELLING
    count = store.add("told", 1)
    while place.rank == 0 and count < place.size and time.monotonic() < end:
        time.sleep(LOOK)
        count = store.add("told", 0)
    raise DistBackendError(f"init_process_group: {why}")


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Any:
    """PyTorch's way to a store: yields (store, rank, world_size) for `env://` or `tcp://...`."""
    place = place_from(os.environ, rank, world_size, url)
    store = reach_store(place, kwargs.get("timeout", 300.0), os.environ)
    yield PrefixStore("rendezvous", store), place.rank, place.size
