"""Questions about sizes that might not be known: here all of them are plain numbers.

`ShapeEnv` and its neighbours are refused when used (`adjoint.unavailable`).
"""

from __future__ import annotations

from typing import Any


class GuardOnDataDependentSymNode(RuntimeError):
    """Raised by PyTorch where a branch depends on a size that only data tells; never here."""


def guard_or_false(a: Any) -> bool:
    """Whether a condition holds."""
    return bool(a)


def guard_or_true(a: Any) -> bool:
    """Whether a condition holds."""
    return bool(a)


def guard_size_oblivious(expr: Any) -> bool:
    """Whether a condition holds."""
    return bool(expr)


def statically_known_true(x: Any) -> bool:
    """Whether a condition holds."""
    return bool(x)


def guard_int(a: Any) -> int:
    """A size as a number."""
    return int(a)


def hint_int(a: Any, fallback: int | None = None) -> int:
    """A size as a number."""
    return int(a)


def is_concrete_int(a: Any) -> bool:
    """Whether a size is a number: it is, if it is a whole one."""
    return isinstance(a, int)


def is_symbolic(val: Any) -> bool:
    """Whether a value is a symbol: never."""
    return False


def has_free_symbols(val: Any) -> bool:
    """Whether a value depends on symbols: never."""
    return False


def free_symbols(val: Any) -> set[Any]:
    """The symbols that a value depends on: none."""
    return set()


def free_unbacked_symbols(x: Any) -> set[Any]:
    """The symbols that only data tells: none."""
    return set()
