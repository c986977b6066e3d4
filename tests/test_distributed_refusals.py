"""What is wrong at the start of several processes is said, on every one of them, with its name."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import adjoint.distributed as dist
from adjoint.distributed.engines import mpi
from adjoint.distributed.rendezvous import ProcessPlace, meet
from adjoint.distributed.store.server import StoreServer

LONG = 60.0  # seconds that nothing here has to wait for


def outcomes(*calls: Callable[[], Any]) -> list[str]:
    """What each of some calls, made at once, says when it fails; "" where it does not."""
    said = [""] * len(calls)

    def run(at: int, call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:
            said[at] = f"{type(error).__name__}: {error}"

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def test_ranks_that_disagree_are_told_on_each() -> None:
    store = dist.HashStore()
    places = [ProcessPlace(0, 2), ProcessPlace(1, 3)]
    said = outcomes(*(lambda p=p: meet(store, p, LONG) for p in places))
    assert all("processes disagree on world_size" in each for each in said), said


def test_a_store_that_goes_with_rank_0_has_told_of_the_conflict() -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=LONG)

    def keeper() -> None:
        try:
            meet(store, ProcessPlace(0, 2), LONG)
        finally:
            store.close()

    other = store.clone()
    said = outcomes(keeper, lambda: meet(other, ProcessPlace(1, 3), LONG))
    assert all("processes disagree on world_size" in each for each in said), said


def test_one_rank_twice_is_told_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    store = dist.HashStore()
    numbers = iter([111, 222])
    here = SimpleNamespace(environ=os.environ, getpid=lambda: next(numbers))
    monkeypatch.setattr(sys.modules[meet.__module__], "os", here)
    said = outcomes(*(lambda: meet(store, ProcessPlace(0, 2), LONG) for _ in range(2)))
    assert all("two processes are rank 0" in each for each in said), said
    assert "process 111" in said[0]
    assert "process 222" in said[0]


def test_ranks_that_do_not_come_are_named() -> None:
    with pytest.raises(dist.DistStoreError, match="after 0 s rank.s. 1, 2 of 3 have not come"):
        meet(dist.HashStore(), ProcessPlace(0, 3), 0.0)


def test_a_rank_beyond_the_world() -> None:
    with pytest.raises(ValueError, match="rank must be from 0 to 1 .world_size 2., received 2"):
        dist.init_process_group("gloo", rank=2, world_size=2)


def test_a_missing_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(dist.DistBackendError, match=r"mpi4py is not installed. .*adjoint\[mpi\]"):
        mpi.load()
    with pytest.raises(dist.DistBackendError, match="mpi4py is not installed"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    assert not dist.is_initialized()


def test_an_engine_that_is_not_connected() -> None:
    if not dist.is_nccl_available():
        with pytest.raises(RuntimeError, match="NCCL is not available: .*"):
            dist.init_process_group("nccl", rank=0, world_size=2)
    with pytest.raises(ValueError, match="Invalid backend: 'carrier'"):
        dist.init_process_group("carrier")


def test_a_master_that_does_not_answer() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(dist.DistNetworkError, match=f"nothing answers.*{port}|{port}.*answers"):
            dist.TCPStore("127.0.0.1", port, timeout=0.1)


@pytest.mark.parametrize("said", [b"", b"\0", b"\0\0\0\x64half"], ids=["silence", "byte", "part"])
def test_a_stranger_that_stays_silent_is_an_error_within_the_timeout(said: bytes) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        taken = []

        def answer() -> None:
            taken.append(stranger.accept()[0])
            taken[0].sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(dist.DistNetworkError, match=f"{port}: .*did not prove"):
            dist.TCPStore("127.0.0.1", port, timeout=0.1)
        thread.join()
        taken[0].close()


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_that_cannot_be(port: int) -> None:
    for keeps in (True, False):
        with pytest.raises(dist.DistNetworkError, match=f"65535, received {port}"):
            dist.TCPStore("127.0.0.1", port, is_master=keeps, timeout=LONG)


def test_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(dist.DistNetworkError, match=f"cannot listen .*{port}"):
            dist.TCPStore("127.0.0.1", port, is_master=True)


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.0\r\n\r\n", bytes(range(256)) * 64])
def test_an_outsider_learns_and_changes_nothing(said: bytes) -> None:
    server = StoreServer("127.0.0.1", 0, b"ours")
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.settimeout(LONG)
            heard = b""
            try:
                line.sendall(said)
                line.shutdown(socket.SHUT_WR)
                while piece := line.recv(4096):
                    heard += piece
            except TimeoutError:
                raise
            except OSError:  # hung up on, at any of these
                pass
        assert b"ours" not in heard
        with pytest.raises(dist.DistNetworkError, match="secret"):
            dist.TCPStore("127.0.0.1", server.port, secret=b"theirs", timeout=LONG)
        store = dist.TCPStore("127.0.0.1", server.port, secret=b"ours", timeout=LONG)
        assert store.num_keys() == 0
        store.close()
    finally:
        server.close()


def test_the_store_listens_on_the_given_interface_only() -> None:
    server = StoreServer("127.0.0.1", 0, b"ours")
    try:
        if not Path("/proc/net/tcp").exists():
            pytest.skip("this system has no /proc/net/tcp")
        rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ours = [r[1] for r in rows if int(r[1].split(":")[1], 16) == server.port and r[3] == "0A"]
        assert ours == [f"0100007F:{server.port:04X}"]
    finally:
        server.close()


def test_a_port_in_use_ends_the_launcher(tmp_path: Path) -> None:
    script = tmp_path / "never.py"
    script.write_text("raise SystemExit('started')")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [
                sys.executable, "-m", "adjoint.cli", "launch", "--nproc-per-node=2",
                "--master-addr=127.0.0.1", f"--master-port={port}", str(script),
            ],
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
    assert done.returncode != 0
    assert str(port) in done.stderr
    assert "started" not in done.stderr
