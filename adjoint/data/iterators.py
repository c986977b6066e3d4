"""One pass over a dataset: in this process, or with workers."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Iterator
from typing import Any

from adjoint.data.fetch import Fetcher
from adjoint.data.pin import pin
from adjoint.data.pool import Broken, Worker, WorkerProcesses
from adjoint.data.position import Position, return_to, states_now
from adjoint.data.sampler import random_seed
from adjoint.data.worker import Exhausted, Resumed, WorkerFailure, WorkerSetup
from adjoint.engine.backends.array.gpu.cuda import is_available
from adjoint.engine.core.errors import warn_user


class LoaderIterator:
    """What both kinds have in common: order, pinning, and counting what was given out.

    The loader may be of a library's own (fastai's): only what PyTorch's iterators ask a loader for
    is asked for here.
    """

    at_start: Any = None  # of an epoch that is resumed: the generators, once its order is drawn

    def __init__(self, loader: Any, position: Position | None = None) -> None:
        self._loader = loader
        self._stream = bool(loader._dataset_kind)  # 0: a map, 1: an iterable
        self._pin = loader.pin_memory and can_pin()
        self._begin(position or Position())

    def _begin(self, position: Position) -> None:
        self._position = position
        # As it was stated before: `list(loader)` asks for it afterwards, and takes what comes.
        self._stated = self._loader._IterableDataset_len_called
        self._base_seed = random_seed(self._loader.generator)
        self._indices = iter(self._loader._index_sampler)
        # The order is drawn again from the start, without fetching; of a stream, by fetching.
        self._skip = position.batches
        if not self._stream:
            for _ in itertools.islice(self._indices, self._skip):
                pass

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        position = self._position
        try:
            if self._stream and self._skip:
                self._fetch_again()
            batch = self._next_batch()
        except StopIteration:
            position.finished = True
            raise
        position.batches += 1
        self._check_length()
        return batch

    next = __next__

    def _fetch_again(self) -> None:
        """Fetch of a stream what was given out before, with the generators as they were then."""
        now = states_now(self._loader)
        if self.at_start is not None:
            return_to(self.at_start)
        try:
            while self._skip:
                self._skip -= 1
                self._next_batch()
        finally:
            return_to(now)

    def _check_length(self) -> None:
        expected = self._stated
        if self._stream and expected is not None and self._position.batches > expected:
            message = (
                f"Length of IterableDataset {self._loader.dataset} was reported to be {expected} "
                f"(when accessing len(dataloader)), but {self._position.batches} samples have been "
                "fetched. "
            )
            if self._loader.num_workers > 0:
                message += (
                    "For multiprocessing data-loading, this could be caused by not properly "
                    "configuring the IterableDataset replica at each worker: see get_worker_info."
                )
            warn_user(message)

    def _next_batch(self) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


def can_pin() -> bool:
    """Whether there is a GPU to pin memory for; a warning where there is none."""
    if is_available():
        return True
    warn_user(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
        "memory won't be used."
    )
    return False


class SingleProcess(LoaderIterator):
    """Fetches in this process, when a batch is asked for."""

    def __init__(self, loader: Any, position: Position | None = None) -> None:
        super().__init__(loader, position)
        self._fetcher = Fetcher(
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
            self._stream,
        )

    def _next_batch(self) -> Any:
        batch = self._fetcher.fetch(next(self._indices))
        return pin(batch) if self._pin else batch


class MultiProcess(LoaderIterator):
    """Fetches in worker processes, `prefetch_factor` batches ahead for each."""

    def __init__(self, loader: Any, position: Position | None = None) -> None:
        super().__init__(loader, position)
        plans = [
            WorkerSetup(
                dataset=loader.dataset,
                collate_fn=loader.collate_fn,
                auto_collation=loader._auto_collation,
                drop_last=loader.drop_last,
                init_fn=loader.worker_init_fn,
                base_seed=self._base_seed,
                worker_id=i,
                num_workers=loader.num_workers,
                stream=self._stream,
            )
            for i in range(loader.num_workers)
        ]
        self._ahead = max(1, loader.prefetch_factor) * len(plans)
        self._dead: Broken | None = None
        context = loader.multiprocessing_context or multiprocessing.get_context()
        self._pool = WorkerProcesses(context, plans)
        self._start()

    def _start(self) -> None:
        workers = self._pool.workers
        first = 0 if self._stream else self._skip
        self._sent = self._given = first  # the next batch to ask for, and to give out
        self._turns: Iterator[Worker] = itertools.cycle(workers)
        for _ in range(first % len(workers)):
            next(self._turns)
        self._asked: dict[int, Worker] = {}
        self._arrived: dict[int, Any] = {}
        for worker in workers:
            worker.running = True
        for _ in range(self._ahead):
            self._ask()

    def reset(self, position: Position) -> None:
        """Begin another epoch with the same workers."""
        self._begin(position)
        waiting = len(self._pool.workers)
        for worker in self._pool.workers:
            self._pool.ask(worker, None, self._base_seed)
        while waiting:  # what was asked for in an epoch left early comes first, and is dropped
            _, (_, result) = self._pool.receive(self._loader.timeout)
            waiting -= isinstance(result, Resumed)
        self._start()

    def _ask(self) -> None:
        """Ask the worker whose turn it is for the next batch, if there is one."""
        if len(self._asked) >= self._ahead:
            return
        worker = self._choose()
        if worker is None:
            return
        indices = next(self._indices, self)
        if indices is self:
            return
        self._pool.ask(worker, self._sent, indices)
        self._asked[self._sent] = worker
        self._sent += 1

    def _choose(self) -> Worker | None:
        running = [w for w in self._pool.workers if w.running]
        if not running:
            return None
        if not self._loader.in_order:
            return min(running, key=lambda w: w.outstanding)
        return next(w for w in self._turns if w.running)

    def _next_batch(self) -> Any:
        if self._dead is not None:
            raise type(self._dead)(str(self._dead))
        while True:
            while self._given < self._sent and self._given not in self._arrived:
                worker = self._asked.get(self._given)
                if worker is not None and worker.running:
                    break
                self._given += 1  # given already, or asked of a stream that has ended
            if self._given >= self._sent and not self._asked:
                self._end()
                raise StopIteration
            if self._given in self._arrived:
                return self._give(self._given)
            number = self._receive()
            if number is not None and (number == self._given or not self._loader.in_order):
                return self._give(number)

    def _receive(self) -> int | None:
        """Take in one result; its number, or None where a stream has ended."""
        try:
            worker, (number, result) = self._pool.receive(self._loader.timeout)
        except Broken as error:
            self._dead = type(error)(str(error))  # without the traceback, which keeps the workers
            if hasattr(self._loader, "_forget"):
                self._loader._forget(self)
            self._pool.stop()
            raise
        if isinstance(result, Exhausted):
            worker.running = False
            self._asked = {n: w for n, w in self._asked.items() if n != number}
            self._ask()
            return None
        if self._pin and not isinstance(result, WorkerFailure):
            result = pin(result)
        self._arrived[number] = result
        return number

    def _give(self, number: int) -> Any:
        result = self._arrived.pop(number)
        del self._asked[number]
        if number == self._given:
            self._given += 1
        self._ask()
        if isinstance(result, WorkerFailure):
            result.raise_again()
        return result

    def _end(self) -> None:
        if not self._loader.persistent_workers:
            self._pool.stop()
