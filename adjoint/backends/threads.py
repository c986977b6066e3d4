"""How many threads matrix products use: `set_num_threads`, through OpenBLAS's own entry point."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_interop = os.cpu_count() or 1
_chosen: int | None = None


@cache
def _libraries() -> tuple[tuple[Any, Any], ...]:
    """(get, set) of each OpenBLAS that NumPy's wheel brought along."""
    found = []
    root = Path(np.__file__).parent
    for folder in (root.parent / "numpy.libs", root / ".dylibs"):
        for path in folder.glob("*openblas*") if folder.is_dir() else ():
            library = ctypes.CDLL(str(path))
            for pattern in ("scipy_openblas_{}64_", "openblas_{}64_", "openblas_{}"):
                names = pattern.format("get_num_threads"), pattern.format("set_num_threads")
                if all(hasattr(library, name) for name in names):
                    found.append(tuple(getattr(library, name) for name in names))
                    break
    return tuple(found)


def get_num_threads() -> int:
    """The number of threads a matrix product may use.

    >>> get_num_threads() >= 1
    True
    """
    if _chosen is not None:
        return _chosen
    return max((int(get()) for get, _ in _libraries()), default=os.cpu_count() or 1)


def set_num_threads(num: int) -> None:
    """Let matrix products use this many threads; all else in eager mode runs in one."""
    global _chosen
    if type(num) is not int:
        raise TypeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    _chosen = num
    for _, change in _libraries():
        change(num)


def get_num_interop_threads() -> int:
    """The number of threads that may run operations at once."""
    return _interop


def set_num_interop_threads(num: int) -> None:
    """Kept for programs that set it: operations run in the caller's thread."""
    global _interop
    if type(num) is not int or num < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _interop = num
