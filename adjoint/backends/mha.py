"""PyTorch's switch for the quick path of attention layers in evaluation.

There is one path here, so both settings compute the same; the setting is kept for who asks.
"""

from __future__ import annotations

_ENABLED = [True]


def get_fastpath_enabled() -> bool:
    """What was set last: True at first.

    >>> get_fastpath_enabled()
    True
    """
    return _ENABLED[0]


def set_fastpath_enabled(value: bool) -> None:
    """Keep the setting."""
    _ENABLED[0] = value
