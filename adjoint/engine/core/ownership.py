"""What is the framework's own: its functions and classes do not change while a program runs."""

from __future__ import annotations

from typing import Any


def is_own(thing: Any) -> bool:
    """Whether a function or class is the framework's own.

    >>> is_own(is_own), is_own(len)
    (True, False)
    """
    return (thing.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
