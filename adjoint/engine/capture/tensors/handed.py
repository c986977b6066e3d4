"""Values of the user's that the framework's functions are given: what these ask is followed first.

Such a function runs natively. It goes through sequences and calls `__index__`, `__float__` or
`__array__` of objects where nobody observes that. So the recorder asks the same before, and what
is read meanwhile becomes guards; a method that changes something is refused.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint.engine.capture.python.calling import call, is_python
from adjoint.engine.capture.python.exposing import _VIEWS, expose, is_iterator
from adjoint.engine.capture.python.language import iteration
from adjoint.engine.capture.python.language.attributes import class_lookup, kind_of
from adjoint.engine.capture.python.plain import (
    BY_IDENTITY,
    FIXED,
    MISSING,
    can_change,
    elements,
    is_a,
)
from adjoint.engine.capture.tensors.callbacks import is_module, is_of_the_framework
from adjoint.engine.capture.tensors.late_arrays import is_late
from adjoint.engine.capture.tensors.late_values import is_late_value
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.ownership import module_of

_NUMBERS = ("__index__", "__float__", "__int__", "__complex__", "__bool__")
_CONTAINERS = (tuple, list, dict, set, frozenset, deque)


def hand_over(recorder: Any, value: Any, *, through: bool) -> None:
    """Have a recording depend on what a native function may ask of a value.

    Numbers of each call that are in a container stay what they are.
    """
    kind = type(value)
    if kind in FIXED or is_tensor(value) or _sees_to_itself(recorder, value):
        return
    if is_a(value, _CONTAINERS):
        _container(recorder, value, through)
    elif is_late_value(value):
        value.pin()
    elif kind is slice:
        for part in (value.start, value.stop, value.step):
            hand_over(recorder, part, through=through)
    elif is_a(value, _VIEWS):
        table = recorder.shown(value)
        if table is not None:
            recorder.contents(table)
        for part in value:
            hand_over(recorder, part, through=through)
    elif is_a(value, np.ndarray) or recorder.engine.elements(value) is not None:
        if not recorder.is_fresh(value):
            expose(recorder, value)
    elif is_iterator(value):
        if through:
            expose(recorder, value)  # refuses one that others go on with
    elif not _asks_nothing(recorder, value):
        _object(recorder, value, through)


def _asks_nothing(recorder: Any, value: Any) -> bool:
    """Whether nobody's code runs for a value, or the framework's own."""
    engine = recorder.engine
    return (
        is_a(value, (*BY_IDENTITY, type, enum.Enum, np.generic))
        or not can_change(type(value))
        or is_late(value)
        or engine.is_symbol(value)
        or engine.owns(value)
        or is_module(value)
        or is_of_the_framework(module_of(type(value)))  # quantised tensors are sequences, too
    )


def _sees_to_itself(recorder: Any, value: Any) -> bool:
    """Whether a value is a container of the framework's, such as a group of an optimizer's.

    Those that may change say themselves what a recording depends on; its sizes cannot change.
    """
    return is_a(value, _CONTAINERS) and bool(recorder.engine.keeps(type(value)))


def _container(recorder: Any, value: Any, through: bool) -> None:
    kind = type(value)
    if not is_a(value, (tuple, frozenset)):
        recorder.contents(value)
    for part in list(dict.values(value)) if is_a(value, dict) else list(elements(value)):
        hand_over(recorder, part, through=through)
    if can_change(kind):
        _sequence(recorder, value, kind, through)


def _object(recorder: Any, value: Any, through: bool) -> None:
    cls = kind_of(recorder, value)
    for name in _NUMBERS:
        method = class_lookup(recorder, cls, name)
        if is_python(recorder, method):
            _ask(recorder, value, name, partial(call, recorder, method, (value,), {}))
    method = class_lookup(recorder, cls, "__array__")
    if is_python(recorder, method):
        _ask(recorder, value, "__array__", lambda: _array(recorder, method, value))
    _sequence(recorder, value, cls, through)


def _array(recorder: Any, method: Any, value: Any) -> None:
    array = call(recorder, method, (value,), {})
    if not recorder.is_fresh(array):
        expose(recorder, array)


def _sequence(recorder: Any, value: Any, cls: type, through: bool) -> None:
    """Go through a sequence whose methods are written in Python."""
    if not through:
        return
    length, item, steps = (
        class_lookup(recorder, cls, name) for name in ("__len__", "__getitem__", "__iter__")
    )
    if is_python(recorder, length):
        _ask(recorder, value, "__len__", lambda: call(recorder, length, (value,), {}))
    if is_python(recorder, steps) or (steps is MISSING and is_python(recorder, item)):
        _ask(recorder, value, "__iter__", lambda: _go_through(recorder, value))


def _go_through(recorder: Any, value: Any) -> None:
    for part in iteration.native(recorder, value):
        hand_over(recorder, part, through=True)


def _ask(recorder: Any, value: Any, name: str, ask: Callable[[], Any]) -> None:
    """Follow a method that native code calls too, if it does; it must not change anything."""

    def quietly() -> None:
        try:
            ask()
        except Exception as error:  # native code meets it too, and says what comes of it
            if recorder.refusal is error:
                raise

    if recorder.changes(quietly) and recorder.changes(quietly):
        raise recorder.refuse(
            f"{type(value).__name__}.{name}",
            "it changes something, and a function of the framework is given the object, which "
            "calls it where it is not observed",
            "Call it before, and pass the result.",
        )
