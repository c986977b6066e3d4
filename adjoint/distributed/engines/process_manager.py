"""Joining processes into one MPI world whoever started them.

Note [process manager]
    MPICH and its relatives learn of one another through a small protocol of lines of text (PMI
    version 1) spoken to whoever started them, usually mpiexec. Here the other end is a thread of
    the same process that keeps what it is told in the job's store. So a launcher, `mp.spawn`, a
    batch system or a shell can start processes, and MPI carries their messages all the same.
    While MPI_Init waits for lines, the thread must run: it is called through ctypes, which lets
    go of the interpreter's lock.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import socket
import threading
from typing import Any

from adjoint.distributed.store.base import Store

VARIABLES = ("PMI_FD", "PMI_RANK", "PMI_SIZE")
LIMITS = "kvsname_max=256 keylen_max=256 vallen_max=4096"


class ProcessManager:
    """Answers the MPI library of this process from a store that all processes have."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.store, self.rank, self.size = store, rank, size
        self.barriers = 0
        # Shared memory is named after this, so no two jobs may have the same.
        self.job = store.compare_set("name", "", f"adjoint_{secrets.token_hex(8)}").decode()
        self.mine, theirs = socket.socketpair()
        self._library_end = theirs  # open as long as the library may speak
        given = (str(theirs.fileno()), str(rank), str(size))
        self.environment = dict(zip(VARIABLES, given, strict=True))
        threading.Thread(target=self._serve, name="adjoint mpi start", daemon=True).start()
        atexit.register(self._answer_ahead)

    def _answer_ahead(self) -> None:
        """The library says goodbye after Python's threads are gone: its answer must lie ready."""
        with contextlib.suppress(OSError):
            self.mine.send(b"cmd=finalize_ack rc=0\n")

    def __enter__(self) -> ProcessManager:
        os.environ.update(self.environment)
        return self

    def __exit__(self, *_: object) -> None:
        for name in VARIABLES:  # children are no part of this world
            os.environ.pop(name, None)

    def _serve(self) -> None:
        with self.mine.makefile("rw", encoding="ascii") as lines:
            for line in lines:
                words = dict(w.split("=", 1) for w in line.split() if "=" in w)
                answer = self._answer(words.get("cmd", ""), words)
                lines.write(answer + "\n")
                lines.flush()

    def _answer(self, command: str, words: dict[str, str]) -> str:
        match command:
            case "init":
                return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
            case "get_maxes":
                return f"cmd=maxes {LIMITS} rc=0"
            case "get_appnum":
                return "cmd=appnum appnum=0 rc=0"
            case "get_my_kvsname":
                return f"cmd=my_kvsname kvsname={self.job} rc=0"
            case "get_universe_size":
                return f"cmd=universe_size size={self.size} rc=0"
            case "put":
                self.store.set(words["key"], words["value"])
                return "cmd=put_result rc=0 msg=success"
            case "get":
                if not self.store.check([words["key"]]):
                    return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
                value = self.store.get(words["key"]).decode()
                return f"cmd=get_result rc=0 msg=success value={value}"
            case "barrier_in":
                return self._barrier()
            case "finalize":
                return "cmd=finalize_ack rc=0"
            case _:
                return f"cmd={command} rc=-1 msg=not_supported"

    def _barrier(self) -> str:
        self.barriers += 1
        name = f"barrier{self.barriers}"
        if self.store.add(name, 1) == self.size:
            self.store.set(f"{name}/open", b"")
        self.store.wait([f"{name}/open"])
        return "cmd=barrier_out rc=0"


def under_process_manager(environment: Any = os.environ) -> bool:
    """Whether mpiexec (or srun with its plugin) started this process, so that MPI finds others.

    >>> under_process_manager({"OMPI_COMM_WORLD_SIZE": "2"}), under_process_manager({})
    (True, False)
    """
    return any(
        name in environment
        for name in ("PMI_FD", "PMI_PORT", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE")
    )
