"""Mixed precision on CUDA under its former names: `adjoint.cuda.amp`."""

from __future__ import annotations

import functools
from typing import Any

from adjoint.amp import autocast_mode as autocast_mode
from adjoint.amp import grad_scaler as grad_scaler
from adjoint.amp.autocast_mode import autocast as _autocast
from adjoint.amp.functions import custom_bwd as _custom_bwd
from adjoint.amp.functions import custom_fwd as _custom_fwd
from adjoint.amp.grad_scaler import GradScaler as _GradScaler
from adjoint.engine.core.dtype import DType, float16


class autocast(_autocast):
    """`amp.autocast("cuda", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """`amp.GradScaler("cuda", ...)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)


custom_fwd = functools.partial(_custom_fwd, device_type="cuda")
custom_bwd = functools.partial(_custom_bwd, device_type="cuda")
