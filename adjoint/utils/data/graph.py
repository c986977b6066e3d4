"""Which data pipes a data pipe draws from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]
DataPipeGraph = dict[int, tuple[Any, Any]]


def _pipes_in(value: Any, depth: int = 3) -> Iterator[Any]:
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        yield value
    elif depth and isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _pipes_in(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _pipes_in(item, depth - 1)


def traverse_dps(datapipe: Any) -> DataPipeGraph:
    """A pipe with those it draws from, as `{id: (pipe, their graph)}`.

    Example:
        >>> from adjoint.utils.data.datapipes.iter import IterableWrapper
        >>> source = IterableWrapper([1, 2])
        >>> pipe = source.map(abs)
        >>> graph = traverse_dps(pipe)
        >>> list(graph[id(pipe)][1]) == [id(source)]
        True
    """
    return _traverse(datapipe, set())


def _traverse(pipe: Any, seen: set[int]) -> DataPipeGraph:
    if id(pipe) in seen:
        return {}
    seen = seen | {id(pipe)}
    below: DataPipeGraph = {}
    for value in list(vars(pipe).values()):
        for inner in _pipes_in(value):
            below.update(_traverse(inner, seen))
    return {id(pipe): (pipe, below)}


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> DataPipeGraph:
    """The same."""
    return traverse_dps(datapipe)
