"""The launcher: starts processes, watches them, ends all when one fails, starts them anew.

With several machines there is one launcher on each; the first keeps the store, and through it the
others learn who they are and that a process elsewhere has failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from adjoint.distributed.errors import DistError, DistNetworkError, DistStoreError
from adjoint.distributed.launch.names import ERROR_FILE, LAUNCHER
from adjoint.distributed.launch.options import LaunchOptions
from adjoint.distributed.rendezvous import SERVED
from adjoint.distributed.store.base import PrefixStore, Store
from adjoint.distributed.store.secret import VARIABLE, job_secret
from adjoint.distributed.store.tcp import TCPStore


@dataclass(frozen=True, slots=True)
class Failure:
    """The first process that failed."""

    rank: int
    host: str
    pid: int
    why: str
    message: str

    def __str__(self) -> str:
        said = f"\n  {self.message}" if self.message else ""
        return f"rank {self.rank} (process {self.pid} on {self.host}) {self.why}{said}"


class Stopped(Exception):
    """The launcher was told to end."""


@dataclass(slots=True)
class Process:
    """A process of this machine."""

    rank: int
    popen: subprocess.Popen[bytes]
    error_file: Path

    def failure(self) -> Failure | None:
        """How it failed, if it has ended and did."""
        code = self.popen.poll()
        if not code:
            return None
        if code < 0:
            why = f"was killed by {signal.Signals(-code).name}"
        else:
            why = f"failed with exit code {code}"
        message = ""
        with contextlib.suppress(OSError, ValueError, KeyError):
            message = str(json.loads(self.error_file.read_text())["message"])
        return Failure(self.rank, socket.gethostname(), self.popen.pid, why, message)


def launch(options: LaunchOptions) -> int:
    """Run a job to its end; returns the exit code."""
    secret = os.environ.get(VARIABLE)
    key = secret.encode() if secret else None
    if key is None:
        key = secrets.token_hex(32).encode() if options.machines == 1 else job_secret()
    try:
        store, first = meet_machines(options, key)
        before = {stop_signal: signal.signal(stop_signal, stop) for stop_signal in options.stops}
        try:
            return Agent(options, store, key, first).run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            store.close()
    except DistError as error:
        print(f"adjoint launch: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # a command that is not there, a folder that cannot be written to
        print(f"adjoint launch: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1


def stop(number: int, frame: Any) -> None:
    """A signal handler that ends the job."""
    raise Stopped(signal.Signals(number).name)


def meet_machines(options: LaunchOptions, key: bytes) -> tuple[TCPStore, bool]:
    """The store all launchers share, and whether this one keeps it."""
    keeps = options.machines == 1 or options.machine in (0, None)
    if keeps:
        try:
            store = TCPStore(
                options.host, options.port, is_master=True, timeout=options.meeting, secret=key
            )
        except DistNetworkError:
            if options.machine == 0 or options.machines == 1:
                raise
        else:
            return store, True
    return TCPStore(options.host, options.port, timeout=options.meeting, secret=key), False


class Agent:
    """One machine's launcher."""

    def __init__(self, options: LaunchOptions, store: TCPStore, key: bytes, first: bool) -> None:
        self.options, self.store, self.key = options, store, key
        self.job: Store = PrefixStore(f"launch/{options.run_id}", store)
        self.keeps = first
        self.machine = self._number(first)
        self.job.add("came", 1)
        self.folder = Path(options.log_dir or tempfile.mkdtemp(prefix="adjoint-launch-"))
        printed = any((*options.redirects.values(), *options.tee.values()))
        self.temporary = options.log_dir is None and not printed
        if options.log_dir is None and printed:
            print(f"adjoint launch: what processes print goes to {self.folder}", file=sys.stderr)
        self.processes: list[Process] = []
        self.pumps: list[threading.Thread] = []

    def _number(self, first: bool) -> int:
        machine = self.options.machine
        if machine is not None:
            if self.job.add(f"machine {machine} is here", 1) > 1:
                raise DistError(
                    f"two launchers were given --node-rank={machine}: each machine has a number "
                    f"of its own, 0 to {self.options.machines - 1}"
                )
            return machine
        return self.job.add("machines", 1) - 1 if not first else self.job.add("machines", 1) * 0

    def run(self) -> int:
        """Attempt after attempt, until one succeeds or none is left."""
        try:
            for attempt in range(self.options.max_restarts + 1):
                failure = self.attempt(attempt)
                if failure is None:
                    return 0
                print(f"adjoint launch: {failure}", file=sys.stderr)
                if attempt < self.options.max_restarts:
                    left = self.options.max_restarts - attempt
                    print(
                        f"adjoint launch: all processes are started anew ({left} more)",
                        file=sys.stderr,
                    )
            return 1
        except Stopped as stopped:
            print(f"adjoint launch: ended by {stopped}", file=sys.stderr)
            return 128 + int(getattr(signal.Signals, str(stopped)))
        finally:
            self.end()
            self.part()
            if self.temporary:
                for path in sorted(self.folder.rglob("*"), reverse=True):
                    path.rmdir() if path.is_dir() else path.unlink()
                self.folder.rmdir()

    def attempt(self, number: int) -> Failure | str | None:
        """Start all processes and wait; the failure that ended them, if one did."""
        place = PrefixStore(f"attempt{number}", self.job)
        place.set(f"machine{self.machine}", str(self.options.processes))
        counts = [self.processes_of(m, place) for m in range(self.options.machines)]
        offset, size = sum(counts[: self.machine]), sum(counts)
        try:
            for local in range(self.options.processes):
                self.start(number, offset + local, local, size)
            return self.watch(place)
        finally:
            self.end()

    def processes_of(self, machine: int, place: Store) -> int:
        """How many processes another machine starts, once it is here."""
        try:
            return int(place.get(f"machine{machine}"))
        except DistStoreError as error:
            raise DistError(
                f"machine {machine} of {self.options.machines} has not come within "
                f"{self.options.meeting:g} s. Start `adjoint launch` on each machine, with the "
                "same --nnodes, --rdzv-endpoint and --rdzv-id."
            ) from error

    def part(self) -> None:
        """The machine that keeps the store leaves after those that came, who still read it."""
        if self.options.machines == 1:
            return
        with contextlib.suppress(DistError):
            left = self.job.add("left", 1)
            deadline = time.monotonic() + self.options.mercy
            while self.keeps and left < self.job.add("came", 0) and time.monotonic() < deadline:
                time.sleep(self.options.interval)
                left = self.job.add("left", 0)

    def watch(self, place: Store) -> Failure | str | None:
        """Wait until all processes everywhere have ended well, or one has failed anywhere."""
        said_done = False
        while True:
            failures = [f for p in self.processes if (f := p.failure()) is not None]
            if failures:
                worst = failures[0]
                place.compare_set("failed", "", str(worst))
                return place.get("failed").decode() if self.options.machines > 1 else worst
            if not said_done and all(p.popen.poll() == 0 for p in self.processes):
                said_done = True
                if place.add("done", 1) == self.options.machines:
                    place.set("all done", b"")
                if self.options.machines == 1:
                    return None
            if self.options.machines > 1:
                if place.check(["failed"]):
                    return place.get("failed").decode()
                if said_done and place.check(["all done"]):
                    return None
            time.sleep(self.options.interval)

    # -- processes -------------------------------------------------------------------------------

    def start(self, attempt: int, rank: int, local: int, size: int) -> None:
        """Start one process."""
        options = self.options
        folder = self.folder / f"attempt_{attempt}" / str(rank)
        folder.mkdir(parents=True, exist_ok=True)
        error_file = folder / "error.json"
        environment = dict(os.environ)
        environment.update(
            {
                "RANK": str(rank),
                "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(size),
                "LOCAL_WORLD_SIZE": str(options.processes),
                "GROUP_RANK": str(self.machine),
                "GROUP_WORLD_SIZE": str(options.machines),
                "ROLE_RANK": str(rank),
                "ROLE_NAME": options.role,
                "ROLE_WORLD_SIZE": str(size),
                "MASTER_ADDR": self.store.host,
                "MASTER_PORT": str(self.store.port),
                "TORCHELASTIC_RESTART_COUNT": str(attempt),
                "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
                "TORCHELASTIC_RUN_ID": options.run_id,
                "TORCHELASTIC_USE_AGENT_STORE": "True",
                ERROR_FILE: str(error_file),
                SERVED: "1",
                LAUNCHER: str(os.getpid()),
                VARIABLE: self.key.decode(),
            }
        )
        if options.one_gpu_each:
            environment.update(only_gpu(local, os.environ.get("CUDA_VISIBLE_DEVICES")))
        if options.processes > 1:  # else every process takes every core
            environment.setdefault("OMP_NUM_THREADS", "1")
        command = [*options.program]
        if options.python:
            mark = ["-m"] if options.as_module else []
            module = "adjoint.distributed.launch.worker"
            command = [sys.executable, "-u", "-m", module, *mark, *command]
        outputs = [self.output(folder, local, 1), self.output(folder, local, 2)]
        popen = subprocess.Popen(
            command, env=environment, stdout=outputs[0], stderr=outputs[1], start_new_session=True
        )
        self.processes.append(Process(rank, popen, error_file))
        for number, output, pipe in ((1, outputs[0], popen.stdout), (2, outputs[1], popen.stderr)):
            if pipe is not None:
                self.pump(pipe, folder, number, local)
            elif output is not None and not isinstance(output, int):
                output.close()

    def output(self, folder: Path, local: int, number: int) -> Any:
        """Where stdout (1) or stderr (2) of a process goes."""
        options = self.options
        if options.tee.get(local, 0) & number:
            return subprocess.PIPE
        if options.redirects.get(local, 0) & number:
            return open(folder / NAMES[number], "wb")
        hidden = options.shown is not None and local not in options.shown
        return subprocess.DEVNULL if hidden else None

    def pump(self, pipe: IO[bytes], folder: Path, number: int, local: int) -> None:
        """Copy a process's output to a file, and to ours with its name before each line."""
        ours = sys.stdout if number == 1 else sys.stderr
        shown = self.options.shown is None or local in self.options.shown
        name = f"[{self.options.role}{local}]:"

        def run() -> None:
            with open(folder / NAMES[number], "wb") as file:
                for line in pipe:
                    file.write(line)
                    file.flush()
                    if shown:
                        ours.write(name + line.decode(errors="replace"))
                        ours.flush()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.pumps.append(thread)

    def end(self) -> None:
        """End what still runs, with all it has started."""
        for process in self.processes:
            send_group(process.popen, signal.SIGTERM)
        deadline = time.monotonic() + self.options.mercy
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(max(0.0, deadline - time.monotonic()))
            send_group(process.popen, signal.SIGKILL)
            process.popen.wait()
        for thread in self.pumps:
            thread.join(self.options.mercy)
        self.processes, self.pumps = [], []


NAMES = {1: "stdout.log", 2: "stderr.log"}


def only_gpu(local: int, visible: str | None) -> dict[str, str]:
    """What a process reads that is to see one GPU, as its first.

    >>> only_gpu(1, "4,6")
    {'LOCAL_RANK': '0', 'CUDA_VISIBLE_DEVICES': '6'}
    """
    names = visible.split(",") if visible else [str(i) for i in range(local + 1)]
    if local >= len(names):
        raise DistError(
            f"--virtual-local-rank: process {local} of this machine has no GPU: "
            f"CUDA_VISIBLE_DEVICES={visible}"
        )
    return {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": names[local]}


def send_group(popen: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and its children; they have a group of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, number)
