"""Deriving Tensor's methods from the public table."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.operations.public import INPLACE, METHODS, PROPERTIES
from adjoint.engine.ops.elementwise.arithmetic import scaled
from adjoint.engine.tensor.copying import install_copying
from adjoint.engine.tensor.indexing import install_indexing
from adjoint.engine.tensor.mutation import update
from adjoint.engine.tensor.operators import DIRECT, install_operators
from adjoint.engine.tensor.printing import install_printing
from adjoint.engine.tensor.tensor import Tensor

_SCALED = ("add", "sub", "subtract")  # x.add_(y, alpha=a): a temporary for a * y, none for the sum


def _inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    record = DIRECT.get(name)

    @functools.wraps(fn)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if record is not None and len(args) == 1:
            if not kwargs:
                return update(in_place, self, record, args[0])
            if name in _SCALED and kwargs.keys() == {"alpha"} and not _shares(self, args[0]):
                return update(in_place, self, record, scaled(name, self, args[0], kwargs["alpha"]))
        return update(in_place, self, fn, *args, **kwargs)

    in_place = method.__name__ = f"{name}_"
    method.__doc__ = f"In-place form of `{name}`."
    return method


def _shares(tensor: Tensor, other: Any) -> bool:
    """Whether what is added lies in the memory written to."""
    return isinstance(other, Tensor) and other._storage is tensor._storage


def install(cls: type[Tensor]) -> None:
    """Give the class every published method, in-place form and property."""
    for name, fn in METHODS.items():
        setattr(cls, name, fn)
    for name, fn in INPLACE.items():
        if f"{name}_" not in METHODS:
            setattr(cls, f"{name}_", _inplace(name, fn))
    for name, fn in PROPERTIES.items():
        setattr(cls, name, fn if isinstance(fn, property) else property(fn))
    install_operators()
    install_indexing()
    install_printing()
    install_copying()
