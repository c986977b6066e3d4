"""Copies between devices; page-locked memory on the host, from which a GPU copies by itself."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np

from adjoint.engine.backends.array.devices import active, cupy, known_device_of, other_device
from adjoint.engine.backends.array.dtypes import FLOAT8, HOST_FLOAT8
from adjoint.engine.backends.array.gpu.faults import wait
from adjoint.engine.backends.array.gpu.waited import MOST, WaitedNumbers
from adjoint.engine.core.device import CURRENT_INDEX, Device
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.state.late_faults import look
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE

Array = Any
ROOM = 8 * MOST  # bytes of numbers that are waited for
SYNC_MODES = ("default", "warn", "error")

# Page-locked arrays by their identity: an array has no hash.
_pinned: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
# Copies that may be under way: what tells of their end, and the host's memory, kept until then.
_under_way: deque[tuple[Any, Array]] = deque()


class Waiting:
    """What happens when the host waits for a GPU: nothing, a warning or an error."""

    mode = "default"


def is_pinned(array: Array) -> bool:
    """Whether a host array lies in memory this backend has page-locked."""
    while array is not None and _pinned:
        if _pinned.get(id(array)) is array:
            return True
        array = getattr(array, "base", None)
    return False


def pin(array: Array) -> Array:
    """A copy of a host array in page-locked memory."""
    library = cupy()
    memory = library.cuda.alloc_pinned_memory(max(array.nbytes, 1))
    whole = np.frombuffer(memory, array.dtype, array.size)
    _pinned[id(whole)] = whole  # what all views of it have as their base
    out = whole.reshape(array.shape)
    out[...] = array
    return out


def transfer(array: Array, device: Device, non_blocking: bool = False) -> Array:
    """The array's elements on another device."""
    other = known_device_of(array)
    if other is not None:
        array = other.to_host(array)
    here = isinstance(array, np.ndarray)
    if STREAM_CAPTURE.graph is not None and here != (device.type == "cpu"):
        with active(device):
            return STREAM_CAPTURE.graph.copied(array, device.type == "cpu")
    if device.type == "cpu":
        return array if here else on_host(array)
    registered = other_device(device.type)
    if registered is not None:
        with active(device):
            return registered.from_host(array if here else on_host(array))
    if here and array.dtype in FLOAT8:
        array = array.view(FLOAT8[array.dtype])
    with active(device):
        if here and array.flags.c_contiguous and is_pinned(array):
            out = cupy().empty(array.shape, array.dtype)
            from_pinned(out, array, wait=not non_blocking)
            return out
        # CuPy keeps an array that is already on the current device; a new buffer is promised.
        return cupy().array(array, copy=True)


def on_host(array: Array) -> Array:
    """A GPU's array on the host, which waits for it."""
    if Waiting.mode != "default":
        message = f"called a synchronizing CUDA operation: {array.nbytes} bytes are read"
        if Waiting.mode == "error":
            raise RuntimeError(message)
        warn_user(message)
    copied = few_on_host(array) if array.nbytes <= ROOM else None
    if copied is None:
        copied = wait(array.get)
    return copied.view(HOST_FLOAT8[copied.dtype]) if copied.dtype in HOST_FLOAT8 else copied


def few_on_host(array: Array) -> Array | None:
    """The few elements of an array of the current GPU, by way of page-locked memory that is kept.

    CuPy makes an array first, and changes devices there and back. None: what lies otherwise.
    """
    data = array.data
    here = data.device_id == CURRENT_INDEX["cuda"]() and STREAM_CAPTURE.graph is None
    if not here or not array.nbytes or not array.flags.c_contiguous:
        return None
    numbers = WaitedNumbers(cupy())
    data.copy_to_host_async(numbers.address, array.nbytes)
    copied = np.ndarray(array.shape, array.dtype, numbers.wait()).copy()
    look()  # what is read there may not have been made
    return copied


def from_pinned(target: Array, source: Array, wait: bool) -> None:
    """Copy page-locked memory to a GPU in the order of the current stream."""
    target.data.copy_from_host_async(source.ctypes.data, source.nbytes)
    _end(source, wait)


def copy_across(target: Array, source: Array, non_blocking: bool) -> bool:
    """Copy between a GPU and the host within existing memory; False where that is not done here.

    Page-locked memory is copied by the GPU itself; without `non_blocking` the host waits for it.
    """
    to_host = isinstance(target, np.ndarray)
    host, there = (target, source) if to_host else (source, target)
    if not isinstance(host, np.ndarray) or not hasattr(there, "__cuda_array_interface__"):
        return False
    whole = target.flags.c_contiguous and source.flags.c_contiguous
    if STREAM_CAPTURE.graph is not None or not whole or not is_pinned(host):
        return False
    with there.device:
        if to_host:
            there.data.copy_to_host_async(host.ctypes.data, host.nbytes)
            _end(host, not non_blocking)
            if not non_blocking:
                look()  # what is read there may not have been made
        else:
            from_pinned(there, host, wait=not non_blocking)
    return True


def _end(host: Array, wait: bool) -> None:
    """Wait for a copy, or keep its memory until it is done."""
    module = cupy().cuda
    stream = module.get_current_stream()
    if wait:
        stream.synchronize()
        return
    while _under_way and _under_way[0][0].done:
        _under_way.popleft()
    event = module.Event(disable_timing=True)
    event.record(stream)
    _under_way.append((event, host))
