"""A kind of device that PyTorch knows and Adjoint has none of: programs may ask."""

from __future__ import annotations


def is_available() -> bool:
    """Never."""
    return False


def device_count() -> int:
    """None."""
    return 0
