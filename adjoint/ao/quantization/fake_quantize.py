"""PyTorch's path of `adjoint.quantization.fake_quantize`."""

from __future__ import annotations

from typing import Any

from adjoint.quantization import fake_quantize as _module


def __getattr__(name: str) -> Any:
    return getattr(_module, name)
