"""Datasets: what a DataLoader reads from, by index or as a stream."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from adjoint.engine.tensor.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Examples found by index: define `__getitem__`, and `__len__` for the usual samplers.

    A dataset may also define `__getitems__(indices)` to fetch a whole batch at once.

    Example:
        >>> class Squares(Dataset):
        ...     def __len__(self):
        ...         return 5
        ...
        ...     def __getitem__(self, i):
        ...         return i * i
        >>> both = Squares() + Squares()
        >>> len(both), both[7]
        (10, 4)
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(
            f"{type(self).__name__}: a dataset must define __getitem__(self, index)"
        )

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Examples as a stream: define `__iter__`.

    With several workers each iterates its own copy; `get_worker_info()` says which one it is, so
    that each can yield its share.

    Example:
        >>> class Count(IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(Count() + Count())
        [0, 1, 2, 0, 1, 2]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(
            f"{type(self).__name__}: an iterable dataset must define __iter__(self)"
        )

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors of equal length.

    Args:
        tensors: tensors with the same size of the first dimension.

    Example:
        >>> import adjoint as ad
        >>> data = TensorDataset(ad.arange(6).reshape(3, 2), ad.tensor([0, 1, 2]))
        >>> len(data), data[1]
        (3, (tensor([2, 3]), tensor(1)))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [int(t.shape[0]) for t in tensors]
        if any(size != sizes[0] for size in sizes):
            raise AssertionError(
                f"Size mismatch between tensors: TensorDataset received first dimensions {sizes}; "
                "they must be equal."
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """Several datasets side by side: each item is a tuple, or a dict, of theirs.

    Example:
        >>> StackDataset(range(3), "abc")[1]
        (1, 'b')
        >>> StackDataset(number=range(3), letter="abc")[2]
        {'number': 2, 'letter': 'c'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset: supported either tuple- (via args) or dict- (via kwargs) like "
                "input, but both types are given"
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: at least one dataset should be passed")
        self.datasets = kwargs or args
        parts = self._parts()
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise ValueError(
                f"Size mismatch between datasets: StackDataset received {[len(p) for p in parts]}"
            )

    def _parts(self) -> list[Any]:
        if isinstance(self.datasets, dict):
            return list(self.datasets.values())
        return list(self.datasets)

    def _join(self, values: Sequence[Any]) -> Any:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, values, strict=True))
        return tuple(values)

    def __getitem__(self, index: Any) -> Any:
        return self._join([part[index] for part in self._parts()])

    def __getitems__(self, indices: list[int]) -> list[Any]:
        columns = [fetch(part, indices, "StackDataset") for part in self._parts()]
        return [self._join(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def fetch(dataset: Any, indices: Sequence[int], who: str) -> list[Any]:
    """The items at `indices`, by `__getitems__` where the dataset has it."""
    many = getattr(dataset, "__getitems__", None)
    if not callable(many):
        return [dataset[i] for i in indices]
    items = many(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"{who}: nested dataset's output size mismatch. Expected {len(indices)}, got "
            f"{len(items)}"
        )
    return list(items)


class ConcatDataset(Dataset[T_co]):
    """Datasets one after another.

    Example:
        >>> ConcatDataset([range(3), range(10, 12)])[4]
        11
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Where each dataset ends."""
        return list(accumulate(len(dataset) for dataset in sequence))

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError(
                "ConcatDataset does not support IterableDataset. Use ChainDataset."
            )
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError(f"ConcatDataset: index {index} is out of range for {len(self)} items")
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - start]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after another.

    Example:
        >>> class Count(IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[T_co]):
    """The items of a dataset at given indices.

    Example:
        >>> list(Subset(range(10, 20), [3, 1]))
        [13, 11]
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        if type(self).__getitem__ is not Subset.__getitem__:
            return [self[i] for i in indices]  # a subclass that changes what an item is
        return fetch(self.dataset, [self.indices[i] for i in indices], "Subset")

    def __len__(self) -> int:
        return len(self.indices)


class DataChunk(list[Any]):
    """A list of items that a stream yields as one.

    Example:
        >>> DataChunk([1, 2]).as_str("> ")
        '> [1, 2]'
    """

    def __init__(self, items: Iterable[Any]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The items in brackets."""
        return indent + "[" + ", ".join(map(str, self)) + "]"

    def raw_iterator(self) -> Iterator[Any]:
        """The items themselves."""
        yield from self.items


def is_stream(dataset: Any) -> bool:
    """Whether a dataset is read by iteration rather than by index."""
    return isinstance(dataset, IterableDataset)
