"""Knowing who is still there: a line to the store's keeper, held by a thread of each process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from adjoint.distributed.rendezvous import SERVED
from adjoint.distributed.store.tcp import TCPStore, reach
from adjoint.distributed.store.wire import receive, send, texts


class Monitor:
    """Hears of processes that are gone, and tells others what this one is doing.

    Args:
        store: the store that all processes of the job use.
        job: the job's name there.
        rank: which process this is.
        report: says what this process is doing.
    """

    def __init__(self, store: TCPStore, job: str, rank: int, report: Callable[[], str]) -> None:
        self.store = store
        self.job = job
        self.report = report
        self.gone: dict[int, tuple[str, float]] = {}  # rank -> why, when we heard
        self.lost: tuple[str, float] | None = None  # the store's keeper itself
        self._leaving = False
        self._line: Connection = reach(store.host, store.port, store.secret, 60.0)
        send(self._line, "watch", job, str(rank))
        threading.Thread(target=self._listen, name="adjoint monitor", daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                kind, *fields = texts(receive(self._line))
                if kind == "gone":
                    self.gone[int(fields[0])] = (fields[1], time.monotonic())
                else:
                    send(self._line, "report", self.report())
        except (OSError, EOFError, TypeError):  # TypeError: closed by another thread
            if not self._leaving:
                if os.environ.get(SERVED) == "1":  # the launcher itself
                    os.kill(os.getpid(), signal.SIGTERM)
                self.lost = ("the process that keeps the store is gone", time.monotonic())

    def others(self) -> dict[int, str]:
        """What each process says it is doing."""
        return self.store.clone().reports(self.job)

    def leave(self, why: str = "it has ended") -> None:
        """Say goodbye."""
        self._leaving = True
        with contextlib.suppress(OSError):
            send(self._line, "bye", why)
