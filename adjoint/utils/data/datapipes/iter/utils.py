"""A pipe over what can be iterated."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from adjoint.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe):
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
