"""What is the framework's own: its functions and classes do not change while a program runs."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

# Others' functions in the place of methods of Tensor's own, by name. Compositions and rules call
# those, so while there are any, what is recorded does not follow from the package's code.
REPLACED: dict[str, Any] = {}


def is_own(thing: Any) -> bool:
    """Whether a function or class is the framework's own.

    >>> is_own(is_own), is_own(len)
    (True, False)
    """
    return (thing.__module__ or "").partition(".")[0] == __name__.partition(".")[0]


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
