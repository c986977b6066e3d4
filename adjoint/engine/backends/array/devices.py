"""Array libraries by device: NumPy for cpu, CuPy for cuda, imported when first asked for."""

from __future__ import annotations

import contextlib
from typing import Any

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np

from adjoint.engine.core import switches
from adjoint.engine.core.device import CPU, CURRENT_INDEX, Device
from adjoint.engine.tensor.tensor import DEVICE_OF

Array = Any
_cupy: Any = None


def cupy() -> Any:
    """The CuPy module, or an error that says what is missing and how to get it."""
    global _cupy
    if _cupy is not None:
        return _cupy
    try:
        import cupy as module
    except ImportError as error:
        raise RuntimeError(
            "cuda: a CUDA device was asked for, but CuPy is not installed. Install it with "
            "`pip install adjoint[cuda]`, or use device='cpu'."
        ) from error
    try:
        count = module.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise RuntimeError(
            "cuda: a CUDA device was asked for, but no NVIDIA driver was found "
            f"({error}). Install the driver, or use device='cpu'."
        ) from error
    if count == 0:
        raise RuntimeError("cuda: a CUDA device was asked for, but the driver reports no GPU.")
    DEVICE_OF[module.ndarray] = lambda array: Device("cuda", array.device.id)
    CURRENT_INDEX["cuda"] = lambda: int(module.cuda.runtime.getDevice())
    _cupy = module
    return module


def allow_tf32(precision: str) -> bool:
    """Have CuPy's float32 products use TF32 or not; False where there is no CUDA device."""
    try:
        products = cupy()._core._routines_linalg
    except RuntimeError:
        return False
    kind = "DEFAULT" if precision == "highest" else "TF32"
    products.set_compute_type(np.float32, getattr(products, f"COMPUTE_TYPE_{kind}"))
    return True


switches.APPLY["set_float32_matmul_precision"] = allow_tf32


def library(device: Device) -> Any:
    """The array library that serves a device."""
    return np if device.type == "cpu" else cupy()


def active(device: Device) -> Any:
    """A context in which new arrays land on `device`."""
    if device.type == "cpu":
        return contextlib.nullcontext()
    return cupy().cuda.Device(device.index)


def full_device(device: Any) -> Device:
    """A device with its index: plain "cuda" means the current one."""
    device = CPU if device is None else Device(device)
    if device.type == "cuda" and device.index is None:
        return Device("cuda", int(cupy().cuda.runtime.getDevice()))
    return device


def transfer(array: Array, device: Device) -> Array:
    """The array's elements on another device."""
    here = isinstance(array, np.ndarray)
    if device.type == "cpu":
        return array if here else _cupy.asnumpy(array)
    with active(device):
        # CuPy keeps an array that is already on the current device; a new buffer is promised.
        return cupy().array(array, copy=True)
