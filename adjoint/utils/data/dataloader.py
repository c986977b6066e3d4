"""The loader, at PyTorch's path."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from adjoint import distributed
from adjoint.data.collate import default_collate as default_collate
from adjoint.data.collate import default_convert as default_convert
from adjoint.data.dataset import Dataset as Dataset
from adjoint.data.dataset import IterableDataset as IterableDataset
from adjoint.data.dataset import is_stream
from adjoint.data.fetch import Fetcher
from adjoint.data.iterators import LoaderIterator, can_pin
from adjoint.data.iterators import MultiProcess as _MultiProcessingDataLoaderIter  # noqa: F401
from adjoint.data.iterators import SingleProcess as _SingleProcessDataLoaderIter  # noqa: F401
from adjoint.data.loader import DataLoader as DataLoader
from adjoint.data.sampler import BatchSampler as BatchSampler
from adjoint.data.sampler import Endless as _InfiniteConstantSampler  # noqa: F401
from adjoint.data.sampler import RandomSampler as RandomSampler
from adjoint.data.sampler import Sampler as Sampler
from adjoint.data.sampler import SequentialSampler as SequentialSampler
from adjoint.data.sampler import random_seed
from adjoint.data.worker_info import get_worker_info as get_worker_info
from adjoint.engine.backends.array.interop import tensor
from adjoint.utils.data.datapipes.datapipe import IterDataPipe
from adjoint.utils.data.graph_settings import apply_random_seed, apply_sharding

_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]


class _DatasetKind:
    """How a dataset is read."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> Fetcher:
        """Who reads a dataset's batches."""
        return Fetcher(
            dataset, auto_collation, collate_fn, drop_last, kind == _DatasetKind.Iterable
        )


def _get_distributed_settings() -> tuple[int, int]:
    """How many processes there are, and which this is."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    return 1, 0


def _share_dist_seed(generator: Any, group: Any) -> int:
    """A seed that all processes of a group have in common."""
    seed = tensor(random_seed(generator))
    if group is not None:
        distributed.broadcast(seed, src=0, group=group)
    return int(seed)


def _sharding_worker_init_fn(
    worker_init_fn: _worker_init_fn_t | None, world_size: int, rank_id: int, worker_id: int
) -> None:
    """Have a worker's data pipe read its part: processes first, then their workers."""
    info = get_worker_info()
    if info is None:
        raise AssertionError("_sharding_worker_init_fn: to be called in a worker")
    place = worker_id * world_size + rank_id
    apply_sharding(info.dataset, info.num_workers * world_size, place)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


class _BaseDataLoaderIter(abc.ABC):
    """The base of iterators that libraries write for loaders of their own.

    Adjoint's own iterators count as instances. A subclass gives `_next_data`.
    """

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._shared_seed: int | None = None
        self._pg: Any = None
        if isinstance(self._dataset, IterDataPipe):
            self._share_seed(loader)
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        _, self._rank = _get_distributed_settings()
        self._pin_memory = bool(loader.pin_memory) and can_pin()
        self._pin_memory_device = getattr(loader, "pin_memory_device", "") or None
        self._timeout = loader.timeout
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = getattr(loader, "in_order", True)
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = random_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"

    def _share_seed(self, loader: Any) -> None:
        if distributed.is_available() and distributed.is_initialized():
            self._pg = distributed.group.WORLD
        self._shared_seed = _share_dist_seed(loader.generator, self._pg)
        self._dataset = apply_random_seed(self._dataset, self._shared_seed)

    def __iter__(self) -> Iterator[Any]:
        return self

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begin again, with the same workers if there are any."""
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        if isinstance(self._dataset, IterDataPipe):
            self._share_seed(loader)

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    @abc.abstractmethod
    def _next_data(self) -> Any: ...

    def __next__(self) -> Any:
        if self._sampler_iter is None:
            self._reset(None)
        data = self._next_data()
        self._num_yielded += 1
        stated = self._IterableDataset_len_called
        if is_stream(self._dataset) and stated is not None and self._num_yielded > stated:
            warnings.warn(
                f"Length of IterableDataset {self._dataset} was reported to be {stated} (when "
                f"accessing len(dataloader)), but {self._num_yielded} samples have been fetched.",
                stacklevel=2,
            )
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


_BaseDataLoaderIter.register(LoaderIterator)
