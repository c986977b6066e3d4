"""Deriving Tensor's methods from the public table."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.core.public import INPLACE, METHODS, PROPERTIES
from adjoint.tensor.copying import install_copying
from adjoint.tensor.indexing import install_indexing
from adjoint.tensor.mutation import update
from adjoint.tensor.operators import DIRECT, install_operators
from adjoint.tensor.printing import install_printing
from adjoint.tensor.tensor import Tensor


def _inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    record = DIRECT.get(name)

    @functools.wraps(fn)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if record is not None and len(args) == 1 and not kwargs:
            return update(in_place, self, record, args[0])
        return update(in_place, self, fn, *args, **kwargs)

    in_place = method.__name__ = f"{name}_"
    method.__doc__ = f"In-place form of `{name}`."
    return method


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
