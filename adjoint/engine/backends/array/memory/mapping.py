"""Memory shared between processes: an anonymous file, mapped without holding its descriptor.

Python's `mmap` keeps a copy of the descriptor as long as the mapping lives (it can be told not to
from 3.13 on), so that a program which holds a thousand batches would run out of descriptors. The
system's own call does not.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any


def anonymous_file(name: str, size: int) -> int:
    """A descriptor of a new file of this size that has no name, so nothing is left behind."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
    else:  # macOS and others: a temporary file, unlinked at once
        fd, path = tempfile.mkstemp(prefix=f"{name}-")
        os.unlink(path)
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        raise
    return fd


_FAILED = ctypes.c_void_p(-1).value


@cache
def _calls() -> tuple[Any, Any]:
    """The system's calls that map and unmap."""
    system = ctypes.CDLL(None, use_errno=True)
    number, size, address = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
    system.mmap.restype = address
    system.mmap.argtypes = [address, size, number, number, number, ctypes.c_int64]
    system.munmap.argtypes = [address, size]
    return system.mmap, system.munmap


class Mapping:
    """A file in memory, for reading and writing, until this object goes.

    NumPy takes it for an array of bytes: `np.asarray(mapping)` keeps it.

    >>> import numpy as np
    >>> fd = anonymous_file("example", 8)
    >>> one, other = Mapping(fd, 8), Mapping(fd, 8)
    >>> os.close(fd)
    >>> np.asarray(one)[3] = 7
    >>> np.asarray(other).tolist()
    [0, 0, 0, 7, 0, 0, 0, 0]
    """

    __slots__ = ("__array_interface__", "__weakref__", "_unmap", "address", "size")
    __array_interface__: dict[str, Any]

    def __init__(self, fd: int, size: int) -> None:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        call, self._unmap = _calls()
        address = call(None, size, access, mmap.MAP_SHARED, fd, 0)
        if address == _FAILED:
            number = ctypes.get_errno()
            raise OSError(
                number, f"cannot map {size} bytes of shared memory: {os.strerror(number)}"
            )
        self.address, self.size = int(address), size
        self.__array_interface__ = {
            "version": 3, "shape": (size,), "typestr": "|u1", "data": (self.address, False),
        }  # fmt: skip

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit the system unmaps, and others may still read.
        if hasattr(self, "address") and not ending():
            self._unmap(self.address, self.size)
