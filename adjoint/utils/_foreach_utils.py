"""Groups of tensors that one call can serve."""

from __future__ import annotations

from adjoint.optim.written_elsewhere import (
    _group_tensors_by_device_and_dtype as _group_tensors_by_device_and_dtype,
)


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Where a list of tensors is updated at once."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Where an optimizer is one kernel."""
    return ["cuda", "cpu"]
