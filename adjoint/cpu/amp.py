"""Mixed precision on the CPU under its former names: `adjoint.cpu.amp`."""

from __future__ import annotations

from typing import Any

from adjoint.amp.autocast_mode import autocast as _autocast
from adjoint.amp.grad_scaler import GradScaler as _GradScaler
from adjoint.engine.core.dtype import DType, bfloat16


class autocast(_autocast):
    """`amp.autocast("cpu", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: DType = bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """`amp.GradScaler("cpu", ...)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu", *args, **kwargs)
