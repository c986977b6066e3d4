"""Objects of the framework's that a recorded function returns or keeps: what is inside of them.

Nobody observes how such an object was made, so no call can make another. One that holds nothing of
the recording may be the same at each call; one that does (the function that `vjp` gives holds what
was computed) is refused.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any

from adjoint.engine.capture.python.language.operators import new_parts
from adjoint.engine.capture.python.plain import PLAIN, elements, has
from adjoint.engine.capture.tensors.callbacks import is_module, is_of_the_framework
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.ownership import module_of
from adjoint.engine.core.tree import REGISTERED

_CONTAINERS = (list, tuple, set, frozenset, deque)
CONTAINERS = (dict, *_CONTAINERS)  # that a function may be given by the framework, or get


def holds_new(engine: Any, value: Any) -> bool:
    """Whether an object of the framework's, or a function, holds a tensor of the recording.

    Objects that say themselves what a recording depends on see to their own tensors.
    """
    if not _is_the_frameworks(value) or has(type(value), "capture_children"):
        return False
    met, left = {id(value)}, [value]
    while left:
        for part in _parts(left.pop()):
            if id(part) in met or type(part) in PLAIN or isinstance(part, type):
                continue
            met.add(id(part))
            if not is_tensor(part):
                left.append(part)
            elif engine.is_new(part) or part._storage.level is not None:
                return True
    return False


def note_made(engine: Any, value: Any, met: dict[int, bool] | None = None) -> bool:
    """Note what the framework made of containers, a value or what is in it; whether it is one.

    Such a container holds a tensor of the recording, at whatever depth, that nobody wrote to it.
    One that was there before can hold it only if the function put it there, as the journal knows.
    """
    if is_tensor(value):
        return bool(engine.is_new(value) or value._storage.level is not None)
    parts = _parts_of_tree(value)
    if not parts:
        return False
    met = {} if met is None else met
    if id(value) in met:
        return met[id(value)]
    met[id(value)] = False  # should it be in itself
    holds = False
    for part in parts:
        holds |= note_made(engine, part, met)
    del parts, part  # `new_parts` asks who else holds them
    recorder = engine.recorder
    made = met[id(value)] = holds and not recorder.journal.knows(value)
    if made and recorder.needs_guards(value):
        recorder.new(value)
        new_parts(recorder, value)
    return made


def _parts_of_tree(value: Any) -> Iterable[Any]:
    """What is in a container, or in an object that transformations make anew as they do those."""
    if isinstance(value, dict):
        return dict.values(value)
    if isinstance(value, CONTAINERS):
        return list(elements(value))
    kind = type(value)
    if kind not in REGISTERED and (isinstance(value, type) or not is_dataclass(kind)):
        return ()
    return _kept(value)


def _is_the_frameworks(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        return is_of_the_framework(value.__globals__.get("__name__") or "")
    return is_of_the_framework(module_of(type(value))) and not (
        is_tensor(value)
        or is_module(value)
        or isinstance(value, (type, *CONTAINERS))  # writes to such tables are observed
    )


def _parts(value: Any) -> Iterable[Any]:
    """What is directly inside of an object, of a function's variables, of a container."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, _CONTAINERS):
        return value
    if isinstance(value, types.CellType):
        try:
            return (value.cell_contents,)
        except ValueError:  # not there yet
            return ()
    if isinstance(value, types.FunctionType):
        return (*(value.__closure__ or ()), *(value.__defaults__ or ()))
    if not _is_the_frameworks(value):
        return ()
    return _kept(value)


def _kept(value: Any) -> Iterable[Any]:
    """What the attributes of an object are."""
    slots = [
        getattr(value, name)
        for cls in type(value).__mro__
        for name, place in vars(cls).items()
        if type(place) is types.MemberDescriptorType and hasattr(value, name)
    ]
    return (*getattr(value, "__dict__", {}).values(), *slots)
