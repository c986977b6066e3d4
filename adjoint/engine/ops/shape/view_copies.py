"""Copies of what views show: `expand_copy` is `expand`, in memory of its own, with `out=`.

Each is made from the view it is named after, so a view has one definition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.dtype import DType
from adjoint.engine.core.layout import contiguous_format
from adjoint.engine.core.operations.public import public
from adjoint.engine.ops.shape.reinterpret import view_as_complex, view_as_real

# The view that each copy is of, with the arguments that PyTorch gives the copy.
VIEWS: dict[str, Callable[..., Any]] = {
    "alias": lambda input: input,
    "as_strided": lambda input, size, stride, storage_offset=None: input.as_strided(
        size, stride, storage_offset
    ),
    "ccol_indices": lambda input: input.ccol_indices(),
    "col_indices": lambda input: input.col_indices(),
    "crow_indices": lambda input: input.crow_indices(),
    "detach": lambda input: input.detach(),
    "diagonal": lambda input, offset=0, dim1=0, dim2=1: input.diagonal(offset, dim1, dim2),
    "expand": lambda input, size, *, implicit=False: input.expand(size, implicit=implicit),
    "indices": lambda input: input.indices(),
    "permute": lambda input, dims: input.permute(dims),
    "row_indices": lambda input: input.row_indices(),
    "select": lambda input, dim, index: input.select(dim, index),
    "slice": lambda input, dim=0, start=None, end=None, step=1: input.slice(dim, start, end, step),
    "split": lambda input, split_size, dim=0: input.split(split_size, dim),
    "split_with_sizes": lambda input, split_sizes, dim=0: input.split_with_sizes(split_sizes, dim),
    "squeeze": lambda input, dim=None: input.squeeze() if dim is None else input.squeeze(dim),
    "t": lambda input: input.t(),
    "transpose": lambda input, dim0, dim1: input.transpose(dim0, dim1),
    "unbind": lambda input, dim=0: input.unbind(dim),
    "unfold": lambda input, dimension, size, step: input.unfold(dimension, size, step),
    "unsqueeze": lambda input, dim: input.unsqueeze(dim),
    "values": lambda input: input.values(),
    # A shape that no view of the elements has is copied to all the same.
    "view": lambda input, size=None, dtype=None: seen_as(input, size if dtype is None else dtype),
    "view_as_complex": lambda input: view_as_complex(input),
    "view_as_real": lambda input: view_as_real(input),
}


def seen_as(input: Any, what: Any) -> Any:
    """A tensor's elements in another shape, or its bytes as another dtype's."""
    if what is None:
        raise TypeError("view_copy() missing 1 required positional argument: 'size'")
    return input.view(what) if isinstance(what, DType) else input.reshape(what)


def fresh(shown: Any) -> Any:
    """What a view shows, or each of several, in memory of its own, row by row."""
    if isinstance(shown, tuple):
        return tuple([fresh(part) for part in shown])
    return shown.clone(memory_format=contiguous_format)


def declare_copy(name: str, view: Callable[..., Any]) -> None:
    """Publish the copy of a view."""

    @functools.wraps(view)
    def copied(input: Any, *args: Any, **kwargs: Any) -> Any:
        return fresh(view(input, *args, **kwargs))

    copied.__name__ = copied.__qualname__ = f"{name}_copy"
    copied.__doc__ = f"A copy of what `{name}` shows."
    copied.__annotations__ = view.__annotations__ = {"input": "Tensor"}
    public(out=True)(copied)


for _name, _view in VIEWS.items():
    declare_copy(_name, _view)
