"""Attributes that a function gives its arguments, which are other tensors in each call."""

from __future__ import annotations

from typing import Any

from adjoint.engine.capture.python.plain import MISSING
from adjoint.engine.capture.tensors.looks import Has


def tag_argument(recorder: Any, trace: Any, tensor: Any, name: str, value: Any) -> bool:
    """Give an argument an attribute, or take it off (MISSING): each call does so with its own.

    False where there is nothing to take off.
    """
    attributes = tensor.__dict__
    if value is MISSING:
        if not recorder.has_put(attributes, name):
            trace.look(tensor, Has(name))
        if name not in attributes:
            return False
    recorder.journal.writes(attributes, name)
    recorder.effect(_tag, tensor, name, value)
    _tag(tensor, name, value)
    return True


def _tag(tensor: Any, name: str, value: Any) -> None:
    if value is MISSING:
        del tensor.__dict__[name]
    else:
        tensor.__dict__[name] = value
