"""PyTorch's switch for the quick path of attention layers in evaluation: there is one path here."""

from __future__ import annotations

from adjoint.engine.core.state.switches import get, put

_NAME = "backends.mha.set_fastpath_enabled"


def get_fastpath_enabled() -> bool:
    """What was set last: True at first.

    >>> get_fastpath_enabled()
    True
    """
    return bool(get(_NAME))


def set_fastpath_enabled(value: bool) -> None:
    """Allow a quick path, which there is not; forbidding it is no change."""
    put(_NAME, bool(value))
