"""The driver's own functions, asked without CuPy between.

CuPy does not offer all of them, and its launches convert each argument anew.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_ushort, c_void_p
from functools import cache
from struct import Struct, calcsize
from threading import Lock
from typing import Any

from adjoint.engine.core.errors import DeviceError

NO_CONTEXT = 201  # what the driver says in a thread that has not used the device
WIDTHS = {  # by bytes of an element
    1: ("cuMemsetD8Async", c_ubyte),
    2: ("cuMemsetD16Async", c_ushort),
    4: ("cuMemsetD32Async", c_uint),
}


@cache
def driver() -> Any:
    """The driver's library."""
    for name in ("libcuda.so.1", "libcuda.so", "nvcuda.dll"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise DeviceError("cuda: the driver's library, libcuda, was not found")


@cache
def launch_function(cooperative: bool = False) -> Any:
    """The driver's `cuLaunchKernel`, or what launches a kernel whose blocks all run at once."""
    kinds = [c_void_p, *[c_uint] * 7, c_void_p, c_void_p]
    if cooperative:
        return ctypes.CFUNCTYPE(c_int, *kinds)(("cuLaunchCooperativeKernel", driver()))
    return ctypes.CFUNCTYPE(c_int, *kinds, c_void_p)(("cuLaunchKernel", driver()))


@cache
def filling(width: int) -> Any:
    """What sets elements of so many bytes to one word: given address, word, how many, stream."""
    name, kind = WIDTHS[width]
    return ctypes.CFUNCTYPE(c_int, c_void_p, kind, c_size_t, c_void_p)((name, driver()))


class PackedLaunch:
    """Launches of a kernel on the current stream, its arguments written into one piece of memory.

    `layout` tells them as `struct` does: P an address, q and i whole numbers, ? a truth. The driver
    has copied them when it returns, and one thread at a time writes them.
    """

    __slots__ = (
        "cooperative", "cuda", "handle", "kernel", "lock", "pack", "params", "places", "run",
        "threads", "words",
    )  # fmt: skip

    def __init__(
        self, cuda: Any, kernel: Any, threads: int, layout: str, *, cooperative: bool = False
    ) -> None:
        self.cuda, self.kernel, self.threads = cuda, kernel, threads  # CuPy's
        self.handle, self.cooperative = int(kernel.ptr), cooperative
        self.run = launch_function(cooperative)
        self.lock = Lock()
        packed = Struct(layout)
        self.pack = packed.pack_into
        self.words = ctypes.create_string_buffer(packed.size)
        start = ctypes.addressof(self.words)
        self.places = (c_void_p * len(layout))(*[start + at for at in offsets_of(layout)])
        self.params = ctypes.addressof(self.places)

    def __call__(self, blocks: int, *values: Any, shared: int = 0) -> None:
        stream = self.cuda.get_current_stream().ptr
        code = self.launched(blocks, values, stream, shared)
        if code == NO_CONTEXT:
            self.cuda.runtime.setDevice(self.cuda.runtime.getDevice())
            code = self.launched(blocks, values, stream, shared)
        if code:
            raise self.cuda.driver.CUDADriverError(code)

    def launched(self, blocks: int, values: tuple[Any, ...], stream: int, shared: int) -> int:
        """What the driver says to a launch; `shared` are bytes of a block that it sizes."""
        given = (self.handle, blocks, 1, 1, self.threads, 1, 1, shared, stream, self.params)
        with self.lock:
            self.pack(self.words, 0, *values)
            return int(self.run(*given) if self.cooperative else self.run(*given, None))


def kernels_of(
    xp: Any, text: str, *kernels: tuple[str, int, str], options: tuple[str, ...] = ()
) -> tuple[PackedLaunch, ...]:
    """Kernels of one text for the current GPU: of each its name, threads and arguments' layout."""
    module = xp.RawModule(code=text, options=options)
    return tuple(
        PackedLaunch(xp.cuda, module.get_function(name).kernel, threads, layout)
        for name, threads, layout in kernels
    )


def offsets_of(layout: str) -> list[int]:
    """Where each part of a layout begins, as in a struct of C's.

    >>> offsets_of("PiqiiP?")
    [0, 8, 16, 24, 28, 32, 40]
    """
    return [calcsize(f"{layout[:k]}0{one}") for k, one in enumerate(layout)]


def word_of(value: bytes) -> tuple[int, int] | None:
    """An element as words that memory can be filled with: bytes of one, and the word.

    None where no one word fills it.

    >>> (
    ...     word_of(b"\\x00\\x00\\x80?"),
    ...     word_of(bytes(8)),
    ...     word_of(b"\\x00\\x00\\x00\\x00\\x00\\x00\\xd0?"),
    ... )
    ((4, 1065353216), (4, 0), None)
    """
    if len(value) == 8:
        if value[:4] != value[4:]:
            return None
        value = value[:4]
    return (len(value), int.from_bytes(value, "little")) if len(value) in WIDTHS else None
