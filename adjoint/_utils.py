"""Helpers of PyTorch's that libraries reach for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor


def _element_size(dtype: DType) -> int:
    """Bytes per element."""
    return dtype.itemsize


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device."""
    if isinstance(device, int):
        return device
    if device is None and optional:
        return 0
    found = device if isinstance(device, Device) else Device(device)
    if found.type == "cpu" and not allow_cpu:
        raise ValueError(f"Expected a non cpu device, but got: {device}")
    index = found.index
    return -1 if found.type == "cpu" else int(index or 0)


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements in one row."""
    return cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Parts of a row, in the tensors' shapes."""
    made, place = [], 0
    for tensor in tensors:
        made.append(flat[place : place + tensor.numel()].view(tensor.shape))
        place += tensor.numel()
    return tuple(made)
