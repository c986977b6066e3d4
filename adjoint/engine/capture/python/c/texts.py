"""`repr` and `str` of objects: by what their classes say, or by C where it calls no Python code."""

from __future__ import annotations

from typing import Any

from adjoint.engine.capture.python.calling import call, is_python
from adjoint.engine.capture.python.exposing import NeedsPython, expose
from adjoint.engine.capture.python.language import operators
from adjoint.engine.capture.python.plain import PLAIN, is_a, is_plain
from adjoint.engine.capture.python.recorder import Recorder


def text(recorder: Recorder, value: Any, method: str, fn: Any) -> Any:
    """`repr`, `str` or `format` of a value, by what its class says."""
    if type(value) in PLAIN:
        return fn(value)
    if recorder.engine.is_symbol(value):
        return recorder.engine.written(fn, value)
    if type(value) is not tuple and is_a(value, tuple) and _has_sizes(recorder, value):
        parts = [recorder.concrete(x) for x in tuple.__iter__(value)]
        value = operators.with_parts(value, parts)
    writer = operators.method_of(recorder, value, method)
    if is_python(recorder, writer):
        written = call(recorder, writer, (value,), {})
        if not is_a(written, str) and not recorder.engine.is_symbol(written):
            kind = type(written).__name__
            raise TypeError(f"{method} returned non-string (type {kind})")
        return written
    if method == "__str__" and writer is object.__str__:
        return text(recorder, value, "__repr__", repr)
    if recorder.engine.owns(value):
        return recorder.engine.call(fn, (value,), {})
    if is_a(value, (list, tuple, dict, set, frozenset)):
        return fn(_spelled(recorder, value))
    if writer is object.__repr__ and (recorder.is_fresh(value) or not is_a(value, type)):
        raise recorder.refuse(
            f"the text of a {type(value).__name__}", "it names an address in memory",
            "Give the class a __repr__.",
        )  # fmt: skip
    if is_a(value, BaseException):
        args = tuple(_spelled(recorder, x) for x in value.args)
        if all(x is y for x, y in zip(args, value.args, strict=True)):
            return fn(value)
    try:
        return fn(expose(recorder, value))
    except NeedsPython:
        raise recorder.refuse(
            f"the text of a {type(value).__name__}", "C would call Python code unobserved",
            "Put it together from its parts.",
        ) from None  # fmt: skip


def _has_sizes(recorder: Recorder, value: tuple[Any, ...]) -> bool:
    """Whether a tuple of the framework's, which it writes itself, has numbers of each call."""
    symbols = map(recorder.engine.is_symbol, tuple.__iter__(value))
    return recorder.engine.keeps(type(value)) and any(symbols)


class WrittenText:
    """Stands for an object whose text is known."""

    __slots__ = ("said",)

    def __init__(self, said: str) -> None:
        self.said = said

    def __repr__(self) -> str:
        return self.said


def _spelled(recorder: Recorder, value: Any) -> Any:
    """A container with the text of what C must not ask for itself."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, set, dict):
        recorder.contents(value)
    if kind in (list, tuple):
        return kind(_spelled(recorder, x) for x in value)
    if kind is dict:
        return {_key(recorder, key): _spelled(recorder, item) for key, item in value.items()}
    if kind in (set, frozenset):
        if all(map(is_plain, value)):
            return value
        raise recorder.refuse("the text of a set", "its order may differ", "Sort it first.")
    return _written(recorder, value)


def _written(recorder: Recorder, value: Any) -> WrittenText:
    written = text(recorder, value, "__repr__", repr)  # one that a call's end shows is refused
    return WrittenText(recorder.concrete(written))


def _key(recorder: Recorder, key: Any) -> Any:
    return key if is_plain(key) else _written(recorder, key)
