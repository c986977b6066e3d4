"""The scaler on CUDA, at the path of its former name."""

from __future__ import annotations

from typing import Any

from adjoint.amp.grad_scaler import GradScaler as _GradScaler
from adjoint.amp.grad_scaler import OptState as OptState

__all__ = ["GradScaler", "OptState"]


class GradScaler(_GradScaler):
    """`amp.GradScaler("cuda", ...)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)
