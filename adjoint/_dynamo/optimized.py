"""Telling compiled modules from others."""

from __future__ import annotations

from typing import Any

from adjoint.engine.compiler.modules import is_compiled_module


class _Compiled(type):
    """Makes isinstance true for what `compile` returned for a module."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return is_compiled_module(instance)


class OptimizedModule(metaclass=_Compiled):
    """A module that `compile` wrapped; not made by calling this."""
