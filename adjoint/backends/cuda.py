"""`backends.cuda`: switches of products and attention on NVIDIA GPUs (`core.state.switches`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from adjoint.engine.backends.array.gpu import cuda as _cuda
from adjoint.engine.core.errors import warn_user
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


# -- what attention would be computed by ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SDPAParams:
    """The arguments of a call of attention, as one asks which implementation could take it."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any
    dropout: float
    is_causal: bool
    enable_gqa: bool


def _never(kind: str, debug: bool) -> bool:
    if debug:
        warn_user(f"{kind} attention is not used: Adjoint has one implementation, MATH")
    return False


def is_flash_attention_available() -> bool:
    """Whether PyTorch's flash attention is there: no."""
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether a call would be computed by flash attention: no; with `debug` it says why."""
    return _never("flash", debug)


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether a call would be computed by memory-efficient attention: no."""
    return _never("memory-efficient", debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether a call would be computed by cuDNN's attention: no program may rely on it."""
    return _never("cuDNN's", debug)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Whether attention of halves may be summed in halves, which it never is."""
    return bool(get("backends.cuda.allow_fp16_bf16_reduction_math_sdp"))


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Allow attention of halves to be summed in halves; it is summed in float32 all the same."""
    put("backends.cuda.allow_fp16_bf16_reduction_math_sdp", bool(enabled))


# -- libraries ------------------------------------------------------------------------------------


class LinalgBackend(IntEnum):
    """Libraries of linear algebra on a GPU, as PyTorch numbers them."""

    Default = 0
    Cusolver = 1
    Magma = 2


class BlasBackend(IntEnum):
    """Libraries of products on a GPU, as PyTorch numbers them."""

    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


def _preferred(name: str, kinds: type[IntEnum], backend: Any, there: tuple[str, ...]) -> Any:
    """The default, which is all that can be chosen: what is used is Adjoint's own affair."""
    if backend is None:
        return kinds(0)
    wanted = backend.name if isinstance(backend, kinds) else str(backend)
    if wanted.lower() not in [kind.name.lower() for kind in kinds]:
        raise RuntimeError(f"{name}: unknown input value {backend!r}, use one of {list(there)}")
    if wanted.lower() not in there:
        raise RuntimeError(f"{name}: cannot set the preferred backend to {wanted}: it is not there")
    return kinds(0)


def preferred_linalg_library(backend: str | LinalgBackend | None = None) -> LinalgBackend:
    """The library of linear algebra: the default; cuSOLVER may be asked for, and is what it is."""
    there = ("default", "cusolver")
    chosen: LinalgBackend = _preferred("preferred_linalg_library", LinalgBackend, backend, there)
    return chosen


def preferred_blas_library(backend: str | BlasBackend | None = None) -> BlasBackend:
    """The library of products: the default; cuBLAS may be asked for, and is part of it."""
    there = ("default", "cublas", "cublaslt")
    chosen: BlasBackend = _preferred("preferred_blas_library", BlasBackend, backend, there)
    return chosen
