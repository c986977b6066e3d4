"""`backends.cuda`: switches of products and attention on NVIDIA GPUs (`core.state.switches`)."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.array.gpu import cuda as _cuda
from adjoint.engine.core.state import precision as _precision
from adjoint.engine.core.state.switches import SwitchModule, SwitchOverride, get, put

_IMPLEMENTATIONS = ("flash", "math", "mem_efficient", "cudnn")


class Products(SwitchModule):
    """`backends.cuda.matmul`: `allow_tf32` is `set_float32_matmul_precision` in other words."""

    def __getattr__(self, name: str) -> Any:
        full = _precision.get_float32_matmul_precision() == "highest"
        if name == "allow_tf32":
            return not full
        if name == "fp32_precision":
            return "ieee" if full else "tf32"
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "allow_tf32":
            _precision.set_float32_matmul_precision("high" if value else "highest")
        elif name == "fp32_precision":
            if value not in ("none", "ieee", "tf32"):
                raise RuntimeError(
                    f"backends.cuda.matmul.fp32_precision: expected 'none', 'ieee' or 'tf32', "
                    f"received {value!r}"
                )
            _precision.set_float32_matmul_precision("high" if value == "tf32" else "highest")
        else:
            super().__setattr__(name, value)


matmul = Products(f"{__name__}.matmul")


def is_built() -> bool:
    """Whether CUDA can be used here."""
    return _cuda.is_available()


def flash_sdp_enabled() -> bool:
    """Whether attention may run blockwise; results are the same either way."""
    return bool(get("backends.cuda.enable_flash_sdp"))


def enable_flash_sdp(enabled: bool) -> None:
    """Allow attention to run blockwise, which it does not; forbidding it is no change."""
    put("backends.cuda.enable_flash_sdp", bool(enabled))


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may save memory; results are the same either way."""
    return bool(get("backends.cuda.enable_mem_efficient_sdp"))


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow attention to save memory, which it does not; forbidding it is no change."""
    put("backends.cuda.enable_mem_efficient_sdp", bool(enabled))


def math_sdp_enabled() -> bool:
    """Whether attention may run step by step; results are the same either way."""
    return bool(get("backends.cuda.enable_math_sdp"))


def enable_math_sdp(enabled: bool) -> None:
    """Allow attention to run step by step, as it always does; forbidding it has no effect."""
    put("backends.cuda.enable_math_sdp", bool(enabled))


def cudnn_sdp_enabled() -> bool:
    """Whether attention may use cuDNN; results are the same either way."""
    return bool(get("backends.cuda.enable_cudnn_sdp"))


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow attention to use cuDNN, which it does not; forbidding it is no change."""
    put("backends.cuda.enable_cudnn_sdp", bool(enabled))


def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> SwitchOverride:
    """Set what attention may use inside a `with` block."""
    allowed = (enable_flash, enable_math, enable_mem_efficient, enable_cudnn)
    return SwitchOverride(
        {
            f"backends.cuda.enable_{kind}_sdp": bool(value)
            for kind, value in zip(_IMPLEMENTATIONS, allowed, strict=True)
        }
    )
