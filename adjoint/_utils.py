"""Helpers of PyTorch's that libraries reach for."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from adjoint.engine.backends.array.gpu.cuda import device_count, is_available
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io import rebuilding

# What PyTorch's pickles call by name.
_rebuild_tensor = rebuilding.rebuild_tensor
_rebuild_tensor_v2 = rebuilding.rebuild_tensor_v2
_rebuild_tensor_v3 = rebuilding.rebuild_tensor_v3
_rebuild_parameter = rebuilding.rebuild_parameter
_rebuild_parameter_with_state = rebuilding.rebuild_parameter_with_state
_rebuild_sparse_tensor = rebuilding.rebuild_sparse_tensor
_rebuild_qtensor = rebuilding.rebuild_qtensor
_rebuild_nested_tensor = rebuilding.REBUILDERS["torch._utils._rebuild_nested_tensor"]
_rebuild_wrapper_subclass = rebuilding.rebuild_wrapper_subclass
_rebuild_meta_tensor_no_storage = rebuilding.rebuild_meta_tensor_no_storage
_rebuild_device_tensor_from_cpu_tensor = rebuilding.rebuild_device_tensor_from_cpu_tensor
_rebuild_device_tensor_from_numpy = rebuilding.rebuild_device_tensor_from_numpy
_set_obj_state = rebuilding.set_attributes


def _element_size(dtype: DType) -> int:
    """Bytes per element."""
    return dtype.itemsize


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device."""
    if isinstance(device, int):
        return device
    if device is None and optional:
        return 0
    device_of = device if isinstance(device, Device) else Device(device)
    if device_of.type == "cpu" and not allow_cpu:
        raise ValueError(f"Expected a non cpu device, but got: {device}")
    index = device_of.index
    return -1 if device_of.type == "cpu" else int(index or 0)


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements in one row."""
    return cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Parts of a row, in the tensors' shapes."""
    parts, place = [], 0
    for tensor in tensors:
        parts.append(flat[place : place + tensor.numel()].view(tensor.shape))
        place += tensor.numel()
    return tuple(parts)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Tensors in groups of one kind, of at most so many bytes unless one alone has more."""
    groups: dict[str, tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        parts = (tensor._indices(), tensor._values()) if tensor.is_sparse else (tensor,)
        size = sum(part.nbytes for part in parts)
        group, held = groups.get(tensor.type(), ([], 0))
        if group and held + size > size_limit:
            yield group
            group, held = [], 0
        groups[tensor.type()] = ([*group, tensor], held + size)
    for group, _ in groups.values():
        yield group


class KeyErrorMessage(str):
    """A KeyError's message that is shown as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception as it travels between processes: its class, its traceback as text, its place."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = info[0]
        self.exc_msg = "".join(traceback.format_exception(*info))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise it here, with where it arose and its traceback in the message."""
        kind: Any = self.exc_type
        message = f"Caught {kind.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if kind is KeyError:
            message = KeyErrorMessage(message)
        try:
            error = kind(message)
        except Exception:  # a class that wants other arguments
            raise RuntimeError(message) from None
        raise error


def _get_available_device_type() -> str | None:
    """The kind of accelerator there is, or None."""
    return "cuda" if is_available() else None


def _get_all_device_indices() -> list[int] | None:
    """The numbers of the GPUs there are; None where there is none."""
    return list(range(device_count())) if is_available() else None


def _get_devices_properties(device_ids: Sequence[int]) -> list[Any] | None:
    """What is known of GPUs; None where there is none."""
    if not is_available():
        return None
    return [_get_device_module("cuda").get_device_properties(index) for index in device_ids]


def _get_device_module(device_type: str) -> Any:
    """The module of a kind of device."""
    module = sys.modules.get(f"adjoint.{device_type}") or getattr(
        sys.modules["adjoint"], device_type, None
    )
    if module is None:
        raise DeviceError(f"Device {device_type!r} does not have a corresponding module")
    return module


def set_vital(section: str, name: str, value: str) -> bool:
    """Nothing: PyTorch notes such facts for its owner's statistics."""
    return False
