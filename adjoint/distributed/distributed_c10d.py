"""PyTorch's path for what `adjoint.distributed` has."""

from __future__ import annotations

from typing import Any

import adjoint.distributed as _distributed
from adjoint.engine.core.state.processes import default_group as _get_default_group

__all__ = ["_get_default_group"]


def __getattr__(name: str) -> Any:
    try:
        return getattr(_distributed, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name) from None
