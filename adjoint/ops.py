"""Operations by name, as PyTorch's `torch.ops`: `ops.aten.add`, `ops.namespace.one_of_yours`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from adjoint.engine.core.operations.public import METHODS, PUBLIC
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state import config
from adjoint.engine.tensor.tensor import Tensor
from adjoint.library import OPERATIONS
from adjoint.library.aten_names import NAMES

SPACES = ("nn.functional", "linalg", "special", "fft")
# Namespaces of PyTorch's whose operations tables of handlers name; they refuse when called.
VISION = frozenset("deform_conv2d nms ps_roi_align ps_roi_pool roi_align roi_pool".split())
NAMED_ONLY = frozenset(
    "_c10d_functional c10d_functional c10d fsdp prims quantized_decomposed".split()
)


class OpOverload:
    """One of our functions under the name PyTorch's compiled library has for it.

    One we do not have can be named, as in a table of handlers, and refuses when called.

    Example:
        >>> import adjoint as ad
        >>> aten.add.Tensor(ad.ones(2), 1)
        tensor([2., 2.])
    """

    capture_as_code = True

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
        overloaded = OpOverload(f"{self._name}.{overload}", self._fn)
        self.__dict__[overload] = overloaded
        return overloaded

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

    @property
    def namespace(self) -> str:
        """What stands before its name."""
        return self._name.partition("::")[0]

    @property
    def _overloadname(self) -> str:
        return self._name.partition(".")[2] or "default"

    @property
    def _schema(self) -> Schema:
        """What is known of its arguments: their names and defaults."""
        return Schema(self._packet, self._overloadname, self._fn)

    def name(self) -> str:
        """Its name in full."""
        return self._name

    def overloads(self) -> list[str]:
        """The names of its forms: one function serves all."""
        return ["default"]

    def __str__(self) -> str:
        return self._name.replace("::", ".")

    def __repr__(self) -> str:
        return f"<OpOverload(op={self})>"


class Argument(NamedTuple):
    """One argument of an operation."""

    name: str
    kwarg_only: bool
    default_value: Any

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self.default_value is not inspect.Parameter.empty


class Schema:
    """The arguments of an operation, from the function behind it."""

    def __init__(self, name: str, overload_name: str, fn: Callable[..., Any] | None) -> None:
        self.name = name
        self.overload_name = overload_name
        parameters = [] if fn is None else inspect.signature(fn).parameters.values()
        self.arguments = [
            Argument(parameter.name, parameter.kind is parameter.KEYWORD_ONLY, parameter.default)
            for parameter in parameters
        ]

    @property
    def is_mutable(self) -> bool:
        """Whether it writes to an argument."""
        return self.name.endswith("_") and not self.name.endswith("__")

    def __str__(self) -> str:
        shown = ", ".join(argument.name for argument in self.arguments)
        return f"{self.name}.{self.overload_name}({shown})"


class Namespace:
    """The operations of one namespace."""

    # Without a dict of its own a name is looked for in the class, then asked for: what a recording
    # reads on the way to an operation is nothing that a program changes.
    __slots__ = ("_built_in", "_name")
    capture_as_code = True

    def __init__(self, name: str) -> None:
        self._name = name
        self._built_in: dict[str, OpOverload] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._built_in:
            return self._built_in[name]
        full = f"{self._name}::{name}"
        if full in OPERATIONS:
            return OPERATIONS[full]
        if self._name == "torchvision" and name in VISION:
            return OpOverload(full, getattr(importlib.import_module("adjoint.vision.ops"), name))
        if self._name in NAMED_ONLY:
            return OpOverload(full, None)
        if self._name != "aten":
            raise AttributeError(
                f"'_OpNamespace' '{self._name}' object has no attribute '{name}'", name=name
            )
        return self._built_in.setdefault(name, OpOverload(full, built_in(name)))


def built_in(name: str) -> Callable[..., Any] | None:
    """Our function of an operation's inner name (`linalg_inv`, `gelu`), or None."""
    HOOKS.load_rest()
    if name in NAMES:
        return NAMES[name]
    if ("", name) in PUBLIC:
        return PUBLIC["", name].fn
    if name in METHODS:
        return METHODS[name]
    for space in SPACES:
        if (space, name) in PUBLIC:
            return PUBLIC[space, name].fn
    prefix, _, rest = name.partition("_")
    if prefix in SPACES and (prefix, rest) in PUBLIC:  # linalg_vector_norm
        return PUBLIC[prefix, rest].fn
    if name.startswith("_foreach_"):
        return getattr(sys.modules["adjoint"], name, None)
    if name.endswith("_"):
        return getattr(Tensor, name, None)
    return None


class _Ops(ModuleType):
    """Any name is a namespace: of operations that may yet be registered."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = Namespace(name)
        self.__dict__[name] = namespace
        return namespace


class NotLoadedError(NotImplementedError, OSError):
    """A library of compiled operations is not there; an OSError, which programs look for."""


def load_library(path: str) -> None:
    """Refused: compiled operations of PyTorch's cannot be loaded."""
    raise NotLoadedError(
        f"{config.display_name}.ops.load_library: Could not load this library: {path}. Operations "
        "compiled against PyTorch do not run here."
    )


aten = Namespace("aten")
sys.modules[__name__].__class__ = _Ops
