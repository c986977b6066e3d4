"""How the recorder's parts call user code: through the recorder, which knows who follows it."""

from __future__ import annotations

import types
from typing import Any

from .plain import MISSING
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
    if isinstance(fn, _OF_C) or fn is None or fn is MISSING:
        return False
    return any("__call__" in c.__dict__ or "__get__" in c.__dict__ for c in kind.__mro__)
