"""Pipes of lists of elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from adjoint.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["BatcherIterDataPipe", "UnBatcherIterDataPipe", "GrouperIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """Lists of so many elements.

    Example:
        >>> from adjoint.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        datapipe: Any,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: type = list,
    ) -> None:
        if batch_size <= 0:
            raise ValueError(f"batch: batch_size must be positive, received {batch_size}")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for data in self.datapipe:
            batch.append(data)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        extra = 0 if self.drop_last else self.batch_size - 1
        return (len(self.datapipe) + extra) // self.batch_size


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The elements of lists; of lists in lists, `unbatch_level` deep, -1 for all."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        if unbatch_level < -1:
            raise ValueError("unbatch: unbatch_level must be -1 or >= 0")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def _flat(self, data: Any, level: int) -> Iterator[Any]:
        if level == 0:
            yield data
        elif isinstance(data, list):
            for item in data:
                yield from self._flat(item, level - 1)
        elif level < 0:
            yield data
        else:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the pipe")

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield from self._flat(data, self.unbatch_level)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Lists of the elements that have a key in common, once full and at the end."""

    def __init__(
        self,
        datapipe: Any,
        group_key_fn: Callable[[Any], Any],
        *,
        group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        self.datapipe, self.group_key_fn = datapipe, group_key_fn
        self.group_size, self.drop_remaining = group_size, drop_remaining

    def __iter__(self) -> Iterator[Any]:
        groups: dict[Any, list[Any]] = {}
        for data in self.datapipe:
            key = self.group_key_fn(data)
            groups.setdefault(key, []).append(data)
            if len(groups[key]) == self.group_size:
                yield groups.pop(key)
        if not self.drop_remaining:
            yield from groups.values()
