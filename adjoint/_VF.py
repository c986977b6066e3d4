"""`torch._VF`: functions of the top level, as PyTorch's own layers call them."""

from __future__ import annotations

from typing import Any

from adjoint.engine import assembly


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return assembly.find(name)
