"""Data for jobs that are started anew: a sampler that goes on within an epoch, epochs in a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sized
from typing import TypeVar

from adjoint.data.sampler import DistributedSampler, random_order
from adjoint.engine.core.state.rng import Generator

Item = TypeVar("Item")


class ElasticDistributedSampler(DistributedSampler):
    """The share of one of several processes in what is left of an epoch.

    Args:
        dataset: what is sampled; only its length is read.
        num_replicas: how many processes share the dataset; the process group's unless given.
        rank: which of them this is; the process group's unless given.
        start_index: how many items at the start are left out.

    Example:
        >>> sampler = ElasticDistributedSampler(range(10), num_replicas=2, rank=0, start_index=6)
        >>> len(sampler), set(sampler) <= {6, 7, 8, 9}
        (2, True)
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        start_index: int = 0,
    ) -> None:
        super().__init__(dataset, num_replicas, rank)
        if not 0 <= start_index < len(dataset):
            raise ValueError(
                f"ElasticDistributedSampler: Start index {start_index} should be less than dataset "
                f"size {len(dataset)}"
            )
        self.start_index = start_index
        self.num_samples = math.ceil((len(dataset) - start_index) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = len(self.dataset) - self.start_index
        order = random_order(left, Generator().manual_seed(self.epoch))
        order = [i + self.start_index for i in order]
        order *= math.ceil(self.total_size / left)
        return iter(order[: self.total_size][self.rank :: self.num_replicas])


class CyclingIterator(Iterator[Item]):
    """Several epochs in a row.

    Args:
        n: how many epochs there are.
        generator_fn: gives the iterator of an epoch, by its number.
        start_epoch: the first epoch.

    Example:
        >>> list(CyclingIterator(2, lambda epoch: iter([epoch, 7])))
        [0, 7, 1, 7]
    """

    def __init__(
        self, n: int, generator_fn: Callable[[int], Iterator[Item]], start_epoch: int = 0
    ) -> None:
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iterator = generator_fn(start_epoch)

    def __iter__(self) -> CyclingIterator[Item]:
        return self

    def __next__(self) -> Item:
        while True:
            try:
                return next(self._iterator)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
            self._epoch += 1
            self._iterator = self._generator_fn(self._epoch)
