"""Telling compiled modules from others."""

from __future__ import annotations

from typing import Any


class _Compiled(type):
    """Makes isinstance true for what `compile` returned for a module."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return "_orig_mod" in getattr(instance, "__dict__", {}) or (
            "_orig_mod" in getattr(instance, "_modules", {})
        )


class OptimizedModule(metaclass=_Compiled):
    """A module that `compile` wrapped; not made by calling this."""
