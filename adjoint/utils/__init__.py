"""Utilities around training."""

from __future__ import annotations

import sys
from typing import Any

from adjoint.engine.core.state import config
from adjoint.engine.core.state.loading import brought as _brought
from adjoint.engine.tensor.memory import swap_tensors as swap_tensors
from adjoint.utils import checkpoint as checkpoint

# `data` brings in multiprocessing, `tensorboard` the training package.
ON_FIRST_USE = (
    "_pytree", "benchmark", "data", "deterministic", "dlpack", "hooks", "model_zoo", "tensorboard",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ON_FIRST_USE:
        return _brought(f"adjoint.utils.{name}")
    raise AttributeError(
        f"module '{config.display_name}.utils' has no attribute {name!r}. If PyTorch has it, "
        "Adjoint does not yet",
        name=name,
        obj=sys.modules[__name__],
    )
