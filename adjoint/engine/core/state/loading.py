"""Importing modules when they are first asked for, by any number of threads.

Note [loading in threads]
    Threads that lack a name load one after the other: two that import different parts of a package
    at once can wait for each other, and Python then gives one of them an error. A thread that is
    inside an import already must not wait, because the one it waits for may need what it imports;
    it loads at once, and Python has it wait for modules that others are importing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from adjoint.engine.core.state import forks

_turn = forks.reentrant(forks.LockOrder.IMPORTS)


def bring(names: Iterable[str]) -> None:
    """Import modules, one thread at a time."""
    with _taking_turns():
        for name in names:
            importlib.import_module(name)


def brought(name: str) -> Any:
    """A module that is imported when it is first asked for.

    >>> brought("adjoint.engine.core.state.loading").__name__
    'adjoint.engine.core.state.loading'
    """
    bring([name])
    return sys.modules[name]


@contextmanager
def _taking_turns() -> Iterator[None]:
    if _inside_import():
        yield
    else:
        with _turn:
            yield


def _inside_import() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
