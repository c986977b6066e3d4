"""Pipes that call a function of each element."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from adjoint.data.collate import default_collate
from adjoint.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["MapperIterDataPipe", "CollatorIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """A function of each element, or of one of its columns.

    Example:
        >>> from adjoint.utils.data.datapipes.iter import IterableWrapper
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


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Each list of elements as a batch of tensors."""

    def __init__(self, datapipe: Any, conversion: Any = None, collate_fn: Any = None) -> None:
        super().__init__(datapipe, collate_fn or conversion or default_collate)
