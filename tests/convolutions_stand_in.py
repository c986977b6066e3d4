"""A stand-in for cuDNN's convolutions, beside that for CuPy (`tests/cupy_stand_in.py`).

Plans are the library's own; what they run is the eager table's convolution on NumPy's arrays, or,
where launches are counted only, nothing.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from math import prod
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.cupy_stand_in import InterpretedGpu, Stream

UIDS = [11, 12, 13]  # of the tensors of a graph
ROOM = 64  # an address that nothing reads


def connect(gpu: InterpretedGpu) -> None:
    """Have convolutions on "cuda" be asked of the stand-in."""
    eager = importlib.import_module("adjoint.engine.backends.array.libraries.eager")
    device_memory = importlib.import_module("adjoint.engine.backends.array.gpu.device_memory")
    device_memory.POOLS[:] = [
        SimpleNamespace(maker=maker_on(gpu), lender=lender, viewer=lambda _, show: show)
    ]
    cupy: Any = importlib.import_module("cupy")
    cupy.__name__ = "cupy"  # by which the eager table knows where there are libraries
    library = library_on(gpu)
    eager.is_used = lambda: True
    eager.cudnn_of = lambda index: library


def maker_on(gpu: InterpretedGpu) -> Any:
    """What makes arrays, as the pools have it."""

    def maker(index: int, shape: Any, dtype: Any, steps: Any = None) -> Any:
        return gpu.maker(shape, dtype, steps)

    return maker


def lender(index: int, size: int) -> Any:
    """What lends memory to a stream's work, as the pools have it."""
    return lambda stream, work, told: work(told, ROOM, stream)


def library_on(gpu: InterpretedGpu) -> Any:
    """The library: what plans a convolution of these records."""
    libraries = "adjoint.engine.backends.array.libraries."
    cudnn = importlib.import_module(libraries + "cudnn")

    class Library(cudnn.Cudnn):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.lock, self.stream = Lock(), -1
            self.current = Stream
            self.module = SimpleNamespace(set_stream=lambda handle, stream: None)
            self.handle = None

        def planned(self, operation: Any, timed: bool) -> Any:
            return cudnn.Planned(self, None, UIDS, self.running(operation.key), room=64)

        def running(self, call: Any) -> Any:
            """What runs a convolution, given addresses."""

            def execute(addresses: Sequence[int], workspace: int) -> None:
                gpu.count()
                if gpu.is_run:
                    convolve(call, addresses)

            return execute

    return Library()


def convolve(call: Any, addresses: Sequence[int]) -> None:
    """A convolution of what lies at two addresses, put to the third."""
    kernels = importlib.import_module("adjoint.engine.backends.array.kernels.image.convolution")
    convolutions = importlib.import_module("adjoint.engine.backends.array.libraries.convolutions")
    dtype = np.dtype(call.dtype)
    arrays = []
    for address, shape in zip(addresses, call.shapes, strict=True):
        steps = convolutions.dense_strides(shape, call.channels_last)
        room = (ctypes.c_char * (prod(shape) * dtype.itemsize)).from_address(address)
        arrays.append(np.ndarray(shape, dtype, room, 0, [s * dtype.itemsize for s in steps]))
    *given, out = arrays
    images = call.image[1]
    out[...] = getattr(kernels, call.kind)(
        np, *given, call.stride, tuple((p, p) for p in call.padding), call.dilation,
        images // call.weights[1],
    )  # fmt: skip
