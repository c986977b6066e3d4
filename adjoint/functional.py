"""`torch.functional`: functions of the top level under their second address."""

from __future__ import annotations

from typing import Any

from adjoint import assembly


def __getattr__(name: str) -> Any:
    return assembly.find_in("", name)
