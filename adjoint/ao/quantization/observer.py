"""PyTorch's path of `adjoint.quantization.observer`."""

from __future__ import annotations

from typing import Any

from adjoint.quantization import observer as _module


def __getattr__(name: str) -> Any:
    return getattr(_module, name)
