"""Array libraries by device: NumPy for cpu, CuPy for cuda, imported when first asked for.

A device from outside the package is one more row (`register_device`).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np

from adjoint.engine.backends.array.gpu.device_memory import install
from adjoint.engine.core.device import CPU, CURRENT_INDEX, KNOWN_TYPES, Device
from adjoint.engine.core.errors import AbsentDeviceError, DeviceError
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.state import switches
from adjoint.engine.tensor.tensor import DEVICE_OF, ONLY_DEVICE

Array = Any
_cupy: Any = None
_gpus: list[Device] = []  # by index, once CuPy is loaded
PLAIN_CUDA = Device("cuda")
_forked = False  # whether this is the child of a process that used CUDA


@dataclass(frozen=True, slots=True)
class ArrayDevice:
    """A type of device that eager execution reaches through a library like NumPy.

    Kernels of the eager table are written for what NumPy and CuPy share, and are given `library`:
    NumPy's functions, `asnumpy` for what is done on the host, and `special`, if it has SciPy's.
    """

    library: Any  # its functions take and return `arrays`
    arrays: type  # the class of its arrays, which is no other device's
    index_of: Callable[[Array], int]  # which device of the type an array is on
    active: Callable[[int], AbstractContextManager[Any]]  # where new arrays land on one
    current: Callable[[], int]  # the device that a type without an index means
    to_host: Callable[[Array], np.ndarray[Any, Any]]
    from_host: Callable[[np.ndarray[Any, Any]], Array]  # a new array, on the active device


_OTHERS: dict[str, ArrayDevice] = {}


def register_device(kind: str, device: ArrayDevice) -> None:
    """Make a type of device known: `tensor.to(kind)` then works, and what follows from it.

    Programs are interpreted there, until `compiler.register_compiler(kind, ...)` names a compiler.
    """
    if kind in ("cpu", "cuda", "meta"):
        raise ValueError(f"register_device: {kind!r} is a device of Adjoint's own")
    _OTHERS[kind] = device
    KNOWN_TYPES.add(kind)
    DEVICE_OF[device.arrays] = lambda array: Device(kind, device.index_of(array))
    CURRENT_INDEX[kind] = device.current


def is_loaded() -> bool:
    """Whether CuPy was asked for in this process, and there is a GPU."""
    return _cupy is not None


def cupy() -> Any:
    """The CuPy module, or an error that says what is missing and how to get it."""
    global _cupy
    if _cupy is not None:
        return _cupy
    if _forked:
        raise DeviceError(
            "cuda: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
            "multiprocessing, you must use the 'spawn' start method"
        )
    try:
        import cupy as module
    except ImportError as error:
        raise AbsentDeviceError(
            "cuda: a CUDA device was asked for, but CuPy is not installed. Install it with "
            "`pip install adjoint[cuda]`, or use device='cpu'."
        ) from error
    if importlib.util.find_spec("triton") is None:
        raise AbsentDeviceError(
            "cuda: a CUDA device was asked for, but Triton, which writes its kernels, is not "
            "installed. Install it with `pip install adjoint[cuda]`, or use device='cpu'."
        )
    try:
        count = module.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise AbsentDeviceError(
            "cuda: a CUDA device was asked for, but no NVIDIA driver was found "
            f"({error}). Install the driver, or use device='cpu'."
        ) from error
    if count == 0:
        raise AbsentDeviceError(
            "cuda: a CUDA device was asked for, but the driver reports no GPU. Is "
            "CUDA_VISIBLE_DEVICES set to hide it? Else use device='cpu'."
        )
    known = [Device("cuda", index) for index in range(count)]
    _gpus[:] = known
    only = known[0]
    DEVICE_OF[module.ndarray] = (
        (lambda array: only) if count == 1 else lambda array: known[array.data.device_id]
    )
    ONLY_DEVICE.pop(module.ndarray, None)
    if count == 1:
        ONLY_DEVICE[module.ndarray] = only
    DEVICE_LAYOUTS[module.ndarray] = lie
    CURRENT_INDEX["cuda"] = module.cuda.runtime.getDevice
    install(module)
    _cupy = module
    return module


def lie(array: Array) -> tuple[int, bool]:
    """Which GPU an array of CuPy's is on, and whether its address is no multiple of 64."""
    data = array.data
    return data.device_id, data.ptr & 63 != 0


def _in_child() -> None:
    global _cupy, _forked
    _cupy, _forked = None, _forked or _cupy is not None
    _gpus.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def beside_cupy(xp: Any, name: str) -> Any:
    """A module that goes with CuPy; arrays of other devices are refused."""
    if xp is not _cupy:
        kind = next((k for k, d in _OTHERS.items() if d.library is xp), xp)
        raise NotImplementedError(
            f"there is no kernel of this operation for the device {kind!r}. Do it on the CPU, "
            "x.cpu(), and move the result back."
        )
    return importlib.import_module(name)


def allow_tf32(precision: str) -> bool:
    """Have CuPy's float32 products use TF32 or not; without a GPU there are none to change."""
    try:
        products = cupy()._core._routines_linalg
    except RuntimeError:
        return True  # less precise is allowed, not asked for: nobody need be told
    kind = "DEFAULT" if precision == "highest" else "TF32"
    products.set_compute_type(np.float32, getattr(products, f"COMPUTE_TYPE_{kind}"))
    return True


switches.APPLY["set_float32_matmul_precision"] = allow_tf32


def library(device: Device) -> Any:
    """The array library that serves a device."""
    if device.type == "cpu":
        return np
    return _OTHERS[device.type].library if device.type in _OTHERS else cupy_for(device)


def cupy_for(device: Device) -> Any:
    """CuPy, for devices that it serves."""
    if device.type not in KNOWN_TYPES:
        raise DeviceError(
            f"device: there are no {device.type} devices here; tensors are on one of "
            f"{', '.join(sorted(KNOWN_TYPES))}."
        )
    return cupy()


def active(device: Device) -> Any:
    """A context in which new arrays land on `device`."""
    if device.type == "cpu":
        return contextlib.nullcontext()
    if device.type in _OTHERS:
        return _OTHERS[device.type].active(device.index or 0)
    cuda = cupy_for(device).cuda
    if device.index == cuda.runtime.getDevice():  # as it nearly always is
        return contextlib.nullcontext()
    return cuda.Device(device.index)


def full_device(device: Any) -> Device:
    """A device with its index: plain "cuda" means the current one."""
    if device is PLAIN_CUDA and _gpus:  # as it nearly always is
        return _gpus[CURRENT_INDEX["cuda"]()]
    device = CPU if device is None else Device(device)
    if device.type not in KNOWN_TYPES:
        cupy_for(device)
    if device.type == "cuda" and device.index is None:
        return Device("cuda", int(cupy().cuda.runtime.getDevice()))
    if device.type in _OTHERS and device.index is None:
        return Device(device.type, _OTHERS[device.type].current())
    return device


def other_device(kind: str) -> ArrayDevice | None:
    """A type of device from outside the package."""
    return _OTHERS.get(kind)


def known_device_of(array: Array) -> ArrayDevice | None:
    """The device from outside the package that an array is on."""
    return next((d for d in _OTHERS.values() if type(array) is d.arrays), None)
