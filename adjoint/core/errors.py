"""Exceptions with a name of their own."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).parent.parent)


class LinAlgError(RuntimeError):
    """A linear-algebra operation met a matrix it cannot treat, such as a singular one.

    linalg.inv(zeros(2, 2))       # raises
    linalg.inv_ex(zeros(2, 2))    # does not: the second result says which matrices failed
    """


def users_line() -> str:
    """Where the program called into the package: `train.py:12, "loss = model(x).item()"`.

    For errors about code that is fine as such and only cannot be captured or transformed.
    """
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE):
        if frame.f_back is None:
            return "an unknown line"
        frame = frame.f_back
    path, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(path, line, frame.f_globals).strip()
    return f"{Path(path).name}:{line}" + (f', "{text}"' if text else "")
