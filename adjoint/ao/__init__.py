"""PyTorch's paths of quantisation, and of weights made sparse while training."""

from __future__ import annotations

import sys
from typing import Any

from adjoint.engine.core.state import config
from adjoint.engine.core.state.loading import brought as _brought

ON_FIRST_USE = ("nn", "pruning", "quantization")


def __getattr__(name: str) -> Any:
    if name in ON_FIRST_USE:
        return _brought(f"adjoint.ao.{name}")
    raise AttributeError(
        f"module '{config.display_name}.ao' has no attribute {name!r}. If PyTorch has it, "
        "Adjoint does not yet",
        name=name,
        obj=sys.modules[__name__],
    )
