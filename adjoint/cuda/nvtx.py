"""NVTX: ranges and marks that NVIDIA's tools show beside what the GPU does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def _nvtx() -> Any:
    try:
        from cupy.cuda import nvtx  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise RuntimeError(
            "nvtx: ranges need CuPy, which is not installed: pip install adjoint[cuda]"
        ) from None
    return nvtx


def range_push(msg: str) -> None:
    """Begin a range."""
    _nvtx().RangePush(msg)


def range_pop() -> None:
    """End the range begun last."""
    _nvtx().RangePop()


def mark(msg: str) -> None:
    """A mark at this moment."""
    _nvtx().Mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A `with` block as a range; the message is formatted with the other arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
