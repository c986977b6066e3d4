"""What others are given of a tensor: arrays of NumPy's, capsules of DLPack's, addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from adjoint.engine.backends.array.buffers import Buffers, to_host
from adjoint.engine.backends.array.devices import full_device
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.public import method, prop
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.late_faults import look
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.tensor.reading.item import known, unknown
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import DTYPE_OF, Tensor
from adjoint.engine.tensor.watching import show

Array = Any


@method
def __dlpack__(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """The tensor's memory as a DLPack capsule."""
    _check_exportable(self, "__dlpack__")
    _see_faults(self)
    show(self._storage)
    return self._array.__dlpack__(*args, **kwargs)


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """Where DLPack finds the memory."""
    return self._array.__dlpack_device__()


@prop
def __cuda_array_interface__(self: Tensor) -> Any:
    """The CUDA array interface, for tensors on a GPU."""
    if self.device.type != "cuda":
        raise AttributeError(
            f"can't get __cuda_array_interface__ on a tensor on {self.device}; use .cuda() first"
        )
    _see_faults(self)
    return self._array.__cuda_array_interface__


def _see_faults(self: Tensor) -> None:
    """Raise what a GPU has found, before memory it may have left unwritten is another library's."""
    if self._array.__class__ in DEVICE_LAYOUTS and STREAM_CAPTURE.graph is None:
        look()


def _check_exportable(self: Tensor, name: str) -> None:
    level = self._storage.level is not None
    if level or CONTEXT.capture is not None or type(self._array) is Window:
        raise unknown(
            self,
            name,
            "Keep the computation in tensor operations, return the tensor and convert it outside, "
            "or pass the value in as an argument.",
        )
    # As in PyTorch, who switched gradients off may look at the elements.
    if self.requires_grad and (CONTEXT.grad_enabled or name != "numpy"):
        raise RuntimeError(
            f"{name}: can't be called on a tensor that requires grad. Use tensor.detach() first."
        )


@method
def numpy(self: Tensor, *, force: bool = False) -> Array:
    """The elements as a NumPy array sharing memory.

    >>> import adjoint as ad
    >>> ad.ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    if CONTEXT.capture is not None:
        constant = known(self)
        if constant is not None:
            return to_host(constant).copy()
    if force and type(self._array) is not Window:
        show(self._storage)
        return to_host(self.detach()._array)
    _check_exportable(self, "numpy")
    if not isinstance(self._array, np.ndarray):
        raise TypeError(
            f"numpy: can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
            "copy the tensor to host memory first."
        )
    show(self._storage)
    return self._array.view()  # a new shape or flags of it are not the tensor's


@method
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    """NumPy's protocol: the elements as an array."""
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


@method
def __array_wrap__(self: Tensor, array: Array, context: Any = None, return_scalar: Any = 0) -> Any:
    """NumPy's protocol: what a NumPy function made of the elements, as a tensor again."""
    array = np.asarray(array)
    return from_numpy(array) if array.dtype in DTYPE_OF else array


@method
def data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    known = HOOKS.data_address(self)
    if known is not None:
        return known
    array = self._array
    show(self._storage)
    if array.__class__ is ndarray and CONTEXT.plain:
        address = HOOKS.address
        if address is not None and array.size:
            return address(array)
        return Buffers.address(array) if array.size else 0
    if self.is_meta:
        return 0
    _check_exportable(self.detach(), "data_ptr")
    return Buffers.address(array) if array.size else 0


@method
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor on the CPU."""
    return self if self._array.__class__ is np.ndarray else self.to(CPU)


@method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """The tensor on a GPU."""
    target = Device("cuda", device) if isinstance(device, int) else Device(device or "cuda")
    return self.to(full_device(target), non_blocking=non_blocking)
