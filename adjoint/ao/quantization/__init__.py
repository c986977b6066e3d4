"""PyTorch's path of `adjoint.quantization`."""

from __future__ import annotations

from typing import Any

from adjoint import quantization as _quantization

__all__ = [name for name in vars(_quantization) if not name.startswith("_")]


def __getattr__(name: str) -> Any:
    return getattr(_quantization, name)


def __dir__() -> list[str]:
    return dir(_quantization)
