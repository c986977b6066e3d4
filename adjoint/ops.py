"""Operations by name, as PyTorch's `torch.ops`: `ops.aten.add`, `ops.namespace.one_of_yours`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from adjoint.engine.core.operations.public import METHODS, PUBLIC
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state import config
from adjoint.engine.tensor.tensor import Tensor
from adjoint.library import OPERATIONS

SPACES = ("", "nn.functional", "linalg", "special", "fft")


class OpOverload:
    """One of our functions under the name PyTorch's compiled library has for it.

    One we do not have can be named, as in a table of handlers, and refuses when called.

    Example:
        >>> import adjoint as ad
        >>> aten.add.Tensor(ad.ones(2), 1)
        tensor([2., 2.])
    """

    def __init__(self, name: str, fn: Callable[..., Any] | None) -> None:
        self._name = name
        self._fn = fn
        self.__name__ = name.split("::")[1]
        self.__doc__ = None if fn is None else fn.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._fn is None:
            raise NotImplementedError(f"{config.display_name}.ops: Adjoint has no {self._name}")
        return self._fn(*args, **kwargs)

    def __getattr__(self, overload: str) -> OpOverload:
        # `aten.add.Tensor`, `.Scalar`, `.default`: one function serves all.
        if overload.startswith("__"):
            raise AttributeError(overload)
        made = OpOverload(f"{self._name}.{overload}", self._fn)
        self.__dict__[overload] = made
        return made

    def __eq__(self, other: object) -> bool:
        # One function serves all overloads, so they are one key in a table of handlers.
        return isinstance(other, OpOverload) and self._packet == other._packet

    def __hash__(self) -> int:
        return hash(self._packet)

    @property
    def _packet(self) -> str:
        return self._name.partition(".")[0]

    @property
    def overloadpacket(self) -> OpOverload:
        """The operation of all overloads."""
        return self

    def __repr__(self) -> str:
        return f"<OpOverload(op={self._name.replace('::', '.')})>"


class Namespace:
    """The operations of one namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self._name}::{name}"
        if full in OPERATIONS:
            return OPERATIONS[full]
        if self._name != "aten":
            raise AttributeError(
                f"'_OpNamespace' '{self._name}' object has no attribute '{name}'", name=name
            )
        made = OpOverload(full, _built_in(name))
        self.__dict__[name] = made
        return made


def sym_size(x: Tensor, dim: int) -> int:
    """The size of a dimension, as programs ask for it."""
    return x.shape[dim]


# Operations of programs that are no functions of ours.
OF_PROGRAMS: dict[str, Callable[..., Any]] = {"sym_size": sym_size}


def _built_in(name: str) -> Callable[..., Any] | None:
    HOOKS.load_rest()
    if name in OF_PROGRAMS:
        return OF_PROGRAMS[name]
    for space in SPACES:
        if (space, name) in PUBLIC:
            return PUBLIC[space, name].fn
    if name in METHODS:
        return METHODS[name]
    if name.endswith("_"):
        return getattr(Tensor, name, None)
    return None


class _Ops(ModuleType):
    """Any name is a namespace: of operations that may yet be registered."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = Namespace(name)
        self.__dict__[name] = made
        return made


def load_library(path: str) -> None:
    """Refused: compiled operations of PyTorch's cannot be loaded."""
    raise NotImplementedError(
        f"{config.display_name}.ops.load_library: {path} is compiled against PyTorch"
    )


aten = Namespace("aten")
sys.modules[__name__].__class__ = _Ops
