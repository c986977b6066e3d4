"""Hooks of tensors that a backward outside of a compiled function calls: what they may not use."""

from __future__ import annotations

import builtins
import types
from typing import Any

from adjoint.engine.capture.python.locations import ClassAttribute, Item, Location
from adjoint.engine.capture.python.observation import Observation
from adjoint.engine.capture.python.plain import MISSING, has
from adjoint.engine.capture.tensors.callbacks import is_native
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.ownership import module_of

# What nobody takes for state: functions and where they are found.
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.CodeType, type)


def check_hooks(observation: Observation, effects: int, guards: int) -> None:
    """Refuse hooks that use Python's state when backward is called on a result, which is later."""
    lines = [effect.line for effect in observation.effects[effects:]]
    read = list(observation.recorder.guards.values())[guards:]
    lines += [
        guard.line
        for guard in read
        if not _is_code(guard.value)
        and not _is_of_framework(guard.place)
        and not _names_a_builtin(guard.place, guard.value)
    ]
    if lines:
        raise CaptureError(
            f"compile: {lines[0]}: a hook of a tensor reads or changes Python's state, which a "
            "backward that is called outside the function would find otherwise. Call backward "
            "inside, or register the hook on the result."
        )


def _is_code(value: Any) -> bool:
    """Whether a value is code, or an operation of one's own and where it is found."""
    return isinstance(value, _CODE) or has(type(value), "capture_as_code")


def _is_of_framework(place: Location) -> bool:
    """Whether a place is an attribute of a class of the framework's."""
    return type(place) is ClassAttribute and is_native(module_of(place.owner))


def _names_a_builtin(place: Location, value: Any) -> bool:
    """Whether it is that a module has no variable by the name of a builtin, which is then meant."""
    in_a_module = type(place) is Item and "__builtins__" in place.owner
    return value is MISSING and in_a_module and hasattr(builtins, place.key)
