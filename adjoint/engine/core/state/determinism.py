"""`use_deterministic_algorithms`: results that repeat to the last bit.

On the CPU they always do: work is cut by shape, never by timing. On CUDA devices sums at repeated
indices (`index_put_` with accumulate, `scatter_add`, gradients of gathers, weighted `bincount`) are
made by atomic additions in no particular order; asked for repeatable results, they are made in
order instead, on the host. The memory of empty tensors is filled, with NaN or the largest number,
unless `utils.deterministic.fill_uninitialized_memory` is False.
"""

from __future__ import annotations

from adjoint.engine.core.state import switches

_NAME = "use_deterministic_algorithms"
_MODES = {"default": 0, "warn": 1, "error": 2}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that repeat.

    Every operation has a way to do so, hence none is refused and `warn_only` is only remembered.

    >>> use_deterministic_algorithms(True)
    >>> are_deterministic_algorithms_enabled()
    True
    >>> use_deterministic_algorithms(False)
    """
    switches.put(_NAME, 0 if not mode else 1 if warn_only else 2)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether they were asked for."""
    return get_deterministic_debug_mode() > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether only a warning was asked for."""
    return get_deterministic_debug_mode() == 1


def get_deterministic_debug_mode() -> int:
    """0, 1 (warn) or 2 (error)."""
    return int(switches.get(_NAME))


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set the same by number or name ("default", "warn", "error")."""
    value = _MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if value not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value for debug_mode, expected 0, 1, 2 or one of {list(_MODES)}, "
            f"but got {debug_mode!r}"
        )
    switches.put(_NAME, value)


def fills_uninitialized() -> bool:
    """Whether the memory of empty tensors is filled, so that what reads it by mistake repeats.

    >>> fills_uninitialized()
    False
    """
    return bool(switches.get(_NAME)) and bool(
        switches.get("utils.deterministic.fill_uninitialized_memory")
    )
