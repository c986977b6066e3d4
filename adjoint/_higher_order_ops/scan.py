"""PyTorch's path of `scan`, with PyTorch's argument names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.graph.flow.scan import scan as _scan


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`adjoint.scan` under PyTorch's names of arguments."""
    return _scan(combine_fn, init, xs, dim=dim, reverse=reverse)
