"""Asking about CUDA, in ways programs do before they know whether there is a GPU."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from adjoint.engine.backends.array.devices import cupy
from adjoint.engine.backends.array.gpu.cuda import (
    device_count,
    get_device_capability,
    index_of,
    is_available,
)
from adjoint.engine.backends.array.gpu.transfers import SYNC_MODES, Waiting


class CudaError(RuntimeError):
    """A call of CUDA's that failed.

    Args:
        code: its number.
    """

    def __init__(self, code: int) -> None:
        try:
            text = str(cupy().cuda.runtime.CUDARuntimeError(code))
        except RuntimeError:
            text = "there is no GPU to say what it means"
        super().__init__(f"{text} ({code})")


class DeferredCudaCallError(Exception):
    """A call put off until CUDA is used, which failed; none is put off here."""


class cudaStatus(IntEnum):
    """Numbers that CUDA's calls answer with."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


def check_error(res: int) -> None:
    """Raise `CudaError` unless a number says success."""
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def cudart() -> Any:
    """The CUDA runtime, as CuPy gives it: `cudart().memGetInfo()`, `profilerStart()`."""
    return cupy().cuda.runtime


def init() -> None:
    """Set CUDA up; it is, on first use. Says what is missing where it cannot be."""
    cupy()


def is_initialized() -> bool:
    """Whether CUDA is set up."""
    return is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU computes in bfloat16."""
    return is_available() and get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """Whether the GPU's tensor cores take float32, in 10 bits."""
    return is_available() and get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """The architectures code is made for: those of the GPUs there are, as it is made here."""
    capabilities = {get_device_capability(i) for i in range(device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(capabilities)]


def get_gencode_flags() -> str:
    """What nvcc would be told to make code for the GPUs there are."""
    archs = [arch.removeprefix("sm_") for arch in get_arch_list()]
    return " ".join(f"-gencode compute=compute_{a},code=sm_{a}" for a in archs)


def ipc_collect() -> None:
    """Free memory that other processes were given; none is."""


def current_blas_handle() -> int:
    """The handle of cuBLAS on the current device."""
    return int(cupy().cuda.device.get_cublas_handle())


def current_solver_handle() -> int:
    """The handle of cuSOLVER on the current device."""
    return int(cupy().cuda.device.get_cusolver_handle())


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Say when the host waits for a GPU to read elements: "default" not, "warn" or "error".

    Args:
        debug_mode: the word, or its place among them.
    """
    known = debug_mode in SYNC_MODES or debug_mode in range(len(SYNC_MODES))
    if isinstance(debug_mode, bool) or not known:
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, received "
            f"{debug_mode!r}"
        )
    Waiting.mode = SYNC_MODES[debug_mode] if isinstance(debug_mode, int) else debug_mode


def get_sync_debug_mode() -> int:
    """What `set_sync_debug_mode` was told: 0, 1 or 2."""
    return SYNC_MODES.index(Waiting.mode)


def _sleep(cycles: int) -> None:
    """Have the current stream do nothing for a while: for tests of streams."""
    kernel = cupy().RawKernel(
        'extern "C" __global__ void wait(long long n) '
        "{ long long t = clock64(); while (clock64() - t < n); }",
        "wait",
    )
    kernel((1,), (1,), (int(cycles),))


def _lazy_init() -> None:
    """Set CUDA up."""
    init()


def _lazy_call(callable: Callable[[], Any], **_: Any) -> None:
    """Call a function that needs CUDA, now where there is a GPU; without one it never would be."""
    if is_available():
        callable()


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device."""
    if device is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index, but got: {device}")
    return index_of(device)
