"""`backends.cuda`: switches of products on NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from adjoint.engine.backends.array import cuda as _cuda

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
)

_sdp = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}


def is_built() -> bool:
    """Whether CUDA can be used here."""
    return _cuda.is_available()


def flash_sdp_enabled() -> bool:
    """Whether attention may run blockwise; results are the same either way."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow attention to run blockwise; Adjoint chooses by itself."""
    _sdp["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may save memory; results are the same either way."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow attention to save memory; Adjoint chooses by itself."""
    _sdp["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may run step by step; results are the same either way."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow attention to run step by step; Adjoint chooses by itself."""
    _sdp["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention may use cuDNN; results are the same either way."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow attention to use cuDNN; Adjoint chooses by itself."""
    _sdp["cudnn"] = bool(enabled)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Set what attention may use inside a `with` block."""
    before = dict(_sdp)
    _sdp.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _sdp.update(before)
