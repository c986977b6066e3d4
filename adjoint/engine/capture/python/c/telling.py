"""Logging and warnings: what is told is told again at each call, by Python itself."""

from __future__ import annotations

import _io
import io
import logging
import warnings
from typing import Any

from adjoint.engine.capture.python.recorder import Recorder

from . import methods
from .functions import PYTHON, TABLE, Handler


def _telling(fn: Any) -> Handler:
    """A function that only tells: an effect, with whatever it is given in that call."""

    def handler(recorder: Recorder, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("exc_info") or fn.__name__ == "exception":
            raise recorder.refuse(
                f"logging with the exception of {fn.__name__}()",
                "a call does it after the function has ended, when there is none",
                "Log the message alone.",
            )
        recorder.effect(tell, fn, args, recorder.new(dict(kwargs)))

    return handler


def tell(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What a call tells."""
    fn(*args, **kwargs)


def _warn(
    recorder: Recorder, message: Any, category: Any = None, stacklevel: int = 1, source: Any = None,
    **options: Any,
) -> None:  # fmt: skip
    """A warning, at the line that gave it."""
    kind = type(message) if isinstance(message, Warning) else category or UserWarning
    frame = recorder.frames[-min(stacklevel, len(recorder.frames))]
    variables = frame.globals
    registry = variables.setdefault("__warningregistry__", {})
    place = frame.code.co_filename, frame.line_number(), variables.get("__name__"), registry
    if recorder.is_fresh(warnings.filters):  # `catch_warnings`, in the function itself
        if recorder.is_fresh(getattr(warnings._showwarnmsg_impl, "__self__", None)):  # type: ignore[attr-defined]
            raise recorder.refuse(
                "catch_warnings(record=True)", "a call warns after the function has ended",
                "Look at warnings outside of it.",
            )  # fmt: skip
        if _action(str(message), kind, place[1], place[2] or "<unknown>") == "error":
            raise message if isinstance(message, Warning) else kind(message)
    recorder.effect(warnings.warn_explicit, message, kind, *place)


def _action(text: str, kind: type[Warning], line: int, module: str) -> str:
    """What the filters of now do with a warning, as `warnings` looks it up."""
    for action, message, category, where, number in warnings.filters:
        if (
            (message is None or message.match(text))
            and issubclass(kind, category)
            and (where is None or where.match(module))
            and number in (0, line)
        ):
            return action
    return "default"


def _write(recorder: Recorder, stream: Any, text: Any, /) -> int:
    """`write` of a stream of text, an effect as `print` is; how much was written is known."""
    if type(text) is not str:
        text = recorder.concrete(text)
    if type(text) is not str or recorder.is_fresh(stream):
        raise recorder.refuse(
            f"{type(stream).__name__}.write", "what is written is not known before a call's end",
            "Use print(..., file=...).",
        )  # fmt: skip
    recorder.effect(type(stream).write, stream, text)
    return len(text)


def _flush(recorder: Recorder, stream: Any, /) -> None:
    recorder.effect(type(stream).flush, stream)


for _stream in (io.StringIO, io.TextIOWrapper):
    methods.TABLE[_stream] = {"write": _write, "flush": _flush}
methods.TABLE[_io._IOBase] = {"flush": _flush}
LEVELS = ("debug", "info", "warning", "warn", "error", "critical", "fatal", "exception", "log")
for _name in LEVELS:
    for _owner in (logging.Logger, logging):
        _fn = getattr(_owner, _name, None)
        if _fn is not None:
            PYTHON[_fn] = _telling(_fn)
TABLE[warnings.warn] = _warn
