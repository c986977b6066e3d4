"""Marks on tensors that say which of their sizes a compiled function is to be recorded for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.errors import ShapeIndexError
from adjoint.engine.core.operations.record import is_tensor

# Attributes of a tensor: its dimensions that are dynamic, had better be, or are not.
MARKS, HINTS, STATIC = "_dynamic_dims", "_maybe_dynamic_dims", "_static_dims"


def mark_dynamic(tensor: Any, dim: int | Sequence[int]) -> None:
    """Say that a compiled function will be called with other sizes in this dimension.

    The first call with this tensor then makes one program for all sizes from 2 on.

    Args:
        tensor: an argument of a compiled function.
        dim: a dimension, or several.

    Example:
        >>> import adjoint as ad
        >>> f = ad.compile(lambda x: x.sum(0) / x.shape[0])
        >>> x = ad.ones(4, 3)
        >>> ad.mark_dynamic(x, 0)
        >>> f(x), f(ad.ones(100, 3)), f.traces
        (tensor([1., 1., 1.]), tensor([1., 1., 1.]), 1)
    """
    _mark(tensor, dim, MARKS, "mark_dynamic")


def maybe_mark_dynamic(tensor: Any, dim: int | Sequence[int]) -> None:
    """Say that a dimension had better be dynamic: `mark_dynamic` without a warning if it cannot.

    Example:
        >>> import adjoint as ad
        >>> f = ad.compile(lambda x: [row.sum() for row in x])
        >>> x = ad.ones(4, 3)
        >>> ad.compiler.maybe_mark_dynamic(x, 0)
        >>> len(f(x)), len(f(ad.ones(5, 3))), f.traces
        (4, 5, 2)
    """
    _mark(tensor, dim, HINTS, "maybe_mark_dynamic")


def mark_static(tensor: Any, dim: int | Sequence[int] | None = None) -> None:
    """Say that sizes of a dimension are recorded by themselves, though they differ between calls.

    Marks of `mark_dynamic` come before this one. Sizes of what is no tensor, such as a module's
    parameters, are recorded in any case.

    Args:
        tensor: an argument of a compiled function.
        dim: a dimension, or several; None stands for all.

    Example:
        >>> import adjoint as ad
        >>> f = ad.compile(lambda x: x.sum(0))
        >>> for n in (4, 5, 6):
        ...     x = ad.ones(n, 3)
        ...     ad.compiler.mark_static(x, 0)
        ...     _ = f(x)
        >>> f.traces
        3
    """
    if is_tensor(tensor):
        _mark(tensor, range(tensor.ndim) if dim is None else dim, STATIC, "mark_static")


def marked(leaves: Sequence[Any], kind: str) -> set[tuple[int, int]]:
    """The dimensions of arguments with a mark; a size of 0 or 1 is never dynamic."""
    return {
        (i, d)
        for i, leaf in enumerate(leaves)
        if is_tensor(leaf)
        for d in getattr(leaf, "__dict__", {}).get(kind, ())
        if leaf.shape[d] >= 2 or kind is STATIC
    }


def _mark(tensor: Any, dim: int | Sequence[int], kind: str, name: str) -> None:
    dims = [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not -tensor.ndim <= d < tensor.ndim:
            raise ShapeIndexError(f"{name}: dimension {d} of a tensor of {tensor.ndim} dimensions")
    tensor.__dict__.setdefault(kind, set()).update(d % tensor.ndim for d in dims)
