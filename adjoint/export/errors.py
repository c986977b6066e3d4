"""What export refuses."""

from __future__ import annotations


class ExportError(RuntimeError):
    """A function that cannot leave Python; nothing was written."""
