"""Memory that several processes write to: `share_memory_`.

The bytes are an anonymous file (no name, so nothing is left behind) that each process maps. A
process receives its descriptor through `multiprocessing`, see `adjoint.multiprocessing`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from adjoint.engine.backends.array.memory.mapping import Mapping, anonymous_file
from adjoint.engine.core.device import CPU
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.core.operations.public import method
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor, wrap


class SharedMapping:
    """A mapped anonymous file, kept for as long as an array on it lives."""

    __slots__ = ("__array_interface__", "fd", "mapping", "size")
    __array_interface__: dict[str, Any]

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd  # kept: it is sent to other processes
        self.size = size
        self.mapping = Mapping(fd, max(size, 1))
        self.__array_interface__ = self.mapping.__array_interface__ | {"shape": (size,)}

    @classmethod
    def create(cls, size: int) -> SharedMapping:
        """A block of zeros."""
        return cls(anonymous_file("adjoint-shared", max(size, 1)), size)

    def array(self, shape: tuple[int, ...], dtype: Any, strides: Any = None, start: int = 0) -> Any:
        """The bytes from `start` on as an array."""
        return np.ndarray(shape, dtype, np.asarray(self), start, strides)

    def __del__(self) -> None:
        os.close(self.fd)


def block_of(array: Any) -> SharedMapping | None:
    """The shared block an array lies on, if it does."""
    base = array
    while base is not None and not isinstance(base, SharedMapping):
        base = getattr(base, "base", None)
        if isinstance(base, memoryview):
            base = base.obj
    return base


@method
def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared between processes; a GPU's always may be."""
    if type(self._array) is Window:
        return False
    return self.device is not CPU or block_of(self._array) is not None


@method
def share_memory_(self: Tensor) -> Tensor:
    """Move the elements to memory that processes started later write to together.

    Views and aliases (`.data`, `detach()`) made before keep the memory they were made on.

    Example:
        >>> import adjoint as ad
        >>> ad.ones(2).share_memory_().is_shared()
        True
    """
    if self.is_shared():
        return self
    if type(self._array) is Window:
        raise CaptureError("share_memory_: a traced tensor has no memory to share")
    old = self._array
    shared = SharedMapping.create(old.nbytes).array(
        old.shape, old.dtype, old.strides if _dense(old) else None
    )
    shared[...] = old
    setattr(self, "data", wrap(shared))  # noqa: B010 (a property derived at import)
    return self


def _dense(array: Any) -> bool:
    order = sorted(range(array.ndim), key=lambda d: array.strides[d])
    expected = array.itemsize
    for d in order:
        if array.shape[d] != 1 and array.strides[d] != expected:
            return False
        expected *= array.shape[d]
    return True
