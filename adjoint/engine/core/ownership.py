"""What is the framework's own: its functions and classes do not change while a program runs."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

# Others' functions in the place of methods of Tensor's own, by name. Compositions and rules call
# those, so while there are any, what is recorded does not follow from the package's code.
REPLACED: dict[str, Any] = {}
# Properties of Tensor's own that native code reads, and those in Python whose place they took.
READ_NATIVELY: dict[property, property] = {}

_HOMES: dict[int, str] = {}  # where classes are written that programs know by another module


def module_of(thing: Any) -> str:
    """The module that a class or function is written in, by whatever name programs know it.

    >>> module_of(dict)
    'builtins'
    """
    return _HOMES.get(id(thing)) or getattr(thing, "__module__", None) or ""


def know_as(kind: type, module: str, name: str | None = None) -> None:
    """Have a class of the framework's say that it is of another module."""
    _HOMES.setdefault(id(kind), kind.__module__)
    kind.__module__ = module
    kind.__qualname__ = name or kind.__qualname__


def is_own(thing: Any) -> bool:
    """Whether a function or class is the framework's own.

    >>> is_own(is_own), is_own(len)
    (True, False)
    """
    return module_of(thing).partition(".")[0] == __name__.partition(".")[0]


def is_written_here(thing: Any) -> bool:
    """Whether a function is the framework's own, by where its code is; data is nobody's.

    `functools.wraps` has a function of another's say that it is of the framework's module.

    >>> is_written_here(is_own), is_written_here(len), is_written_here("text")
    (True, False, True)
    """
    if isinstance(thing, property):
        return all(map(is_written_here, (thing.fget, thing.fset, thing.fdel)))
    if isinstance(thing, classmethod | staticmethod):
        thing = thing.__func__
    if isinstance(thing, BuiltinFunctionType):
        return is_own(thing)  # native code, made by `fastcall.builtin`
    if not isinstance(thing, FunctionType):
        return not callable(thing)
    name = thing.__globals__.get("__name__") or ""
    inner = getattr(thing, "__wrapped__", None)
    return name.partition(".")[0] == __name__.partition(".")[0] and is_written_here(inner)
