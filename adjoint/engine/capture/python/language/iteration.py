"""Iteration: what is iterated is guarded, Python's own `__iter__` and `__next__` are followed."""

from __future__ import annotations

import itertools
import operator
from collections import deque
from collections.abc import Iterator
from typing import Any

from adjoint.engine.capture.python.c import upcoming
from adjoint.engine.capture.python.calling import call, is_python
from adjoint.engine.capture.python.exposing import _VIEWS, expose, from_outside, is_iterator
from adjoint.engine.capture.python.language import attributes
from adjoint.engine.capture.python.locations import Answer
from adjoint.engine.capture.python.plain import MISSING, can_change, elements, is_a, is_plain
from adjoint.engine.capture.python.recorder import Recorder

_KNOWN = (list, tuple, set, frozenset, deque, str, bytes, range, bytearray)


def _guarded(recorder: Recorder, given: Any) -> bool:
    """Whether a value is a container of Python's that is iterated by C; its contents guarded."""
    cls = type(given)
    if is_a(given, (*_KNOWN, dict)):
        if can_change(cls) and is_python(
            recorder, attributes.class_lookup(recorder, cls, "__iter__")
        ):
            return False
        if is_a(given, dict):
            recorder.keys(given)
        elif not is_a(given, (tuple, frozenset, str, bytes, range)):
            recorder.contents(given)
        return True
    if is_a(given, _VIEWS):
        table = recorder.shown(given)
        if table is not None:
            recorder.keys(table) if is_a(given, _VIEWS[0]) else recorder.contents(table)
        return True
    return False


def iterator(recorder: Recorder, given: Any) -> Any:
    """`iter(given)`."""
    if type(given) in attributes.PROXIES:
        given = attributes.referent(recorder, given)
    if recorder.engine.owns(given):
        method = attributes.class_lookup(recorder, type(given), "__iter__")
        if not is_python(recorder, method):
            return recorder.new(recorder.engine.call(iter, (given,), {}))
    if is_iterator(given):
        return given
    if _guarded(recorder, given):
        return recorder.new(iter(given))
    cls = attributes.kind_of(recorder, given)
    method = attributes.class_lookup(recorder, cls, "__iter__")
    if method is None:
        raise TypeError(f"'{cls.__name__}' object is not iterable")
    if method is MISSING:
        if attributes.class_lookup(recorder, cls, "__getitem__") is MISSING:
            return iter(given)  # raises
        return recorder.new(_by_index(recorder, given))
    if is_python(recorder, method):
        result = call(recorder, method, (given,), {})
        if attributes.class_lookup(recorder, type(result), "__next__") is MISSING:
            raise TypeError(f"iter() returned non-iterator of type '{type(result).__name__}'")
        return result
    return recorder.new(iter(listed(recorder, given)))


def listed(recorder: Recorder, given: Any) -> tuple[Any, ...]:
    """The elements of a C object that can only be iterated; guarded by looking again."""
    values = tuple(given)
    if recorder.engine.elements(given) is not None:
        expose(recorder, given)
        return values
    if not recorder.is_fresh(given) and not is_plain(given):
        again = tuple(given)
        alike = all(
            a is b or (is_plain(a) and type(a) is type(b))
            for a, b in zip(values, again, strict=False)
        )
        if is_a(given, Iterator) or len(again) != len(values) or not alike:
            raise from_outside(recorder, given)
        recorder.guard(Answer(tuple, (given,)), values)
    return values


def _by_index(recorder: Recorder, given: Any) -> Iterator[Any]:
    """The old protocol: indices until IndexError."""
    index = 0
    while True:
        try:
            value = call(recorder, operator.getitem, (given, index), {})
        except (IndexError, StopIteration):
            return
        yield value
        index += 1


def step(recorder: Recorder, asked: Any) -> Any:
    """`next(asked)`; raises StopIteration at the end."""
    if is_iterator(asked):
        if not recorder.is_fresh(asked):
            if type(asked) in (map, filter):
                return _through(recorder, asked)
            value = upcoming.take(recorder, asked)
            if value is MISSING:
                raise StopIteration
            return value
        recorder.writes_to(asked)
        value = next(asked)
        if type(asked) is itertools.groupby:
            recorder.new(value[1])
        return value
    method = attributes.class_lookup(recorder, attributes.kind_of(recorder, asked), "__next__")
    if method is MISSING:
        return next(asked)  # raises
    if is_python(recorder, method):
        return call(recorder, method, (asked,), {})
    if recorder.is_fresh(asked):
        return next(asked)
    raise from_outside(recorder, asked)


def _through(recorder: Recorder, asked: Any) -> Any:
    """The next value of a map or filter from outside: its function is followed.

    What it goes through is advanced, and that is all that such an iterator knows of its place.
    """
    _, (fn, *sources) = asked.__reduce__()[:2]
    while True:
        taken = [step(recorder, source) for source in sources]
        if type(asked) is map:
            return call(recorder, fn, tuple(taken), {})
        answer = taken[0] if fn is None or fn is bool else call(recorder, fn, (taken[0],), {})
        if call(recorder, bool, (answer,), {}):
            return taken[0]


def advance(recorder: Recorder, asked: Any) -> Any:
    """The next value of an iterator, MISSING at its end."""
    try:
        return step(recorder, asked)
    except StopIteration:
        return MISSING


def native(recorder: Recorder, given: Any) -> Any:
    """Something that C can iterate while the recorder sees what is read."""
    if type(given) is tuple or _guarded(recorder, given):
        return given
    steps = iterator(recorder, given)
    return steps if is_iterator(steps) and recorder.is_fresh(steps) else _steps(recorder, steps)


def _steps(recorder: Recorder, asked: Any) -> Iterator[Any]:
    while True:
        value = advance(recorder, asked)
        if value is MISSING:
            return
        yield value


def _is_taken_by_c(recorder: Recorder, cls: type) -> bool:
    """Whether C copies a dict of this class by itself, or asks its methods for keys and items."""
    if attributes.class_lookup(recorder, cls, "__iter__") is dict.__iter__:
        return True
    return not any(
        is_python(recorder, attributes.class_lookup(recorder, cls, name))
        for name in ("__iter__", "keys", "__getitem__")
    )


def mapping(recorder: Recorder, given: Any) -> dict[Any, Any]:
    """The items of a mapping, guarded."""
    if is_a(given, dict) and _is_taken_by_c(recorder, type(given)):
        recorder.contents(given)
        if type(given) is dict:
            return given
        return {key: dict.__getitem__(given, key) for key in elements(given)}
    keys = call(recorder, attributes.get(recorder, given, "keys"), (), {})
    taken = operator.getitem
    return {key: call(recorder, taken, (given, key), {}) for key in native(recorder, keys)}
