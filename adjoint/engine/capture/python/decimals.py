"""Decimal numbers: their arithmetic follows the thread's context, and raises flags there."""

from __future__ import annotations

import decimal
from typing import Any

from .locations import Answer
from .recorder import Recorder


class _Flags:
    """The flags that the arithmetic of a recording raises, for calls to raise them again."""

    __slots__ = ("before", "raised")

    def __init__(self) -> None:
        context = decimal.getcontext()
        self.before = _raised(context)
        self.raised: list[Any] = []
        context.clear_flags()

    def put_back(self) -> None:
        """Have the flags as before the recording."""
        context = decimal.getcontext()
        self.raised = _raised(context)
        context.clear_flags()
        _raise(context, self.before)

    def raise_again(self) -> None:
        """Raise what the recording raised."""
        _raise(decimal.getcontext(), self.raised)


def _raised(context: decimal.Context) -> list[Any]:
    return [signal for signal, is_raised in context.flags.items() if is_raised]


def _raise(context: decimal.Context, signals: list[Any]) -> None:
    for signal in signals:
        context.flags[signal] = True


def _rules() -> tuple[Any, ...]:
    """What results depend on besides the numbers."""
    now = decimal.getcontext()
    trapped = tuple(signal.__name__ for signal, is_on in now.traps.items() if is_on)
    return now.prec, now.rounding, now.Emin, now.Emax, now.capitals, now.clamp, trapped


def depend_on_context(recorder: Recorder) -> None:
    """Have a recording depend on the context in which it does arithmetic."""
    if _Flags in recorder.shared:
        return
    flags = recorder.shared[_Flags] = _Flags()
    recorder.journal.field(flags, "raised", flags.put_back)
    recorder.guard(Answer(_rules, ()), _rules())
    recorder.effect(flags.raise_again)
