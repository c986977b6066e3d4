"""Subscripts and membership: what is read of a container, and what is put into it."""

from __future__ import annotations

import operator
import types
from collections import defaultdict, deque
from typing import Any

from adjoint.engine.capture.python.calling import call, is_python
from adjoint.engine.capture.python.engine import elements_of
from adjoint.engine.capture.python.exposing import _VIEWS, expose
from adjoint.engine.capture.python.language import iteration
from adjoint.engine.capture.python.language.attributes import class_lookup, field
from adjoint.engine.capture.python.language.operators import (
    IMMUTABLE,
    SEQUENCES,
    compare,
    hashable,
    method_of,
    new_result,
    truth,
)
from adjoint.engine.capture.python.locations import Answer, ClassAttribute, Item, Length
from adjoint.engine.capture.python.plain import (
    MISSING,
    PLAIN,
    can_change,
    count,
    element_at,
    elements,
    is_a,
)
from adjoint.engine.capture.python.recorder import Recorder


def get_item(recorder: Recorder, owner: Any, key: Any) -> Any:
    """`owner[key]`."""
    cls = type(owner)
    if cls is dict:
        return dict_item(recorder, owner, key)
    if cls is list:
        return list_item(recorder, owner, key)
    if is_a(owner, IMMUTABLE) and not can_change(cls):
        return owner[index(recorder, key)]
    if recorder.engine.owns(owner):
        key = _asked(recorder, key)
        if not is_python(recorder, method_of(recorder, owner, "__getitem__")):
            return recorder.engine.call(operator.getitem, (owner, key), {})
    method = method_of(recorder, owner, "__getitem__")
    if is_python(recorder, method):
        return call(recorder, method, (owner, key), {})
    if is_a(owner, dict):
        return dict_item(recorder, owner, key)
    if is_a(owner, (list, deque)):
        return list_item(recorder, owner, key)
    if is_a(owner, type):
        return _class_item(recorder, owner, key)
    if method is MISSING or is_a(owner, IMMUTABLE):
        return owner[index(recorder, key)]
    return other_item(recorder, owner, key)


def other_item(recorder: Recorder, owner: Any, key: Any) -> Any:
    """An element of a C object of another kind: looked at again by the guard."""
    key = expose(recorder, key)
    view = recorder.views.get(id(owner))
    if view is not None and is_a(view[1], type):
        recorder.guard(ClassAttribute(view[1], key), view[0].get(key, MISSING))
        return owner[key]
    if recorder.is_fresh(owner):
        return new_result(recorder, owner[key])
    value = owner[key]
    changed = recorder.engine.is_changed(owner)
    alone = None if changed else element_of(owner, key)
    if alone is not None:
        recorder.guard(Answer(element_of, (owner, key)), alone)
        return value
    if not changed and recorder.engine.same_answer(value, owner[key]):
        return recorder.guard(Answer(operator.getitem, (owner, key)), value)
    expose(recorder, owner)
    return new_result(recorder, value)


def element_of(owner: Any, key: Any) -> Any:
    """An element of an array as a plain value; None of what shares memory with the array."""
    value = owner[key]
    names = [c.__name__ for c in type(value).__mro__ if c.__module__ == "numpy"]
    copied = "generic" in names and "void" not in names  # records look into the array
    return elements_of(value) if copied else None


def index(recorder: Recorder, key: Any) -> Any:
    """A subscript that C may use."""
    if type(key) in PLAIN:
        return key
    if type(key) is slice:
        return slice(*(index(recorder, x) for x in (key.start, key.stop, key.step)))
    if recorder.engine.is_symbol(key):
        return recorder.concrete(key)
    if is_a(key, int):
        return int.__index__(key)  # C asks no heir of int for its `__index__`
    method = method_of(recorder, key, "__index__")
    if not is_python(recorder, method):
        return key
    number = call(recorder, method, (key,), {})
    if not is_a(number, int) and not recorder.engine.is_symbol(number):
        raise TypeError(f"__index__ returned non-int (type {type(number).__name__})")
    return number


def _asked(recorder: Recorder, key: Any) -> Any:
    """A subscript of a tensor: of an object with an `__index__` of its own, what that says."""
    engine = recorder.engine
    plain = type(key) in PLAIN or is_a(key, (int, slice, *SEQUENCES))
    return key if plain or engine.is_symbol(key) or engine.owns(key) else index(recorder, key)


def list_item(recorder: Recorder, owner: Any, key: Any) -> Any:
    """An element or a slice of a list or deque."""
    key = index(recorder, key)
    if type(key) in (int, bool):
        return recorder.element(owner, int(key))
    if is_a(key, slice):
        recorder.contents(owner)
        return recorder.new(element_at(owner, key))
    return element_at(owner, key)  # an index of another kind, or the error


def dict_item(recorder: Recorder, owner: Any, key: Any) -> Any:
    """What a dict has under a key."""
    key = hashable(recorder, key, owner)
    value = recorder.item(owner, key)
    if value is not MISSING:
        return value
    if type(owner) is not dict:
        missing = method_of(recorder, owner, "__missing__")
        if is_python(recorder, missing):
            return call(recorder, missing, (owner, key), {})
        if is_a(owner, defaultdict):
            return default_item(recorder, owner, key)
    raise KeyError(key)


def default_item(recorder: Recorder, owner: Any, key: Any) -> Any:
    """What a defaultdict makes for a key it does not have."""
    factory = field(recorder, owner, defaultdict.default_factory)  # type: ignore[misc]
    if factory is None:
        raise KeyError(key)
    value = call(recorder, factory, (), {})
    recorder.put(owner, key, value)
    return value


def _class_item(recorder: Recorder, owner: type, key: Any) -> Any:
    method = class_lookup(recorder, owner, "__class_getitem__")
    inner = getattr(method, "__func__", method)
    if is_python(recorder, inner):
        return call(recorder, types.MethodType(inner, owner), (key,), {})
    return owner[key]  # type: ignore[index]


def set_item(recorder: Recorder, owner: Any, key: Any, value: Any) -> None:
    """`owner[key] = value`."""
    if recorder.engine.owns(owner):
        recorder.engine.call(operator.setitem, (owner, _asked(recorder, key), value), {})
        return
    method = method_of(recorder, owner, "__setitem__")
    if is_python(recorder, method):
        call(recorder, method, (owner, key, value), {})
    elif is_a(owner, dict):
        key = hashable(recorder, key, owner)
        recorder.put(owner, key, value)
    elif is_a(owner, (list, deque, bytearray)):
        set_element(recorder, owner, key, value)
    elif method is MISSING:
        owner[key] = value  # raises
    elif recorder.is_fresh(owner):
        recorder.writes_to(owner)
        owner[expose(recorder, key)] = expose(recorder, value)
    else:
        given = (owner, expose(recorder, key), expose(recorder, value))
        recorder.engine.change(recorder, owner, operator.setitem, given)


def set_element(recorder: Recorder, owner: Any, key: Any, value: Any) -> None:
    """Put an element, or several, into a list, deque or bytearray."""
    key = index(recorder, key)
    kind = next(c for c in (list, deque, bytearray) if is_a(owner, c))
    if is_a(key, slice):
        value = recorder.new(list(iteration.native(recorder, value)))
        recorder.contents(owner)
    elif recorder.needs_guards(owner):
        before = recorder.journal.original(owner)
        size = count(owner) if before is MISSING else len(before)
        recorder.guard(Length(owner), size)
    if is_a(owner, bytearray):
        value = expose(recorder, value)
    if is_a(key, int) and not -count(owner) <= key < count(owner):
        kind.__setitem__(owner, key, value)  # raises
    if is_a(key, int):
        recorder.put_element(owner, kind.__setitem__, key, value)
        return
    recorder.change(owner, kind.__setitem__, key, value)


def delete_item(recorder: Recorder, owner: Any, key: Any) -> None:
    """`del owner[key]`."""
    if recorder.engine.owns(owner):
        recorder.engine.call(operator.delitem, (owner, key), {})
        return
    method = method_of(recorder, owner, "__delitem__")
    if is_python(recorder, method):
        call(recorder, method, (owner, key), {})
    elif is_a(owner, dict):
        key = hashable(recorder, key, owner)
        if recorder.item(owner, key) is MISSING:
            raise KeyError(key)
        recorder.drop(owner, key)
    elif is_a(owner, (list, deque, bytearray)):
        key = index(recorder, key)
        recorder.contents(owner)
        kind = next(c for c in (list, deque, bytearray) if is_a(owner, c))
        if is_a(key, int) and not -count(owner) <= key < count(owner):
            kind.__delitem__(owner, key)  # raises
        recorder.change(owner, kind.__delitem__, key)
    elif method is MISSING or recorder.is_fresh(owner):
        del owner[expose(recorder, key)]
    else:
        recorder.engine.change(recorder, owner, operator.delitem, (owner, expose(recorder, key)))


def contains(recorder: Recorder, owner: Any, key: Any) -> bool:
    """`key in owner`."""
    fixed = is_a(owner, IMMUTABLE) and not can_change(type(owner))
    method = MISSING if fixed else method_of(recorder, owner, "__contains__")
    if method is not MISSING and is_python(recorder, method):
        return truth(recorder, call(recorder, method, (owner, key), {}))
    return own_contains(recorder, owner, key)


def own_contains(recorder: Recorder, owner: Any, key: Any) -> bool:
    """Whether a key is in a container as Python's own classes answer it."""
    method = MISSING if is_a(owner, IMMUTABLE) else method_of(recorder, owner, "__contains__")
    if recorder.engine.is_symbol(key) and _is_few_numbers(owner):
        if type(owner) is dict:
            recorder.keys(owner)
        elif type(owner) is set:
            recorder.contents(owner)
        return any(truth(recorder, compare(recorder, "eq", x, key)) for x in list(elements(owner)))
    if is_a(owner, dict):
        key = hashable(recorder, key, owner)
        if Item(owner, key).token() in recorder.guards or id(owner) in recorder.journal.copies:
            return recorder.item(owner, key) is not MISSING
        return recorder.member(owner, key)
    if is_a(owner, (set, frozenset)):
        key = hashable(recorder, key, owner)
        return recorder.member(owner, key)
    if is_a(owner, (str, bytes, range)):
        return recorder.concrete(key) in owner
    if is_a(owner, _VIEWS):
        return _view_contains(recorder, owner, key)
    if recorder.engine.owns(owner):
        return bool(recorder.engine.call(operator.contains, (owner, key), {}))
    if method is not MISSING and not is_a(owner, SEQUENCES) and not recorder.is_fresh(owner):
        key = expose(recorder, key)
        return bool(recorder.guard(Answer(operator.contains, (owner, key)), key in owner))
    if is_a(owner, (list, deque)):
        recorder.contents(owner)
    own = is_a(owner, (list, deque, tuple))
    for value in list(elements(owner)) if own else iteration.native(recorder, owner):
        if value is key or truth(recorder, compare(recorder, "eq", value, key)):
            return True
    return False


def _is_few_numbers(owner: Any) -> bool:
    """Whether a number of each call is compared with what is in a container, one by one.

    Its hash would be that of one call alone.
    """
    kinds = (set, frozenset, dict, range)
    return type(owner) in kinds and len(owner) <= 16 and all(type(x) is int for x in owner)


def _view_contains(recorder: Recorder, view: Any, key: Any) -> bool:
    table = recorder.shown(view)
    if table is not None and is_a(view, _VIEWS[0]):
        return contains(recorder, table, key)
    if table is not None:
        recorder.contents(table)
    if is_a(view, _VIEWS[0]):
        return hashable(recorder, key, view) in view
    return any(
        value is key or truth(recorder, compare(recorder, "eq", value, key)) for value in view
    )
