"""DataLoader: batches of a dataset, in order or shuffled, with or without worker processes."""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from adjoint.data import position as place
from adjoint.data.collate import default_collate, default_convert
from adjoint.data.dataset import Dataset, is_stream
from adjoint.data.iterators import LoaderIterator, MultiProcess, SingleProcess
from adjoint.data.sampler import BatchSampler, Endless, RandomSampler, SequentialSampler
from adjoint.engine.backends.array.host_random import host_state, set_host_state
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.state.rng import Generator

T_co = TypeVar("T_co", covariant=True)
_FIXED = frozenset("batch_size batch_sampler sampler drop_last dataset persistent_workers".split())


class Indexed(Protocol[T_co]):
    """Whatever has items by number: a list, or a class with `__getitem__`."""

    def __getitem__(self, index: int, /) -> T_co: ...


class DataLoader(Generic[T_co]):
    """Iterates over a dataset in batches.

    The order depends on the seed alone, not on the number of workers. Workers send batches through
    anonymous shared memory, without copies; they end with the loop, however it is left, and one
    that raises or dies raises here, with its traceback. `position` says where an epoch stands, so
    that a checkpoint can resume inside it.

    Args:
        dataset: items by index (`__getitem__`, `__len__`), or an IterableDataset.
        batch_size: items per batch; None turns batching off.
        shuffle: visit the items in a new random order each epoch.
        sampler: the order of indices, instead of `shuffle`.
        batch_sampler: lists of indices, instead of batch_size, shuffle, sampler and drop_last.
        num_workers: processes that fetch; 0 fetches in this one.
        collate_fn: makes a batch of a list of items.
        pin_memory: copy tensors to page-locked memory, for fast copies to a GPU.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a batch from workers; 0 waits on.
        worker_init_fn: called in each worker with its number. Without one, workers are seeded
            anew for every batch, so that random transforms depend on the seed alone.
        multiprocessing_context: a start method, or a context of `multiprocessing`.
        generator: the source of the order and of the workers' seeds.
        prefetch_factor: batches each worker fetches ahead, 2 unless given.
        persistent_workers: keep the workers from epoch to epoch.
        pin_memory_device: accepted as PyTorch has it.
        in_order: give batches in the order of the sampler even if a later one is ready.

    Example:
        >>> import adjoint as ad
        >>> data = ad.utils.data.TensorDataset(ad.arange(5))
        >>> [batch.tolist() for (batch,) in DataLoader(data, batch_size=2)]
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Dataset[T_co] | Indexed[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_sampling(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.in_order = in_order
        self.multiprocessing_context = multiprocessing_context
        if batch_sampler is not None:
            batch_size = None
        if sampler is None:
            sampler = _default_sampler(dataset, shuffle, generator)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._dataset_kind = int(is_stream(dataset))  # 0: a map, 1: an iterable
        self._IterableDataset_len_called: int | None = None
        self._iterator: MultiProcess | None = None  # of persistent workers
        self._position: place.Position | None = None
        self._begins: place.Position | None = None  # what the pass being made counts in
        self._resume: dict[str, Any] | None = None
        self._ready = True
        self.check_worker_number_rationality()

    def check_worker_number_rationality(self) -> None:
        """Warn where there would be more workers than processors."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        if cores and self.num_workers > cores:
            warn_user(
                f"DataLoader will create {self.num_workers} worker processes in total, but this "
                f"process may use only {cores} processors; more workers than that rarely make it "
                "faster."
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_ready"):
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    # -- iteration ----------------------------------------------------------------------------

    def __iter__(self) -> LoaderIterator:
        resume, self._resume = self._resume, None
        if resume is None or not resume["in_epoch"]:
            return self._iterate(place.Position())
        now = place.states_now(self)
        place.write(place.generators_of(self), resume["start"])
        if now[1] is not None and resume.get("host") is not None:
            set_host_state(resume["host"])
        place.restore_samplers(self, resume["samplers"])
        try:
            iterator = self._iterate(place.Position(batches=resume["batches"]))
            iterator.at_start = place.states_now(self)
            return iterator
        finally:  # the loader's own generators stay where the order left them
            place.return_to(now)

    def _iterate(self, position: place.Position) -> LoaderIterator:
        position.start = place.read(place.generators_of(self))
        position.samplers = place.sampler_states(self)
        position.host = host_state() if place.draws_elsewhere(self) else None
        self._position = position
        if self._iterator is not None:
            self._iterator.reset(position)
            return self._iterator
        self._begins = position
        try:
            iterator = self._get_iterator()
        finally:
            self._begins = None
        if self.persistent_workers and isinstance(iterator, MultiProcess):
            self._iterator = iterator
        return iterator

    def _get_iterator(self) -> LoaderIterator:
        """A pass with workers of its own; loaders of libraries wrap it or keep it over epochs."""
        kind = MultiProcess if self.num_workers else SingleProcess
        return kind(self, self._begins)

    def _forget(self, iterator: MultiProcess) -> None:
        """Drop persistent workers that died."""
        if self._iterator is iterator:
            self._iterator = None

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if not is_stream(self.dataset):
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is not None:
            if self.drop_last:
                length //= self.batch_size
            else:
                length = math.ceil(length / self.batch_size)
            self._IterableDataset_len_called = length
        return length

    # -- processes ----------------------------------------------------------------------------

    @property
    def multiprocessing_context(self) -> Any:
        """The `multiprocessing` context workers start from; None is the default one."""
        return self._given_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading "
                f"(num_workers > 0), but got num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            valid = multiprocessing.get_all_start_methods()
            if context not in valid:
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{valid}, but got multiprocessing_context={context!r}"
                )
            context = multiprocessing.get_context(context)
        if context is not None and not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string "
                f"specifying the start method, but got multiprocessing_context={context}"
            )
        self._given_context = context

    # -- position -----------------------------------------------------------------------------

    def position(self) -> dict[str, Any]:
        """Where the epoch stands, as plain numbers for a checkpoint.

        It is not called `state_dict`: libraries take a loader that has one for torchdata's, and
        save and restore it by that one's rules.

        Example:
            >>> loader = DataLoader(range(6), batch_size=2, shuffle=True)
            >>> batches = iter(loader)
            >>> _ = next(batches)
            >>> again = DataLoader(range(6), batch_size=2, shuffle=True)
            >>> again.continue_from(loader.position())
            >>> [b.tolist() for b in again] == [b.tolist() for b in batches]
            True
        """
        if self._resume is not None:
            return self._resume
        now = {k: v for k, v in place.read(place.generators_of(self)).items() if k != "default"}
        state: dict[str, Any] = {"in_epoch": False, "generators": now}
        position = self._position
        if position is not None and not position.finished:
            state |= {
                "in_epoch": True,
                "batches": position.batches,
                "start": position.start,
                "samplers": position.samplers,
                **({} if position.host is None else {"host": position.host}),
            }
        else:
            state["samplers"] = place.sampler_states(self)
        return state

    def continue_from(self, position: dict[str, Any]) -> None:
        """Continue, at the next iteration, where `position` was taken."""
        missing = {"in_epoch", "generators", "samplers"} - set(position)
        if missing:
            raise ValueError(
                f"DataLoader.continue_from: the position lacks {sorted(missing)}. Pass what "
                "position() gave."
            )
        place.write(place.generators_of(self), position["generators"])
        place.restore_samplers(self, position["samplers"])
        self._resume = dict(position) if position["in_epoch"] else None
        self._position = None


def _default_sampler(dataset: Any, shuffle: bool | None, generator: Generator | None) -> Any:
    if is_stream(dataset):
        return Endless()
    if shuffle:
        return RandomSampler(dataset, generator=generator)
    return SequentialSampler(dataset)


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "DataLoader: num_workers option should be non-negative; use num_workers=0 to disable "
            f"multiprocessing. Received {num_workers}."
        )
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, received {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "DataLoader: prefetch_factor option could only be specified in multiprocessing. Let "
            "num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("DataLoader: prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("DataLoader: persistent_workers option needs num_workers > 0")


def _check_sampling(
    dataset: Any, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if is_stream(dataset):
        options = {
            "shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler,
        }  # fmt: skip
        for name, given in options.items():
            if given is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                    f"{name}={given}"
                )
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, "
            "sampler, and drop_last"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive "
            "with drop_last"
        )
