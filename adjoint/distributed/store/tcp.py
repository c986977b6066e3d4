"""A store that one process keeps and the others reach over the network."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from adjoint.distributed.constants import seconds_of
from adjoint.distributed.errors import DistNetworkError, DistStoreError
from adjoint.distributed.store.base import Store, as_bytes
from adjoint.distributed.store.secret import job_secret, prove
from adjoint.distributed.store.server import StoreServer, keep_alive
from adjoint.distributed.store.wire import receive, send, texts

RETRY = 0.05  # seconds between attempts to reach a store that is not there yet
_lines: weakref.WeakSet[Connection] = weakref.WeakSet()


def _close_in_child() -> None:
    """A child that kept a line open would hide its parent's death."""
    for line in list(_lines):
        with contextlib.suppress(OSError):
            os.close(line.fileno())
        line._handle = None  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def reach(host: str, port: int, secret: bytes, seconds: float) -> Connection:
    """A line to a store, as soon as there is one."""
    end = time.monotonic() + seconds
    if not 0 < port < 1 << 16:  # the system would take another
        raise DistNetworkError(f"store: a port is a number from 1 to 65535, received {port}")
    while True:
        try:
            plain = socket.create_connection((host, port), timeout=max(1.0, end - time.monotonic()))
            break
        except socket.gaierror as error:
            raise DistNetworkError(
                f"store: no machine is known as {host!r} ({error.strerror}). Check MASTER_ADDR."
            ) from None
        except OSError as error:
            if time.monotonic() > end:
                raise DistNetworkError(
                    f"store: nothing answers at {host}:{port} after {seconds:g} s "
                    f"({error.strerror or error}). Check that rank 0 was started, that MASTER_ADDR "
                    "and MASTER_PORT name it, and that no firewall is between."
                ) from None
            time.sleep(RETRY)
    plain.settimeout(None)
    keep_alive(plain)
    line = Connection(plain.detach())
    _lines.add(line)
    try:
        prove(line, secret, listening=False, seconds=max(0.1, end - time.monotonic()))
    except DistNetworkError as error:
        raise DistNetworkError(f"store: {host}:{port}: {error}") from None
    except (EOFError, OSError):
        raise DistNetworkError(
            f"store: {host}:{port} hung up. It is no store of Adjoint's, or of a job with another "
            "secret ($ADJOINT_JOB_SECRET)."
        ) from None
    return line


class TCPStore(Store):
    """A store over the network; only processes with the job's secret can use it.

    Args:
        host_name: the machine that keeps it; with `is_master`, the interface it listens on.
        port: its port; with `is_master`, 0 takes a free one (`store.port`).
        world_size: how many processes will use it; kept for programs that ask.
        is_master: whether this process keeps it.
        timeout: how long `get`, `wait` and connecting wait.
        wait_for_workers: with `world_size` and `is_master`, whether to wait until all have come.
        secret: what both ends must know; the job's unless given.

    Example:
        >>> store = TCPStore("127.0.0.1", 0, is_master=True)
        >>> store.set("a", "1")
        >>> TCPStore("127.0.0.1", store.port).get("a")
        b'1'
    """

    def __init__(
        self,
        host_name: str,
        port: int = 29500,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: Any = None,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
        secret: bytes | None = None,
    ) -> None:
        super().__init__(timeout)
        if master_listen_fd is not None:
            raise NotImplementedError("TCPStore: master_listen_fd is not supported; pass a port")
        self.host = host_name
        self.world_size = world_size
        self.secret = job_secret() if secret is None else secret
        self.server = StoreServer(host_name, port, self.secret) if is_master else None
        self.port = port if self.server is None else self.server.port
        self._guard = threading.Lock()
        self._line = reach(self.host, self.port, self.secret, self._timeout)
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._gather(world_size)

    def _gather(self, world_size: int) -> None:
        if self.add("store/arrived", 1) == world_size:
            self.set("store/all", b"")
        if self.server is not None:  # only the keeper waits, as in PyTorch
            self.wait(["store/all"])

    def _ask(self, command: str, *fields: str | bytes) -> list[bytes]:
        try:
            with self._guard:
                send(self._line, command, *fields)
                status, *answer = receive(self._line)
        except (OSError, EOFError):
            raise DistStoreError(
                f"store: the process that keeps it, at {self.host}:{self.port}, is gone"
            ) from None
        if status != b"ok":
            raise DistStoreError(answer[0].decode())
        return answer

    def clone(self) -> TCPStore:
        """Another line to the same store, for another thread."""
        return TCPStore(self.host, self.port, timeout=self._timeout, secret=self.secret)

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", key, as_bytes(value))

    def get(self, key: str) -> bytes:
        return self._ask("get", key, repr(self._timeout))[0]

    def add(self, key: str, amount: int) -> int:
        return int(self._ask("add", key, str(amount))[0])

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        return self._ask("compare_set", key, expected_value, desired_value)[0]

    def delete_key(self, key: str) -> bool:
        return self._ask("delete", key)[0] == b"True"

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask("check", *keys)[0] == b"True"

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        seconds = self._timeout if timeout is None else seconds_of(timeout)
        self._ask("wait", repr(seconds), *keys)

    def num_keys(self) -> int:
        return int(self._ask("count")[0])

    def reports(self, job: str) -> dict[int, str]:
        """What each process of a job is doing, as it says itself."""
        parts = texts(self._ask("reports", job))
        return {int(rank): text for rank, text in zip(parts[::2], parts[1::2], strict=True)}

    def close(self) -> None:
        """Hang up; and if this process keeps the store, stop keeping it."""
        with contextlib.suppress(OSError):
            self._line.close()
        if self.server is not None:
            self.server.close()
