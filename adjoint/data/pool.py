"""A loader's worker processes: starting, asking, waiting, and ending them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import weakref
from errno import EMFILE
from multiprocessing.connection import wait
from typing import Any

from adjoint.data.shared import Inbox, descriptor_limit
from adjoint.data.worker import WorkerSetup, work

START_DESCRIPTORS = 8  # more than starting a process takes for a moment, by any method
STOP_SECONDS = 2.0  # how long a worker may take to finish its batch before it is ended


class Worker:
    """One process, the connection to it and the memory it shares."""

    __slots__ = ("connection", "inbox", "index", "outstanding", "process", "running")

    def __init__(self, index: int, process: Any, connection: Any) -> None:
        self.index = index
        self.process = process
        self.connection = connection
        self.inbox = Inbox()
        self.outstanding = 0
        self.running = True  # False once its stream has ended

    def ask(self, number: int | None, what: Any) -> None:
        """Send a task: a batch's number and indices, or None and the seed of a new epoch."""
        self.connection.send((number, what, self.inbox.take_returned()))


class Broken(RuntimeError):
    """The workers cannot go on, while batches were still expected of them."""


class WorkerDied(Broken):
    """A worker process ended while batches were still expected of it."""


class WorkerProcesses:
    """The workers of one iterator. They end with it, whichever way it ends."""

    def __init__(self, context: Any, plans: list[WorkerSetup]) -> None:
        self.workers: list[Worker] = []
        self._finalize = weakref.finalize(self, stop, self.workers, os.getpid())
        try:
            for plan in plans:
                self.workers.append(self._start(context, plan))
        except BaseException:
            self.stop()
            raise

    def _start(self, context: Any, plan: WorkerSetup) -> Worker:
        try:
            ours, theirs = context.Pipe(duplex=True)
        except OSError as error:
            raise _not_started(plan, error) from error
        try:
            # A forked child has copies of the parent's ends, and must close them.
            forked = context.get_start_method() == "fork"
            copied = [w.connection for w in self.workers] + [ours] if forked else []
            process = context.Process(target=work, args=(theirs, copied, plan), daemon=True)
            _make_sure_of_descriptors(ours)
            process.start()
        except OSError as error:
            ours.close()
            raise _not_started(plan, error) from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return Worker(plan.worker_id, process, ours)

    def receive(self, timeout: float) -> tuple[Worker, Any]:
        """The next message of any worker; 0 waits for as long as all workers live."""
        deadline = time.monotonic() + timeout if timeout > 0 else None
        watched: dict[Any, Worker] = {}
        for worker in self.workers:
            if worker.outstanding:
                watched[worker.connection] = watched[worker.process.sentinel] = worker
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = wait(list(watched), left)
            if not ready:
                raise RuntimeError(
                    f"DataLoader timed out after {timeout} seconds waiting for a batch from its "
                    "workers. Raise `timeout`, or look for what blocks in the dataset."
                )
            ready.sort(key=lambda source: isinstance(source, int))  # what was sent comes first
            worker = watched[ready[0]]
            if isinstance(ready[0], int):
                raise self._died(worker)
            try:
                message = worker.inbox.receive(worker.connection)
            except (EOFError, ConnectionResetError):
                raise self._died(worker) from None
            except OSError as error:  # no descriptor, or no memory to map a batch in
                raise Broken(f"DataLoader: {error.strerror or error}") from error
            worker.outstanding -= 1
            return worker, message

    def ask(self, worker: Worker, number: int | None, what: Any) -> None:
        """Give a worker a task."""
        try:
            worker.ask(number, what)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died(worker) from None
        worker.outstanding += 1

    def _died(self, worker: Worker) -> WorkerDied:
        worker.process.join(STOP_SECONDS)
        pid, code = worker.process.pid, worker.process.exitcode
        if code is not None and code < 0:
            name = signal.strsignal(-code) or f"signal {-code}"
            how = f"is killed by signal: {name}."
            if -code == signal.SIGKILL:
                how += " The system may be out of memory."
            elif -code in (signal.SIGBUS, signal.SIGSEGV):
                how += " The dataset's code crashed, or shared memory ran out."
        elif code is None:
            how = "closed its connection, but runs on. Its output may say why."
        else:
            how = f"exited unexpectedly with exit code {code}. Its output may say why."
            if code == 1:
                how += (
                    " With the spawn start method the main module must be importable: keep the "
                    "training code under `if __name__ == '__main__':`."
                )
        return WorkerDied(f"DataLoader worker {worker.index} (pid {pid}) {how}")

    def stop(self) -> None:
        """End the workers."""
        self._finalize()


def _make_sure_of_descriptors(connection: Any) -> None:
    """Raise before a process is started that would run out of descriptors.

    Python opens two pipes for it, and leaves the first open where the second cannot be.
    """
    with contextlib.ExitStack() as taken:
        for _ in range(START_DESCRIPTORS):
            taken.callback(os.close, os.dup(connection.fileno()))


def _not_started(plan: WorkerSetup, error: OSError) -> OSError:
    """The error for a worker that the system does not let start."""
    reason = descriptor_limit() if error.errno == EMFILE else str(error.strerror)
    return OSError(
        error.errno,
        f"DataLoader: cannot start worker {plan.worker_id + 1} of {plan.num_workers}: {reason}",
    )


def stop(workers: list[Worker], owner: int) -> None:
    """Ask workers to end, then make them."""
    if os.getpid() != owner:  # a copy of the pool in a forked process
        return
    for worker in workers:
        with contextlib.suppress(OSError, ValueError):
            worker.connection.send(None)
    deadline = time.monotonic() + STOP_SECONDS
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
    for end in ("terminate", "kill"):
        for worker in workers:
            if worker.process.is_alive():
                getattr(worker.process, end)()
                worker.process.join(1.0)
    for worker in workers:
        worker.connection.close()
        with contextlib.suppress(ValueError):
            worker.process.close()
    workers.clear()
