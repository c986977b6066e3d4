"""Asking about CUDA, in ways programs do before they know whether there is a GPU."""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.array.cuda import get_device_capability, is_available


def init() -> None:
    """Set CUDA up; it is, on first use."""


def is_initialized() -> bool:
    """Whether CUDA is set up."""
    return is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU computes in bfloat16."""
    return is_available() and get_device_capability()[0] >= 8


def ipc_collect() -> None:
    """Free memory that other processes were given; none is."""


def _no_peak(what: str) -> int:
    if not is_available():
        return 0
    raise NotImplementedError(
        f"cuda.{what}: the most memory held at once is not counted on a GPU. memory_allocated() "
        "and memory_reserved() say what is held now; the latter only grows until empty_cache()."
    )


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes tensors held: 0 without a GPU, not counted with one."""
    return _no_peak("max_memory_allocated")


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes the pool held: 0 without a GPU, not counted with one."""
    return _no_peak("max_memory_reserved")


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin to count the most memory held anew: nothing to do without a GPU, refused with one."""
    _no_peak("reset_peak_memory_stats")
