"""Marks of PyTorch's script compiler, which change nothing here."""

from __future__ import annotations

from typing import Any


def _copy_to_script_wrapper(fn: Any) -> Any:
    """The function itself."""
    return fn
