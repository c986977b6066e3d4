"""The worker process: fetches batches by index, or the next ones of a stream."""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.data.fetch import Fetcher
from adjoint.data.shared import SharedSegments, send
from adjoint.data.worker_info import WORKER, WorkerInfo
from adjoint.engine.core.state.rng import seed_all

CHECK_SECONDS = 2.0  # how often an idle worker looks whether its parent lives


@dataclass(slots=True, frozen=True)
class WorkerSetup:
    """All a worker needs to begin."""

    dataset: Any
    collate_fn: Any
    auto_collation: bool
    drop_last: bool
    init_fn: Any
    base_seed: int
    worker_id: int
    num_workers: int
    stream: bool

    def fetcher(self) -> Fetcher:
        """Who reads the worker's batches, from the dataset's beginning."""
        return Fetcher(
            self.dataset, self.auto_collation, self.collate_fn, self.drop_last, self.stream
        )


@dataclass(slots=True, frozen=True)
class WorkerFailure:
    """An exception in a worker, with its traceback as text."""

    kind: type[BaseException]
    text: str
    where: str

    def raise_again(self) -> None:
        """Raise an exception of the same kind that shows the worker's traceback."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            message = _Verbatim(message)  # KeyError prints the repr of its argument
        try:
            error = self.kind(message)
        except Exception:  # its constructor wants something else
            error = RuntimeError(message)
        try:
            raise error from None
        finally:
            del error  # no cycle through this frame, which would keep the workers alive


class _Verbatim(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(slots=True, frozen=True)
class Exhausted:
    """A worker's stream has ended."""

    worker_id: int


@dataclass(slots=True, frozen=True)
class Resumed:
    """A persistent worker has begun a new epoch."""

    worker_id: int


def failure(where: str) -> WorkerFailure:
    """The exception being handled, ready to be sent."""
    kind, _, _ = sys.exc_info()
    return WorkerFailure(kind or RuntimeError, traceback.format_exc(), where)


def seed_everything(seed: int) -> None:
    """Seed Adjoint's, Python's and NumPy's generators."""
    random.seed(seed)
    seed_all(seed % 2**64)
    np.random.seed(np.random.SeedSequence(seed).generate_state(4))


def batch_seed(base_seed: int, number: int) -> int:
    """The seed of one batch: the same whichever worker makes it.

    Note [batch seeds]
        Before each batch a worker seeds its generators from the epoch's seed and the batch's
        number, so that random transforms do not depend on how many workers there are, and a
        resumed epoch draws what the interrupted one would have. A `worker_init_fn` may seed as it
        likes, so where one is given workers are seeded once, as in PyTorch.
    """
    return (base_seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xBF58476D1CE4E5B9) % 2**63


def _listen(connection: Any, tasks: queue.SimpleQueue[Any]) -> None:
    """Take tasks off the socket as they come, so that the parent never waits; leave with it."""
    parent, parent_id = multiprocessing.parent_process(), os.getppid()
    task: Any = ()
    try:
        while task is not None:  # None asks to stop; the end of the connection comes after it
            while not connection.poll(CHECK_SECONDS):
                if os.getppid() != parent_id or (parent is not None and not parent.is_alive()):
                    os._exit(1)
            task = connection.recv()
            tasks.put(task)
    except (EOFError, OSError):
        os._exit(1)  # the parent is gone: nobody will ever read what is being made


def work(connection: Any, others: list[Any], plan: WorkerSetup) -> None:
    """The worker's main function."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; see the loader's shutdown
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:  # ends that a fork copied: their owners must see them close
        other.close()
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, tasks), daemon=True).start()
    arena = WORKER.arena = SharedSegments()
    seed = plan.base_seed + plan.worker_id
    seed_everything(seed)
    WORKER.info = WorkerInfo(plan.worker_id, plan.num_workers, seed, plan.dataset)
    where = f"in DataLoader worker process {plan.worker_id}"
    problem = fetcher = None
    base_seed = plan.base_seed
    try:
        if plan.init_fn is not None:
            plan.init_fn(plan.worker_id)
        fetcher = plan.fetcher()
    except Exception:
        problem = failure(where)
    while (task := tasks.get()) is not None:
        number, indices, returned = task
        arena.returned(returned)
        result: Any
        if number is None:  # a new epoch of persistent workers; `indices` is its seed
            base_seed = indices
            try:
                fetcher = plan.fetcher()
                problem, result = None, Resumed(plan.worker_id)
            except Exception:
                problem = failure(where)
                result = Resumed(plan.worker_id)
        elif problem is not None or fetcher is None:
            result, problem = problem, None
        else:
            if plan.init_fn is None:
                seed_everything(batch_seed(base_seed, number))
            result = _fetch(fetcher, indices, where, plan.worker_id)
        _reply(connection, number, result, arena, where)
        del result, task
    connection.close()


def _fetch(fetcher: Fetcher, indices: Any, where: str, worker_id: int) -> Any:
    try:
        return fetcher.fetch(indices)
    except StopIteration:
        if fetcher.is_stream:
            return Exhausted(worker_id)
        return failure(where)
    except Exception:
        return failure(where)


def _reply(
    connection: Any, number: int | None, result: Any, arena: SharedSegments, where: str
) -> None:
    try:
        send(connection, (number, result), arena)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)
    except Exception:  # the batch, or the exception's type, cannot be pickled
        problem = failure(where)
        try:
            send(connection, (number, problem), arena)
        except Exception:
            plain = WorkerFailure(RuntimeError, problem.text, where)
            send(connection, (number, plain), arena)
