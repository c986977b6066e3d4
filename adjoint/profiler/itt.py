"""Marks for Intel's profiler, which has no part here: programs may set them, nothing reads them."""

from __future__ import annotations

import contextlib
from typing import Any


def is_available() -> bool:
    """Whether the profiler is there: never."""
    return False


def mark(msg: str) -> None:
    """Nothing."""


def range_push(msg: str) -> int:
    """Nothing."""
    return 0


def range_pop() -> int:
    """Nothing."""
    return 0


def range(msg: str, *args: Any, **kwargs: Any) -> Any:
    """A `with` block that marks nothing."""
    return contextlib.nullcontext()
