"""Which functions a default device is for, and functions that run with one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import adjoint
from adjoint.engine.core.device import Device

_CONSTRUCTORS = (
    "arange as_tensor asarray bartlett_window blackman_window empty empty_permuted "
    "empty_strided eye fft.fftfreq fft.rfftfreq full hamming_window hann_window "
    "kaiser_window linspace logspace nested.nested_tensor ones rand randint randn randperm range "
    "scalar_tensor sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
    "sparse_csc_tensor sparse_csr_tensor tensor tril_indices triu_indices zeros"
).split()


@functools.lru_cache(1)
def _device_constructors() -> set[Callable[..., Any]]:
    """The functions that make tensors on the default device."""
    package: Any = adjoint
    return {functools.reduce(getattr, name.split("."), package) for name in _CONSTRUCTORS}


def device_decorator(device: Device, func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes its tensors on a device."""

    @functools.wraps(func)
    def placed(*args: Any, **kwargs: Any) -> Any:
        with device:
            return func(*args, **kwargs)

    return placed


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have a function make its tensors on a device: `@set_device("meta")`."""
    return lambda func: device_decorator(Device(device), func)
