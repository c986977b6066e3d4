"""What belongs to the whole process, the locale and the environment; memory that C writes into."""

from __future__ import annotations

import _locale
import os
import struct
from typing import Any

from adjoint.engine.capture.python.calling import call, is_python
from adjoint.engine.capture.python.exposing import expose
from adjoint.engine.capture.python.language import attributes, operators
from adjoint.engine.capture.python.locations import Answer
from adjoint.engine.capture.python.plain import is_a
from adjoint.engine.capture.python.recorder import Recorder

from .functions import TABLE, Handler


def _set_locale(recorder: Recorder, category: int, locale: Any = None) -> str:
    """What the locale is, which becomes a guard; it cannot be set."""
    if locale is not None:
        raise recorder.refuse("setlocale", "it changes the whole process", "Set it outside.")
    answer = _locale.setlocale(category)
    recorder.guard(Answer(_locale.setlocale, (category,)), answer)
    return answer


def _by_locale(fn: Any) -> Handler:
    """Functions that read the locale and what they are given."""

    def handler(recorder: Recorder, *args: Any) -> Any:
        _set_locale(recorder, _locale.LC_ALL)
        return operators.pure(recorder, fn, args, {})

    return handler


def _pack_into(recorder: Recorder, pattern: Any, buffer: Any, /, *args: Any) -> None:
    """`struct.pack_into`, which writes to what it is given."""
    if type(buffer) is not bytearray:
        raise recorder.refuse(
            "struct.pack_into", f"it writes into a {type(buffer).__name__}",
            "Give it a bytearray, or do it outside.",
        )  # fmt: skip
    values = [expose(recorder, x) for x in args]
    recorder.change(buffer, _packed_into, expose(recorder, pattern), *values)


def _packed_into(buffer: bytearray, pattern: Any, *args: Any) -> None:
    struct.pack_into(pattern, buffer, *args)


def _fspath(recorder: Recorder, path: Any) -> Any:
    """The text of a path; what an object says of itself is followed."""
    if not is_a(path, (str, bytes)):
        method = attributes.class_lookup(recorder, type(path), "__fspath__")
        if is_python(recorder, method):
            return call(recorder, method, (path,), {})
    return os.fspath(path)


_PROCESS: dict[Any, Handler] = {
    os.fspath: _fspath,
    struct.pack_into: _pack_into,
    _locale.setlocale: _set_locale,
    **{fn: _by_locale(fn) for fn in (_locale.localeconv, _locale.strcoll, _locale.strxfrm)},
    os.putenv: lambda recorder, *args: recorder.effect(os.putenv, *args),
    os.unsetenv: lambda recorder, *args: recorder.effect(os.unsetenv, *args),
}
TABLE.update(_PROCESS)
