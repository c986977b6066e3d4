"""Samplers: the order in which a loader visits its dataset."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice, repeat
from typing import Any, Generic, TypeVar

from adjoint.engine.backends.array.interop import as_tensor
from adjoint.engine.core.dtype import float64, int64
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.state.processes import default_group
from adjoint.engine.core.state.rng import Generator
from adjoint.engine.ops.random.random import randint, randperm
from adjoint.engine.ops.random.tensor_parameters import multinomial

T_co = TypeVar("T_co", covariant=True)


def random_seed(generator: Generator | None = None) -> int:
    """A seed drawn from a generator (None: the CPU's default)."""
    return int(randint(0, 2**63 - 1, (), dtype=int64, generator=generator).item())


def random_order(count: int, generator: Generator | None = None) -> list[int]:
    """0, 1, ... count - 1 at random, unrelated to what else is drawn with the generator's seed.

    `randperm` sorts the words that `randint` makes numbers of: where labels were drawn with the
    same seed, a split by it would have each class in a part of its own.
    """
    return randperm(count, generator=own_generator(generator)).tolist()


def own_generator(generator: Generator | None = None) -> Generator:
    """One whose seed is drawn from another (None: the CPU's default)."""
    return Generator().manual_seed(random_seed(generator))


def _check_count(who: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(
            f"{who}: {name} should be a positive integer value, but got {name}={value!r}"
        )


class Sampler(Generic[T_co]):
    """An iterable of indices into a dataset: define `__iter__`, and `__len__` where it is known."""

    def __init__(self, data_source: Sized | None = None) -> None:
        """Subclasses keep what they need; `data_source` is accepted as older programs pass it."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: a sampler must define __iter__(self)")


class SequentialSampler(Sampler[int]):
    """Every index in order.

    Example:
        >>> list(SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices at random: permutations of the dataset, or draws with replacement.

    Args:
        data_source: what is sampled; only its length is read.
        replacement: draw each index independently.
        num_samples: how many indices to give; the length of the dataset unless given.
        generator: what a seed is drawn from for each pass; the default one unless given.

    Example:
        >>> sorted(RandomSampler(range(4)))
        [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"RandomSampler: replacement should be a boolean value, but got {replacement!r}"
            )
        _check_count("RandomSampler", "num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives; follows the dataset when it grows."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, left = len(self.data_source), self.num_samples
        generator = own_generator(self.generator)
        while left > 0:
            if self.replacement:
                drawn = randint(0, n, (min(left, 32),), dtype=int64, generator=generator).tolist()
            else:
                drawn = randperm(n, generator=generator).tolist()[:left]
            yield from drawn
            left -= len(drawn)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in random_order(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given probabilities.

    Args:
        weights: one non-negative number per index; they need not sum to 1.
        num_samples: how many indices to draw.
        replacement: whether an index may come again.
        generator: the source of randomness.

    Example:
        >>> list(WeightedRandomSampler([0.0, 1.0], 3))
        [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_count("WeightedRandomSampler", "num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                "WeightedRandomSampler: replacement should be a boolean value, but got "
                f"replacement={replacement!r}"
            )
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ShapeValueError(
                "WeightedRandomSampler: weights should be a 1d sequence but given weights have "
                f"shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler.

    Args:
        sampler: an iterable of indices.
        batch_size: how many indices make a batch.
        drop_last: leave out a last batch that is not full.

    Example:
        >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        _check_count("BatchSampler", "batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(
                f"BatchSampler: drop_last should be a boolean value, but got drop_last={drop_last}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        source = iter(self.sampler)
        while batch := list(islice(source, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        if self.drop_last:
            return count // self.batch_size
        return (count + self.batch_size - 1) // self.batch_size


class DistributedSampler(Sampler[int]):
    """The share of one of several processes: all see parts of one shuffled order.

    Call `set_epoch` before each epoch, or every epoch has the same order.

    Args:
        dataset: what is sampled; only its length is read.
        num_replicas: how many processes share the dataset; the process group's unless given.
        rank: which of them this is; the process group's unless given.
        shuffle: whether to permute, by `seed` and the epoch.
        seed: the same number in every process.
        drop_last: make shares equal by leaving items out rather than by repeating some.

    Example:
        >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
        [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = default_group().size() if num_replicas is None else num_replicas
        rank = default_group().rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: Invalid rank {rank}, rank should be in the interval "
                f"[0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            order = random_order(count, Generator().manual_seed(self.seed + self.epoch))
        else:
            order = list(range(count))
        if order and len(order) < self.total_size:  # repeat from the start until shares are equal
            order *= math.ceil(self.total_size / len(order))
        return iter(order[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next, so that its order differs from the others'."""
        self.epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """The epoch, for a checkpoint."""
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to the epoch of a checkpoint."""
        self.epoch = int(state["epoch"])


class Endless(Sampler[None]):
    """The sampler of a stream, which has no indices."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)
