"""Data pipes: datasets that are chained by calling methods."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from adjoint.data.dataset import Dataset, IterableDataset

__all__ = ["IterDataPipe", "MapDataPipe"]


class _Chained:
    """Finds the pipes that were registered under a method's name."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class IterDataPipe(_Chained, IterableDataset[Any]):
    """A dataset to iterate over, that others can be chained to."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Make a pipe a method of all."""
        cls.functions[function_name] = cls_to_register

    register_function = register_datapipe_as_function


class MapDataPipe(_Chained, Dataset[Any]):
    """A dataset to index, that others can be chained to."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any) -> None:
        """Make a pipe a method of all."""
        cls.functions[function_name] = cls_to_register


class functional_datapipe:
    """Decorates a pipe so that `pipe.name(...)` makes it."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        kind: Any = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        kind.functions[self.name] = cls
        return cls


class _Pickled:
    """A pipe as a loader holds it."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __len__(self) -> int:
        return len(self._datapipe)


class _IterDataPipeSerializationWrapper(_Pickled, IterDataPipe):
    """A pipe to iterate over, as loaders hold it."""

    def __iter__(self) -> Any:
        return iter(self._datapipe)


class _MapDataPipeSerializationWrapper(_Pickled, MapDataPipe):
    """A pipe to index, as loaders hold it."""

    def __getitem__(self, index: Any) -> Any:
        return self._datapipe[index]
