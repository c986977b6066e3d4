"""How the recorder's parts call user code: through the recorder, which knows who follows it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from .plain import MISSING, is_a
from .recorder import Recorder

_OF_C = (
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


def call(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function under observation."""
    return recorder.call(recorder, fn, args, kwargs)


def is_python(recorder: Recorder, fn: Any) -> bool:
    """Whether what was found on a class is Python's, not C's."""
    kind = type(fn)
    if kind is types.FunctionType or kind is property:
        return True  # the engine's own are called natively when it comes to it
    if is_a(fn, _OF_C) or fn is None or fn is MISSING:
        return False
    return any("__call__" in c.__dict__ or "__get__" in c.__dict__ for c in kind.__mro__)


def run_engines(recorder: Recorder, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of the engine's."""
    return recorder.engine.call(fn, args, kwargs)


def entered(recorder: Recorder, fn: Any, note: Callable[[Any], Any] | None = None) -> Any:
    """A function that C can call, to have `fn` followed; `note` is told what it is given."""

    def entry(*args: Any, **kwargs: Any) -> Any:
        if note is not None:
            for value in (*args, *kwargs.values()):
                note(value)
        return call(recorder, fn, args, kwargs)

    entry.followed = fn  # type: ignore[attr-defined]
    return entry


ENTRY = entered.__code__.co_consts[
    next(i for i, x in enumerate(entered.__code__.co_consts) if is_a(x, types.CodeType))
]


def unknown(recorder: Recorder, fn: Any) -> Exception:
    """What is said of a C function in no table."""
    name = getattr(fn, "__qualname__", None) or type(fn).__name__
    module = getattr(fn, "__module__", None) or type(fn).__module__
    return recorder.refuse(
        f"{module}.{name}",
        "it is a C function that may read or change something a recording cannot see",
        "Call it outside and pass the result.",
    )
