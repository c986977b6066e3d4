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
from collections.abc import Iterable
from types import FrameType
from typing import Any

from adjoint.engine.core.state import forks

_turn = forks.reentrant(forks.LockOrder.IMPORTS)
_there: set[str] = set()  # modules that were imported to their end


def bring(names: Iterable[str]) -> None:
    """Import modules, one thread at a time."""
    if _inside_import():
        for name in names:
            importlib.import_module(name)  # perhaps one that is on its way: not there yet
        return
    with _turn:
        for name in names:
            importlib.import_module(name)
            _there.add(name)


def brought(name: str) -> Any:
    """A module that is imported when it is first asked for.

    >>> brought("adjoint.engine.core.state.loading").__name__
    'adjoint.engine.core.state.loading'
    """
    if name not in _there or name not in sys.modules:
        bring([name])
    return sys.modules[name]


def _inside_import() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
