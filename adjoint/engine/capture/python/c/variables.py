"""Context variables: what is set in a call is set again, and put back by that call's tokens."""

from __future__ import annotations

import contextvars
from typing import Any

from adjoint.engine.capture.python.locations import Answer
from adjoint.engine.capture.python.recorder import Recorder

from .methods import TABLE


class _Settings:
    """The tokens of a call that sets context variables, for what puts them back."""

    __slots__ = ("open", "tokens")

    def __init__(self) -> None:
        self.open: dict[Any, list[Any]] = {}  # tokens of the recording that are not used yet
        self.tokens: dict[int, Any] = {}  # those of a call, by the identity of the recording's

    def put(self, variable: Any, number: int, value: Any) -> None:
        """Set a variable."""
        self.tokens[number] = variable.set(value)

    def reset(self, variable: Any, number: int) -> None:
        """Have a variable as it was."""
        variable.reset(self.tokens.pop(number))

    def undo(self, variable: Any) -> None:
        """Have a variable as it was before the recording."""
        for token in reversed(self.open.pop(variable)):
            variable.reset(token)


def _settings(recorder: Recorder) -> _Settings:
    settings: _Settings = recorder.shared.setdefault(_Settings, _Settings())
    return settings


def _get(recorder: Recorder, variable: Any, /, *default: Any) -> Any:
    value = variable.get(*default)
    if recorder.journal.has_field(variable, "value"):
        return value
    return recorder.guard(Answer(variable.get, default), value)


def _set(recorder: Recorder, variable: Any, value: Any, /) -> Any:
    settings = _settings(recorder)
    token = recorder.new(variable.set(value))
    settings.open.setdefault(variable, []).append(token)
    recorder.journal.field(variable, "value", lambda: settings.undo(variable))
    recorder.effect(settings.put, variable, id(token), value)
    return token


def _reset(recorder: Recorder, variable: Any, token: Any, /) -> None:
    settings = _settings(recorder)
    tokens = settings.open.get(variable, [])
    if not tokens or tokens[-1] is not token:
        raise recorder.refuse(
            "ContextVar.reset", "the token is not that of the function's last set()",
            "Put variables back in the function, last one first.",
        )  # fmt: skip
    variable.reset(tokens.pop())
    recorder.effect(settings.reset, variable, id(token))


TABLE[contextvars.ContextVar] = {"get": _get, "set": _set, "reset": _reset}
