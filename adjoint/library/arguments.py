"""Arguments of an operation of one's own: the tensors among them, and a layout of the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.tensor.tensor import Tensor

TENSOR, LIST, VALUE = "tensor", "list", "value"  # what an argument is, in a layout
Layout = tuple[tuple[str, Any], ...]


def handed(fn: Callable[..., Any], values: Sequence[Any]) -> Any:
    """What a function makes of arguments, of which the last may be taken by name alone.

    >>> handed(lambda x, *, scale: x * scale, (2, 3))
    6
    """
    code = getattr(fn, "__code__", None)
    if code is None or not code.co_kwonlyargcount or len(values) <= code.co_argcount:
        return fn(*values)
    first = code.co_argcount
    names = code.co_varnames[first : first + code.co_kwonlyargcount]
    return fn(*values[:first], **dict(zip(names, values[first:], strict=True)))


def arranged(values: Sequence[Any]) -> tuple[list[Tensor], Layout]:
    """The tensors among arguments, and the rest with their places.

    >>> import adjoint as ad
    >>> arranged((ad.ones(1), 2, [ad.ones(1), ad.ones(1)]))[1]
    (('tensor', None), ('value', 2), ('list', 2))
    """
    operands: list[Tensor] = []
    layout: list[tuple[str, Any]] = []
    for value in values:
        if isinstance(value, Tensor):
            operands.append(value)
            layout.append((TENSOR, None))
        elif isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value):
            if not all(isinstance(x, Tensor) for x in value):
                raise TypeError("custom_op: a list among the arguments mixes tensors and others")
            operands += value
            layout.append((LIST, len(value)))
        else:
            layout.append((VALUE, tuple(value) if isinstance(value, list) else value))
    return operands, tuple(layout)


def filled(layout: Layout, xs: Sequence[Any]) -> list[Any]:
    """The arguments that a layout describes, with tensors (or what stands for them) in place."""
    left = iter(xs)
    return [
        next(left)
        if kind == TENSOR
        else [next(left) for _ in range(content)]
        if kind == LIST
        else content
        for kind, content in layout
    ]


def tensors_in(values: Sequence[Any]) -> list[Tensor]:
    """The tensors among arguments."""
    return arranged(values)[0]
