"""Functions of the standard library that rest on C helpers, done by hand."""

from __future__ import annotations

import collections
import functools
import heapq
import inspect
import io
import json
import pickle
import typing
from collections.abc import Callable
from typing import Any

from adjoint.engine.capture.python.calling import entered
from adjoint.engine.capture.python.exposing import NeedsPython, expose
from adjoint.engine.capture.python.language import iteration, operators
from adjoint.engine.capture.python.locations import Answer
from adjoint.engine.capture.python.plain import MISSING, is_plain
from adjoint.engine.capture.python.recorder import Recorder

from .functions import PYTHON, TABLE, Handler, marks


def _outermost(choose: Callable[..., list[int]]) -> Handler:
    """`heapq.nlargest` and `heapq.nsmallest`, with comparisons and keys followed."""

    def handler(recorder: Recorder, n: Any, iterable: Any, key: Any = None) -> Any:
        values = list(iteration.native(recorder, iterable))
        order = marks(recorder, values, key)
        chosen = choose(recorder.concrete(n), range(len(values)), key=order.__getitem__)
        return recorder.new([values[i] for i in chosen])

    return handler


@functools.total_ordering
class ComparedKey:
    """A key for sorting whose order a function of two values decides."""

    __slots__ = ("compare", "obj")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Callable[[Any, Any], Any], obj: Any) -> None:
        self.compare, self.obj = compare, obj

    def __lt__(self, other: ComparedKey) -> Any:
        return self.compare(self.obj, other.obj) < 0

    def __eq__(self, other: object) -> Any:
        return self.compare(self.obj, other.obj) == 0  # type: ignore[attr-defined]


def _cmp_to_key(recorder: Recorder, mycmp: Any) -> Any:
    return recorder.new(functools.partial(ComparedKey, entered(recorder, mycmp)))


def _plainly(fn: Any) -> Handler:
    """A function of plain values and containers of them."""

    def handler(recorder: Recorder, given: Any, /, **options: Any) -> Any:
        if not all(map(is_plain, options.values())):
            raise _refusal(recorder, fn)
        try:
            data = expose(recorder, given)
        except NeedsPython:
            raise _refusal(recorder, fn) from None
        return operators.new_result(recorder, fn(data, **options))

    return handler


def _refusal(recorder: Recorder, fn: Any) -> Exception:
    return recorder.refuse(
        f"{fn.__module__}.{fn.__name__}", "C would call Python code that is not observed",
        "Pass plain values, lists and dicts, or call it outside.",
    )  # fmt: skip


def _is_data(value: Any) -> bool:
    """Whether a value is made of plain ones and containers of Python's own."""
    if type(value) is dict:
        return all(_is_data(x) for pair in value.items() for x in pair)
    if type(value) in (list, set, tuple, frozenset):
        return all(map(_is_data, value))
    return is_plain(value)


def _dumped(recorder: Recorder, given: Any, /, *args: Any, **options: Any) -> Any:
    """`pickle.dumps` of plain values and containers of them."""
    data = expose(recorder, given)
    if not _is_data(data) or not all(map(is_plain, (*args, *options.values()))):
        raise recorder.refuse(
            "pickle.dumps", "it reads objects past what a recording sees",
            "Pickle plain values, lists and dicts, or call it outside.",
        )  # fmt: skip
    return pickle.dumps(data, *args, **options)


class _PlainUnpickler(pickle.Unpickler):
    """Reads plain values and containers; anything else would run code unobserved."""

    def __init__(self, recorder: Recorder, data: Any) -> None:
        super().__init__(io.BytesIO(data))
        self.recorder = recorder

    def find_class(self, module: str, name: str) -> Any:
        raise self.recorder.refuse(
            "pickle.loads", f"it makes a {module}.{name} by code that is not observed",
            "Unpickle outside and pass the result.",
        )  # fmt: skip


def _loaded(recorder: Recorder, data: Any, /) -> Any:
    """`pickle.loads` of plain values and containers of them."""
    return operators.new_result(recorder, _PlainUnpickler(recorder, expose(recorder, data)).load())


def _getattr_static(recorder: Recorder, obj: Any, name: str, *default: Any) -> Any:
    """What is found without asking anybody: the guard looks again, past all code of the user's."""
    own = recorder.attributes(obj)
    if own is not None and id(own) in recorder.journal.copies:
        raise recorder.refuse(
            "inspect.getattr_static", "the function wrote to the object", "Use getattr."
        )
    place = Answer(inspect.getattr_static, (obj, name, *default))
    value = place.now()
    if not recorder.is_fresh(obj):
        recorder.guard(place, value)
    return inspect.getattr_static(obj, name, *default) if value is MISSING else value


def _named_tuple(recorder: Recorder, name: Any, fields: Any, **options: Any) -> Any:
    """A class that `namedtuple` makes of a text; of the module that asks for it."""
    try:
        given = expose(recorder, name), expose(recorder, fields)
        named = {key: expose(recorder, value) for key, value in options.items()}
    except NeedsPython:
        raise _refusal(recorder, collections.namedtuple) from None
    named["module"] = named.get("module") or recorder.frames[-1].globals.get("__name__")
    return recorder.new(collections.namedtuple(*given, **named))


def _asking_module(recorder: Recorder, depth: int = 1, *default: Any) -> Any:
    """The name of the module whose function called the one that asks (`typing._caller`)."""
    frames = recorder.frames
    return frames[max(-1 - depth, -len(frames))].globals.get(
        "__name__", *(default or ("__main__",))
    )


PYTHON[collections.namedtuple] = _named_tuple
PYTHON[typing._caller] = _asking_module  # type: ignore[attr-defined]
PYTHON[inspect.getattr_static] = _getattr_static
PYTHON[heapq.nlargest] = _outermost(heapq.nlargest)
PYTHON[heapq.nsmallest] = _outermost(heapq.nsmallest)
PYTHON[json.loads] = _plainly(json.loads)
PYTHON[json.dumps] = _plainly(json.dumps)
TABLE[functools.cmp_to_key] = _cmp_to_key
TABLE[pickle.dumps] = _dumped
TABLE[pickle.loads] = _loaded
