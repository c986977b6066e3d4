"""compile(module): the same module, run as a program when called.

The compiled module shares its `__dict__` with the one it was made from, so parameters, buffers,
hooks, flags and every other attribute are one and the same, and so are the names in state dicts.
Its class is a subclass of the module's, of the same name, that only changes what a call does.

`compiled._orig_mod = other` makes it a program of another module, class and all: what a library
does that takes the wrapper of several processes off and keeps the compilation.

A module that wraps another and does something around its calls that no program holds, such as
DistributedDataParallel, names the inner one in `_compiled_part`: that is what becomes a program.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.ownership import module_of

_CLASSES: dict[Any, Any] = {}
# What a compiled module says of its program, unless the module has attributes of these names.
_PROGRAM_NAMES = frozenset(
    {"explain", "graph", "graph_text", "guards", "latest", "recordings", "svg", "traces"}
)


def is_module(fn: Any) -> bool:
    """Whether this is an instance of nn.Module (a layer above this one)."""
    return hasattr(type(fn), "_call_impl") and not isinstance(fn, type)


def is_compiled_module(module: Any) -> bool:
    """Whether this is what `compiled_module` made."""
    return hasattr(type(module), "_orig_mod")


class Twin:
    """What a compiled module has of its own: all else is in the `__dict__` that it shares."""

    # With slots that all compiled classes have from here, `__class__` of one may become another.
    __slots__ = ("_made_by", "_orig_mod", "_program")


def compiled_module(module: Any, settings: dict[str, Any], capture: Callable[..., Any]) -> Any:
    """A module on the same state whose calls are what `capture(call, settings)` makes of them."""
    if is_compiled_module(module):
        module = module._orig_mod
    twin = object.__new__(_compiled_class(type(module)))
    object.__setattr__(twin, "_made_by", (settings, capture))
    _share(twin, module)
    return twin


def _share(twin: Any, module: Any) -> None:
    """Have a compiled module be that of `module`."""
    settings, capture = twin._made_by
    part = getattr(type(module), "_compiled_part", None)
    if part is None:
        program = capture(module._call_impl, settings)
    else:
        inner = compiled_module(getattr(module, part), settings, capture)
        program = AroundProgram(module, inner)
    twin.__dict__ = module.__dict__
    object.__setattr__(twin, "_orig_mod", module)
    object.__setattr__(twin, "_program", program)


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

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name != "_orig_mod":
            super(subclass, self).__setattr__(name, value)
            return
        module = value._orig_mod if is_compiled_module(value) else value
        if module is not self._orig_mod:
            self.__class__ = _compiled_class(type(module))
            _share(self, module)

    body = {
        "__slots__": (),
        "__call__": call,
        "__getattr__": look_up,
        "__setattr__": set_attribute,
        "__reduce_ex__": reduce,
        "__deepcopy__": deepcopy,
        "__copy__": lambda self: compiled_module(copy.copy(self._orig_mod), *self._made_by),
        "__module__": module_of(cls),
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    try:
        subclass: Any = type(cls.__name__, (cls, Twin), body)
    except TypeError:  # the module's class has slots too, beside which no others can be inherited
        subclass = type(cls.__name__, (cls,), {**body, "__slots__": Twin.__slots__})
    return _CLASSES.setdefault(cls, subclass)
