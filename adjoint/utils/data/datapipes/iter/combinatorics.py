"""Pipes that change the order of elements."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from adjoint.data.sampler import SequentialSampler
from adjoint.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from adjoint.utils.data.datapipes.iter.grouping import UnBatcherIterDataPipe

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


@functional_datapipe("sample")
class SamplerIterDataPipe(IterDataPipe):
    """Elements of an indexed pipe in the order that a sampler gives."""

    def __init__(
        self, datapipe: Any, sampler: Any = SequentialSampler, sampler_args: Any = None,
        sampler_kwargs: Any = None,
    ) -> None:  # fmt: skip
        named = {**(sampler_kwargs or {}), "data_source": datapipe}
        self.sampler = sampler(*(sampler_args or ()), **named)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe):
    """The elements out of order, by way of a buffer that is drawn from at random."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError(f"shuffle: buffer_size must be positive, received {buffer_size}")
        self.datapipe = (
            datapipe if unbatch_level == 0 else UnBatcherIterDataPipe(datapipe, unbatch_level)
        )
        self.buffer_size = buffer_size * max(1, unbatch_level)
        self._shuffle_enabled, self._seed = True, None

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Switch it on or off."""
        self._shuffle_enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """Fix the order of the next walk."""
        self._seed = seed  # type: ignore[assignment]
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._shuffle_enabled:
            yield from self.datapipe
            return
        drawn = random.Random(random.getrandbits(63) if self._seed is None else self._seed)
        self._seed = None
        buffer: list[Any] = []
        for data in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(data)
                continue
            place = drawn.randrange(len(buffer))
            value, buffer[place] = buffer[place], data
            yield value
        drawn.shuffle(buffer)
        yield from buffer

    def __len__(self) -> int:
        return len(self.datapipe)
