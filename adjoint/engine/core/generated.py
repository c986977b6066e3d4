"""Functions whose source is written while the program runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

SHORT = 1 << 12  # characters: programs that differ in sizes have the same short texts
compile_once = lru_cache(maxsize=256)(compile)


def function_of_text(text: str, name: str, file: str, scope: dict[str, Any]) -> Callable[..., Any]:
    """The function called `name` that a text defines; `scope` is what it finds by name.

    The scope does not keep it: each would hold the other. `file` is what tracebacks say.

    >>> function_of_text("def twice(x): return times * x", "twice", "<doubling>", {"times": 2})(4)
    8
    """
    exec((compile_once if len(text) < SHORT else compile)(text, file, "exec"), scope)
    function: Callable[..., Any] = scope.pop(name)
    return function
