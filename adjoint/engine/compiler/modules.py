"""compile(module): the same module, run as a program when called.

The compiled module shares its `__dict__` with the one it was made from, so parameters, buffers,
hooks, flags and every other attribute are one and the same, and so are the names in state dicts.
Its class is a subclass of the module's, of the same name, that only changes what a call does.

A module that wraps another and does something around its calls that no program holds, such as
DistributedDataParallel, names the inner one in `_compiled_part`: that is what becomes a program.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

_CLASSES: dict[Any, Any] = {}
# What a compiled module says of its program, unless the module has attributes of these names.
_PROGRAM_NAMES = frozenset(
    {"explain", "graph", "graph_text", "guards", "latest", "recordings", "svg", "traces"}
)


def is_module(fn: Any) -> bool:
    """Whether this is an instance of nn.Module (a layer above this one)."""
    return hasattr(type(fn), "_call_impl") and not isinstance(fn, type)


def compiled_module(module: Any, settings: dict[str, Any], capture: Callable[..., Any]) -> Any:
    """A module on the same state whose calls are what `capture(call, settings)` makes of them."""
    if hasattr(type(module), "_orig_mod"):
        module = module._orig_mod
    twin = object.__new__(_compiled_class(type(module)))
    twin.__dict__ = module.__dict__
    object.__setattr__(twin, "_orig_mod", module)
    object.__setattr__(twin, "_made_by", (settings, capture))
    part = getattr(type(module), "_compiled_part", None)
    if part is None:
        object.__setattr__(twin, "_program", capture(module._call_impl, settings))
    else:
        inner = compiled_module(getattr(module, part), settings, capture)
        object.__setattr__(twin, "_program", AroundProgram(module, inner))
    return twin


class AroundProgram:
    """Calls of a module whose inner module is a program."""

    def __init__(self, module: Any, inner: Any) -> None:
        self.module, self.inner = module, inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.call_around(self.inner, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner._program, name)


def _compiled_class(cls: Any) -> Any:
    """The subclass of a module's class whose calls go to the program."""
    if cls in _CLASSES:
        return _CLASSES[cls]

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._program(*args, **kwargs)
        except Exception as error:
            self._orig_mod._name_in(error, args, kwargs)
            raise

    def reduce(self: Any, protocol: Any = None) -> Any:
        return (compiled_module, (self._orig_mod, *self._made_by))

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        return compiled_module(copy.deepcopy(self._orig_mod, memo), *self._made_by)

    def look_up(self: Any, name: str) -> Any:
        if name in _PROGRAM_NAMES:
            return getattr(self._program, name)
        return super(subclass, self).__getattr__(name)

    body = {
        "__slots__": ("_made_by", "_orig_mod", "_program"),
        "__call__": call,
        "__getattr__": look_up,
        "__reduce_ex__": reduce,
        "__deepcopy__": deepcopy,
        "__copy__": lambda self: compiled_module(copy.copy(self._orig_mod), *self._made_by),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    subclass: Any = type(cls.__name__, (cls,), body)
    return _CLASSES.setdefault(cls, subclass)
