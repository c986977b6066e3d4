"""autocast on CUDA, at the path of its former names."""

from __future__ import annotations

import functools

from adjoint.amp.autocast_mode import autocast as _autocast
from adjoint.amp.autocast_mode import custom_bwd as _custom_bwd
from adjoint.amp.autocast_mode import custom_fwd as _custom_fwd
from adjoint.engine.core.dtype import DType, float16

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(_autocast):
    """`amp.autocast("cuda", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


custom_fwd = functools.partial(_custom_fwd, device_type="cuda")
custom_bwd = functools.partial(_custom_bwd, device_type="cuda")
