"""NVTX: ranges and marks that NVIDIA's tools show beside what the GPU does."""

from __future__ import annotations

import contextlib
from typing import Any

_depth = 0
COLOUR = 0xFF76B900


def _nvtx() -> Any:
    try:
        from cupy.cuda import nvtx  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise RuntimeError(
            "nvtx: ranges need CuPy, which is not installed: pip install adjoint[cuda]"
        ) from None
    return nvtx


def range_push(msg: str) -> int:
    """Begin a range; how many are open around it."""
    global _depth
    _nvtx().RangePush(str(msg))
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """End the range begun last; how many are still open."""
    global _depth
    _nvtx().RangePop()
    _depth -= 1
    return _depth


def mark(msg: str) -> None:
    """A mark at this moment."""
    _nvtx().Mark(str(msg))


def range_start(msg: str) -> int:
    """Begin a range that may overlap others, and end in another thread; its number."""
    nvtx = _nvtx()
    if not hasattr(nvtx, "RangeStart"):
        raise NotImplementedError(
            "nvtx.range_start: CuPy has no ranges that overlap. Use range_push and range_pop."
        )
    return int(nvtx.RangeStart(str(msg), COLOUR))


def range_end(range_id: int) -> None:
    """End the range of a number."""
    _nvtx().RangeEnd(range_id)


class range(contextlib.ContextDecorator):
    """A `with` block, or a decorated function, as a range.

    Args:
        msg: its name, formatted with the other arguments.
    """

    def __init__(self, msg: str, *args: Any, **kwargs: Any) -> None:
        self.msg = str(msg).format(*args, **kwargs)

    def __enter__(self) -> None:
        range_push(self.msg)

    def __exit__(self, *_: object) -> None:
        range_pop()
