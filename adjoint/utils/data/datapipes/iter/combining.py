"""Pipes that join several, or part one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from adjoint.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = [
    "ConcaterIterDataPipe",
    "ZipperIterDataPipe",
    "MultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "DemultiplexerIterDataPipe",
]


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """Pipes one after another."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("concat: expected at least one pipe")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(ConcaterIterDataPipe):
    """Tuples of the pipes' elements, as long as each has one."""

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(ConcaterIterDataPipe):
    """An element of each pipe in turn, until one is empty."""

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*self.datapipes, strict=False):
            yield from row

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes) * len(self.datapipes)


class _Branches:
    """What several pipes read from one source, each at its own pace."""

    def __init__(self, source: Any, count: int, buffer_size: int) -> None:
        self.source, self.count, self.buffer_size = source, count, buffer_size
        self.iterator: Iterator[Any] | None = None
        self.waiting: list[deque[Any]] = [deque() for _ in range(count)]
        self.begun = [False] * count

    def begin(self, place: int) -> None:
        """One pipe starts over; all do, with the source, when it had begun before."""
        if self.iterator is None or self.begun[place]:
            self.iterator = iter(self.source)
            self.waiting = [deque() for _ in range(self.count)]
            self.begun = [False] * self.count
        self.begun[place] = True

    def give(self, place: int, element: Any) -> None:
        """Keep an element for a pipe."""
        if 0 <= self.buffer_size <= sum(map(len, self.waiting)):
            raise BufferError(
                f"more than buffer_size={self.buffer_size} elements wait for slower pipes"
            )
        self.waiting[place].append(element)


class _Branch(IterDataPipe):
    def __init__(
        self, shared: _Branches, place: int, places: Callable[[Any], Iterable[int]]
    ) -> None:
        self.shared, self.place, self.places = shared, place, places

    def __iter__(self) -> Iterator[Any]:
        shared = self.shared
        shared.begin(self.place)
        while True:
            if shared.waiting[self.place]:
                yield shared.waiting[self.place].popleft()
                continue
            if shared.iterator is None:
                return
            try:
                element = next(shared.iterator)
            except StopIteration:
                return
            for place in self.places(element):
                shared.give(place, element)


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """Several pipes that each see every element.

    Example:
        >>> from adjoint.utils.data.datapipes.iter import IterableWrapper
        >>> left, right = IterableWrapper([1, 2]).fork(2)
        >>> list(left.zip(right))
        [(1, 1), (2, 2)]
    """

    def __new__(
        cls, datapipe: Any, num_instances: int, buffer_size: int = 1000, copy: str | None = None
    ) -> Any:
        if num_instances < 1:
            raise ValueError(
                f"Expected `num_instances` larger than 0, but {num_instances} is found"
            )
        if copy is not None:
            raise NotImplementedError(
                "fork: elements are handed on as they are; copy them with map"
            )
        shared = _Branches(datapipe, num_instances, buffer_size)
        every = range(num_instances)
        return [_Branch(shared, place, lambda _: every) for place in every]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """Several pipes, to one of which a function sends each element.

    Example:
        >>> from adjoint.utils.data.datapipes.iter import IterableWrapper
        >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
        >>> list(even), list(odd)
        ([0, 2, 4], [1, 3])
    """

    def __new__(
        cls, datapipe: Any, num_instances: int, classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False, buffer_size: int = 1000,
    ) -> Any:  # fmt: skip
        if num_instances < 1:
            raise ValueError(
                f"Expected `num_instances` larger than 0, but {num_instances} is found"
            )
        shared = _Branches(datapipe, num_instances, buffer_size)

        def places(element: Any) -> tuple[int, ...]:
            place = classifier_fn(element)
            if place is None and drop_none:
                return ()
            if place is None or not 0 <= place < num_instances:
                raise ValueError(
                    f"Output of the classification fn should be between 0 and {num_instances - 1}. "
                    f"{place} is returned."
                )
            return (place,)

        return [_Branch(shared, place, places) for place in range(num_instances)]
