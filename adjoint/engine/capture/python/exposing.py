"""Values handed to C: everything C may read in them is guarded first, or the call is refused."""

from __future__ import annotations

import decimal
import enum
import types
from collections import deque
from typing import Any

from .calling import is_python
from .decimals import depend_on_context
from .errors import Refusal
from .locations import Answer
from .plain import (
    BY_IDENTITY,
    FIXED,
    PLAIN,
    ObjectIdentity,
    can_change,
    elements,
    is_a,
    is_plain,
    own_class,
)
from .recorder import Recorder

_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_ITERABLES: tuple[Any, ...] = ([], (), {}, "", b"", range(1), set(), {}.values(), {}.items())
_ITERATORS: tuple[Any, ...] = (
    types.GeneratorType,
    zip,
    map,
    filter,
    enumerate,
    reversed,
    *[type(iter(x)) for x in _ITERABLES],
    type(reversed([])),
    type(reversed({})),
    type(iter(deque())),
    type(iter(range(1 << 70))),
    type(iter(bytearray())),
)
# Special methods that C calls behind one's back; Python's own versions of them must be followed.
_BEHIND = (
    "__eq__ __hash__ __lt__ __repr__ __str__ __iter__ __len__ __index__ __float__ __bool__ "
    "__array__"
)
_QUIET = {object, BaseException, Exception}


class NeedsPython(Refusal):
    """C would call a special method that is written in Python.

    A refusal already, which handlers of the recorded code cannot see; who asks may follow the
    method instead, or say it better.
    """

    def __init__(self, recorder: Recorder, cls: type) -> None:
        super().__init__(
            f"a {cls.__name__} handed to C",
            "C would call its special methods, which are written in Python and not observed there",
            "Pass plain values, or do it outside.",
            recorder.line(),
        )


def is_iterator(value: Any) -> bool:
    """Whether a value is one of Python's own iterators."""
    return is_a(value, _ITERATORS) or type(value).__module__ == "itertools"


def has_python_methods(recorder: Recorder, cls: type, names: str = _BEHIND) -> bool:
    """Whether a class has special methods in Python that C would call."""
    from adjoint.engine.capture.python.language.attributes import class_lookup

    if not can_change(cls) or cls in _QUIET:
        return False
    return any(is_python(recorder, class_lookup(recorder, cls, name)) for name in names.split())


def expose(recorder: Recorder, value: Any, *, shallow: bool = False) -> Any:
    """Have everything in a value guarded that C may read; what to hand to C.

    With `shallow` C only moves the elements of a container about.
    """
    kind = type(value)
    if kind in FIXED:
        if kind is decimal.Decimal:
            depend_on_context(recorder)
        return value
    if recorder.engine.is_symbol(value):
        return recorder.concrete(value)
    if kind is ObjectIdentity:
        recorder.identified(value)
        return int(value)
    if kind is tuple:
        if shallow or all(type(x) in PLAIN for x in value):
            return value
        parts = [expose(recorder, x) for x in value]
        return value if all(map(_is, parts, value)) else tuple(parts)
    if is_a(value, tuple) and recorder.engine.keeps(kind):  # sizes: a tuple to C
        return expose(recorder, tuple(tuple.__iter__(value)), shallow=shallow)
    if is_a(value, (list, dict, set, deque, bytearray, tuple, frozenset)):
        return _expose_container(recorder, value, shallow)
    if is_a(value, (BY_IDENTITY, type, enum.Enum)):
        return value
    if recorder.engine.owns(value):
        return value
    if is_a(value, _VIEWS) or kind is types.MappingProxyType:
        return _expose_view(recorder, value, shallow)
    if is_iterator(value):
        if recorder.is_fresh(value):
            return value
        raise from_outside(recorder, value)
    if kind is slice:
        return slice(*(expose(recorder, x) for x in (value.start, value.stop, value.step)))
    return _expose_other(recorder, value)


def _is(a: Any, b: Any) -> bool:
    return a is b


def _expose_container(recorder: Recorder, value: Any, shallow: bool) -> Any:
    if can_change(type(value)) and has_python_methods(recorder, type(value)):
        raise NeedsPython(recorder, type(value))
    if not is_a(value, (tuple, frozenset)):
        recorder.contents(value)
    if shallow or is_a(value, bytearray):
        return value
    if is_a(value, dict):
        for key, part in list(dict.items(value)):
            expose(recorder, key)
            given = expose(recorder, part)
            if given is not part:
                dict.__setitem__(value, key, given)
        return value
    if is_a(value, (list, deque)):
        for i, part in enumerate(elements(value)):
            given = expose(recorder, part)
            if given is not part:  # a symbol that was put there, pinned now
                own_class(value).__setitem__(value, i, given)
        return value
    for part in value:
        expose(recorder, part)
    return value


def _expose_view(recorder: Recorder, value: Any, shallow: bool) -> Any:
    if is_a(value, _VIEWS):
        owner = recorder.shown(value)
    else:
        _, owner = recorder.views.get(id(value), (None, None))
    if owner is None and recorder.is_fresh(value):
        return value
    if owner is None or is_a(owner, type):
        recorder.guard(Answer(_listed, (value,)), _listed(value))
    else:
        expose(recorder, owner, shallow=shallow)
    return value


def _listed(mapping: Any) -> tuple[Any, ...]:
    return (*mapping, *mapping.values())


def _expose_other(recorder: Recorder, value: Any) -> Any:
    """Anything else: C sees its identity alone, or a buffer whose elements are guarded."""
    cls = type(value)
    if recorder.engine.elements(value) is not None:
        recorder.engine.guard_elements(recorder, value)
        return value
    if has_python_methods(recorder, cls):
        raise NeedsPython(recorder, cls)
    if not can_change(cls) and not is_a(value, BaseException):
        if recorder.is_fresh(value) or is_plain(value):
            return value
        raise recorder.refuse(
            f"a {cls.__name__}",
            "a C function is given it, which may read what nobody can guard",
            "Read it outside and pass the result.",
        )
    return value


def from_outside(recorder: Recorder, value: Any) -> Exception:
    """What is said of an iterator that was made before."""
    return recorder.refuse(
        f"a {type(value).__name__} from outside",
        "each call would go on where the last one stopped",
        "Make the iterator in the function, or pass what it gives as an argument.",
    )
