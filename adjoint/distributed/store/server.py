"""The process that keeps the store: it answers requests and notices who dies.

Each process of a job has two lines here. On one it reads and writes keys; the other it only holds
("watch"): when that is cut without a goodbye, the process is dead, and all others are told.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from adjoint.distributed.errors import DistNetworkError, DistStoreError
from adjoint.distributed.store.memory import HashStore
from adjoint.distributed.store.secret import prove
from adjoint.distributed.store.wire import receive, send, texts

REFUSED = 0.05  # seconds until the next caller is looked for, where one could not be taken
REPORT_PATIENCE = 3.0  # seconds others have to say what they are doing


class Watchers:
    """The lines held by the processes of one job."""

    def __init__(self) -> None:
        self.lines: dict[int, Connection] = {}
        self.gone: dict[int, str] = {}  # rank -> why
        self.reports: dict[int, str] = {}
        self.changed = threading.Condition()

    def enter(self, rank: int, line: Connection) -> None:
        """A process holds a line from now on; it hears who is gone already."""
        with self.changed:
            self.gone.pop(rank, None)
            self.lines[rank] = line
            for other, why in self.gone.items():
                send(line, "gone", str(other), why)

    def leave(self, rank: int, why: str) -> None:
        """A process is gone: tell the others."""
        with self.changed:
            self.lines.pop(rank, None)
            self.gone[rank] = why
            for line in self.lines.values():
                with contextlib.suppress(OSError):
                    send(line, "gone", str(rank), why)
            self.changed.notify_all()

    def answer(self, rank: int, text: str) -> None:
        """A process has said what it is doing."""
        with self.changed:
            self.reports[rank] = text
            self.changed.notify_all()

    def collect(self) -> dict[int, str]:
        """Ask all processes what they are doing."""
        with self.changed:
            self.reports = {}
            asked = set(self.lines)
            for line in self.lines.values():
                with contextlib.suppress(OSError):
                    send(line, "report")
            self.changed.wait_for(lambda: asked <= {*self.reports, *self.gone}, REPORT_PATIENCE)
            answers = {rank: self.reports.get(rank, "does not answer") for rank in asked}
            return answers | {rank: f"is gone: {why}" for rank, why in self.gone.items()}


class StoreServer:
    """Listens on one interface and answers whoever knows the secret.

    Args:
        host: the interface to listen on.
        port: the port; 0 for one that is free.
        secret: what callers must know.
    """

    def __init__(self, host: str, port: int, secret: bytes) -> None:
        self.values = HashStore()
        self.secret = secret
        self.jobs: dict[str, Watchers] = {}
        self._guard = threading.Lock()
        if not 0 <= port < 1 << 16:  # getaddrinfo would take another
            raise DistNetworkError(f"store: a port is a number from 0 to 65535, received {port}")
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, _, _, _, address = addresses[0]
            self.socket = socket.create_server(address[:2], family=family, backlog=1024)
        except OSError as error:
            raise DistNetworkError(
                f"store: cannot listen on {host}:{port}: {error.strerror or error}. Choose another "
                "port (MASTER_PORT), or an address of this machine (MASTER_ADDR)."
            ) from None
        self.host = host
        self.port = int(self.socket.getsockname()[1])
        self._closed = False
        threading.Thread(target=self._accept, name="adjoint store", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def watchers(self, job: str) -> Watchers:
        """Those of a job."""
        with self._guard:
            return self.jobs.setdefault(job, Watchers())

    def _accept(self) -> None:
        while not self._closed:
            try:
                accepted, _ = self.socket.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(REFUSED)  # too many files are open
                continue
            keep_alive(accepted)
            line = Connection(accepted.detach())
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: Connection) -> None:
        with contextlib.suppress(OSError, EOFError, DistNetworkError), line:
            prove(line, self.secret, listening=True)
            while True:
                command, *fields = receive(line)
                if command == b"watch":
                    self._watch(line, *texts(fields))
                    return
                try:
                    send(line, "ok", *COMMANDS[command.decode()](self, fields))
                except (DistStoreError, KeyError, ValueError) as error:
                    send(line, "error", str(error))

    def _watch(self, line: Connection, job: str, rank_text: str) -> None:
        watchers, rank = self.watchers(job), int(rank_text)
        watchers.enter(rank, line)
        why = "it died"
        try:
            while True:
                kind, text = texts(receive(line))
                if kind == "bye":
                    why = text
                    return
                watchers.answer(rank, text)
        finally:
            watchers.leave(rank, why)


def keep_alive(line: socket.socket) -> None:
    """Notice within seconds that a machine is gone."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


Answer = list[bytes]


def _wait(server: StoreServer, fields: list[bytes]) -> Answer:
    seconds, *keys = texts(fields)
    server.values.wait(keys, float(seconds))
    return []


def _set(server: StoreServer, fields: list[bytes]) -> Answer:
    server.values.set(fields[0].decode(), fields[1])
    return []


def _reports(server: StoreServer, fields: list[bytes]) -> Answer:
    answers = server.watchers(fields[0].decode()).collect()
    return [part.encode() for rank, text in answers.items() for part in (str(rank), text)]


def _number(value: int) -> Answer:
    return [str(value).encode()]


# What a request may ask for: its fields -> the answer's.
COMMANDS: dict[str, Callable[[StoreServer, list[bytes]], Answer]] = {
    "set": _set,
    "get": lambda s, f: [s.values.get_within(f[0].decode(), float(f[1]))],
    "add": lambda s, f: _number(s.values.add(f[0].decode(), int(f[1]))),
    "compare_set": lambda s, f: [s.values.compare_set(*texts(f))],
    "delete": lambda s, f: _number(s.values.delete_key(f[0].decode())),
    "check": lambda s, f: _number(s.values.check(texts(f))),
    "wait": _wait,
    "count": lambda s, f: _number(s.values.num_keys()),
    "reports": _reports,
    "time": lambda s, f: [repr(time.time()).encode()],
}
