"""PyTorch's path for what `adjoint.distributed` has."""

from __future__ import annotations

from typing import Any

import adjoint.distributed as _distributed
from adjoint.engine.core.state.loading import lacking as _lacking
from adjoint.engine.core.state.processes import default_group as _get_default_group

__all__ = ["_get_default_group", "_get_default_store", "_get_global_rank"]

_get_global_rank = _distributed.get_global_rank  # its older name


def _get_default_store() -> Any:
    """The store of all processes; a process alone has one of its own."""
    world = _get_default_group()
    if world.store is None:
        world.store = _distributed.HashStore()
    return world.store


def __getattr__(name: str) -> Any:
    try:
        return getattr(_distributed, name)
    except AttributeError:
        raise _lacking(__name__, name) from None
