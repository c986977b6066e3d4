"""Tensors that stand for others while a program is made free of writes: there are none."""

from __future__ import annotations

import contextlib
from typing import Any


class FunctionalTensor:
    """Such a tensor; has no instances: writes in captures are functional already."""


def mb_unwrap_functional_tensor(tensor: Any) -> Any:
    """What a tensor stands for: itself."""
    return tensor


def disable_functional_mode() -> Any:
    """A `with` block that changes nothing."""
    return contextlib.nullcontext()
