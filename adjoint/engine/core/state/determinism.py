"""`use_deterministic_algorithms`: every kernel is deterministic, so it is only remembered."""

from __future__ import annotations

_mode = 0


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that repeat; Adjoint's always do.

    >>> use_deterministic_algorithms(True)
    >>> are_deterministic_algorithms_enabled()
    True
    >>> use_deterministic_algorithms(False)
    """
    global _mode
    _mode = 0 if not mode else 1 if warn_only else 2


def are_deterministic_algorithms_enabled() -> bool:
    """Whether they were asked for."""
    return _mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether only a warning was asked for."""
    return _mode == 1


def get_deterministic_debug_mode() -> int:
    """0, 1 (warn) or 2 (error)."""
    return _mode


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set the same by number or name ("default", "warn", "error")."""
    global _mode
    names = {"default": 0, "warn": 1, "error": 2}
    value = names.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if value not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value for debug_mode, expected 0, 1, 2 or one of {list(names)}, "
            f"but got {debug_mode!r}"
        )
    _mode = value
