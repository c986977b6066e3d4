"""A pipe of some of the elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from adjoint.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
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
