"""Pipes to iterate over, under PyTorch's path: each is also a method of every pipe."""

from __future__ import annotations

import copy
import fnmatch
import os
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from adjoint.data.collate import default_collate
from adjoint.data.sampler import SequentialSampler
from adjoint.utils.data.datapipes.datapipe import IterDataPipe as IterDataPipe
from adjoint.utils.data.datapipes.datapipe import functional_datapipe

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterDataPipe",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]


class IterableWrapper(IterDataPipe):
    """A pipe over what can be iterated.

    Args:
        iterable: the elements.
        deepcopy: whether each walk has a copy of its own.
    """

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """A function of each element, or of one of its columns.

    Example:
        >>> list(IterableWrapper([1, 2, 3]).map(lambda x: x * 10))
        [10, 20, 30]
    """

    def __init__(
        self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        if input_col is None and output_col is not None:
            raise ValueError("map: output_col needs input_col")
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col

    def _apply(self, data: Any) -> Any:
        if self.input_col is None:
            return self.fn(data)
        columns = self.input_col
        many = isinstance(columns, (list, tuple))
        result = self.fn(*(data[c] for c in columns)) if many else self.fn(data[columns])
        target = self.output_col
        if isinstance(target, (list, tuple)):
            if len(target) > 1:
                raise ValueError("map: output_col must be one column")
            target = target[0]
        place = target if target is not None else columns[0] if many else columns
        changed = list(data) if isinstance(data, tuple) else copy.copy(data)
        if target == -1 and isinstance(changed, list):
            changed.append(result)
        else:
            changed[place] = result
            if many and target is None:  # the other columns went into the first
                for column in sorted(columns[1:], reverse=True):
                    del changed[column]
        return tuple(changed) if isinstance(data, tuple) else changed

    def __iter__(self) -> Iterator[Any]:
        return map(self._apply, self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The elements, or columns' elements, for which a function holds."""

    def __init__(
        self, datapipe: Any, filter_fn: Callable[..., bool], input_col: Any = None
    ) -> None:
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            columns = self.input_col
            if columns is None:
                passes = self.filter_fn(data)
            elif isinstance(columns, (list, tuple)):
                passes = self.filter_fn(*(data[c] for c in columns))
            else:
                passes = self.filter_fn(data[columns])
            if passes:
                yield data


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """Lists of so many elements.

    Example:
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
class UnBatcher(IterDataPipe):
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


@functional_datapipe("collate")
class Collator(Mapper):
    """Each list of elements as a batch of tensors."""

    def __init__(self, datapipe: Any, conversion: Any = None, collate_fn: Any = None) -> None:
        super().__init__(datapipe, collate_fn or conversion or default_collate)


@functional_datapipe("shuffle")
class Shuffler(IterDataPipe):
    """The elements out of order, by way of a buffer that is drawn from at random."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError(f"shuffle: buffer_size must be positive, received {buffer_size}")
        self.datapipe = datapipe if unbatch_level == 0 else UnBatcher(datapipe, unbatch_level)
        self.buffer_size = buffer_size * max(1, unbatch_level)
        self._enabled, self._seed = True, None

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Switch it on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """Fix the order of the next walk."""
        self._seed = seed  # type: ignore[assignment]
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
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


@functional_datapipe("sharding_filter")
class ShardingFilter(IterDataPipe):
    """Every so many-th element: the part of one worker."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        self.source_datapipe = source_datapipe
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: Any = None
    ) -> None:
        """Say which part."""
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be < {num_of_instances}")
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[Any]:
        for place, data in enumerate(self.source_datapipe):
            if place % self.num_of_instances == self.instance_id:
                yield data

    def __len__(self) -> int:
        whole, rest = divmod(len(self.source_datapipe), self.num_of_instances)
        return whole + (self.instance_id < rest)


@functional_datapipe("concat")
class Concater(IterDataPipe):
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
class Zipper(Concater):
    """Tuples of the pipes' elements, as long as each has one."""

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class Multiplexer(Concater):
    """An element of each pipe in turn, until one is empty."""

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*self.datapipes, strict=False):
            yield from row

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes) * len(self.datapipes)


@functional_datapipe("groupby")
class Grouper(IterDataPipe):
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
class Forker(IterDataPipe):
    """Several pipes that each see every element.

    Example:
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
class Demultiplexer(IterDataPipe):
    """Several pipes, to one of which a function sends each element.

    Example:
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


@functional_datapipe("sample")
class Sampler(IterDataPipe):
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


class FileLister(IterDataPipe):
    """The names of the files in a folder, in order.

    Args:
        root: the folder, or several.
        masks: patterns of names, or one.
        recursive: whether folders inside are looked into.
        abspath: whether names are absolute.
    """

    def __init__(
        self, root: Any = ".", masks: Any = "", *, recursive: bool = False, abspath: bool = False,
        non_deterministic: bool = False, length: int = -1,
    ) -> None:  # fmt: skip
        self.roots = [root] if isinstance(root, (str, os.PathLike)) else list(root)
        self.masks = [masks] if isinstance(masks, str) else list(masks)
        self.recursive, self.abspath = recursive, abspath

    def __iter__(self) -> Iterator[str]:
        for root in self.roots:
            folder = os.path.abspath(root) if self.abspath else str(root)
            for place, folders, files in os.walk(folder):
                folders.sort()
                for name in sorted(files):
                    wanted = (not mask or fnmatch.fnmatch(name, mask) for mask in self.masks)
                    if any(wanted):
                        yield os.path.join(place, name)
                if not self.recursive:
                    break


@functional_datapipe("open_files")
class FileOpener(IterDataPipe):
    """Each name of a file with the file, opened.

    Args:
        datapipe: the names.
        mode: as `open` has it.
        encoding: of text files.
    """

    def __init__(
        self, datapipe: Any, mode: str = "r", encoding: str | None = None, length: int = -1
    ) -> None:
        self.datapipe, self.mode, self.encoding = datapipe, mode, encoding

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name in self.datapipe:
            yield name, open(name, self.mode, encoding=self.encoding)  # noqa: SIM115


@functional_datapipe("read_from_stream")
class StreamReader(IterDataPipe):
    """Pieces of what files hold, each with the file's name."""

    def __init__(self, datapipe: Any, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name, stream in self.datapipe:
            with stream:
                while piece := stream.read(-1 if self.chunk is None else self.chunk):
                    yield name, piece
