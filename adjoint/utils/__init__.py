"""Utilities around training."""

from __future__ import annotations

from adjoint.engine.core.state.loading import on_first_use as _on_first_use
from adjoint.engine.tensor.identity import swap_tensors as swap_tensors
from adjoint.utils import checkpoint as checkpoint

# `data` brings in multiprocessing, `tensorboard` the training package.
ON_FIRST_USE = (
    "_pytree", "benchmark", "data", "deterministic", "dlpack", "hooks", "model_zoo", "tensorboard",
)  # fmt: skip
__getattr__ = _on_first_use(__name__, ON_FIRST_USE)
