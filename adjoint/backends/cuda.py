"""`backends.cuda`: switches of products on NVIDIA GPUs."""

from __future__ import annotations

from types import SimpleNamespace

from adjoint.backends.array import cuda as _cuda

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
)


def is_built() -> bool:
    """Whether CUDA can be used here."""
    return _cuda.is_available()
