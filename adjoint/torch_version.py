"""Versions that compare by number, as `torch.__version__` does."""

from __future__ import annotations

import importlib
from typing import Any

from adjoint.engine.core.state.loading import lacking as _lacking

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """A version string that also compares with tuples and by number, as PyTorch's does.

    >>> TorchVersion("2.13.0") >= "2.9", TorchVersion("2.13.0") >= (2, 0)
    (True, True)
    """

    __slots__ = ()

    def _numbers(self, other: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return release(self), release(other)

    def __lt__(self, other: Any) -> bool:
        mine, theirs = self._numbers(other)
        return mine < theirs

    def __le__(self, other: Any) -> bool:
        mine, theirs = self._numbers(other)
        return mine <= theirs

    def __gt__(self, other: Any) -> bool:
        mine, theirs = self._numbers(other)
        return mine > theirs

    def __ge__(self, other: Any) -> bool:
        mine, theirs = self._numbers(other)
        return mine >= theirs


def release(version: Any) -> tuple[int, ...]:
    """The leading numbers of a version, with trailing zeros off: "2.13.0+cpu" -> (2, 13)."""
    parts = version if isinstance(version, tuple) else str(version).split("+")[0].split(".")
    numbers: list[int] = []
    for part in parts:
        if not str(part).isdigit():
            break
        numbers.append(int(part))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("adjoint").__version__
    raise _lacking(__name__, name)
