"""PyTorch's paths of quantised layers."""

from __future__ import annotations

from adjoint.engine.core.state.loading import on_first_use as _on_first_use

ON_FIRST_USE = ("intrinsic", "qat", "quantized")
__getattr__ = _on_first_use(__name__, ON_FIRST_USE)
