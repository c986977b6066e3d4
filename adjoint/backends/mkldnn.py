"""`backends.mkldnn`: oneDNN is not used, and programs may ask."""

from __future__ import annotations


def is_available() -> bool:
    """Whether operations run through oneDNN; they do not."""
    return False


def is_built() -> bool:
    """The same."""
    return False
