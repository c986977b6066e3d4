"""Storage: the cell that tensors are windows on.

Note [windows]
    A Storage is a cell with a current value; a Tensor shows part of it through a chain of view
    operations. Concretely the value is a NumPy or CuPy buffer, mutated in place, and a tensor
    keeps the strided array its chain leads to. Inside a transform the value is the level's payload
    and inside a capture an SSA value: both are immutable, a write replaces them, and a window is
    read by applying its chain to the current one.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from ctypes import py_object, pythonapi
from typing import Any

from adjoint.engine.core.spec import Spec


class Storage:
    """A buffer (or a level's payload) with the version that counts writes to it."""

    __slots__ = (
        "__weakref__",
        "birth",
        "buffer",
        "claimed",
        "level",
        "payload",
        "sharing",
        "trace",
        "version",
    )

    claimed: bool  # set when a leaf has taken it as its gradient (autodiff.engine)
    sharing: Any  # set when others may write to its memory (Note [watched memory])

    def __init__(
        self, buffer: Any, level: Any = None, payload: Any = None, trace: Any = None
    ) -> None:
        self.buffer = buffer  # the root array; None where the value is symbolic
        self.version = 0
        self.level = level  # the transform the value belongs to
        self.payload = payload
        self.trace = trace  # the capture the value belongs to
        self.birth = 0  # depth of the innermost level when it was made

    @property
    def identity(self) -> int:
        """What two storages on the same memory share: `.data` makes a second one on a buffer."""
        buffer = self.buffer
        return id(self if buffer is None else buffer)


def track(storage: Storage) -> None:
    """Have the collector see a storage that is to hold more than an array, as it sees others.

    Those that native code makes are hidden from it (Note [storages without the collector]).
    """
    if not gc.is_tracked(storage):
        pythonapi.PyObject_GC_Track(py_object(storage))


class Foreign:
    """Whether a tensor was ever made on memory of somebody else's, who may give it twice."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = False


FOREIGN = Foreign()


def count_writes(storages: Sequence[Storage], counts: Sequence[int]) -> None:
    """Note that storages were written to so many times."""
    for storage, count in zip(storages, counts, strict=True):
        storage.version += count


class Window:
    """Stands in a tensor for the array it does not have: its spec, strides and offset."""

    __slots__ = ("device", "dtype", "offset", "shape", "spec", "strides")

    def __init__(self, spec: Spec, strides: tuple[int, ...], offset: int) -> None:
        self.spec = spec
        self.shape, self.dtype, self.device = spec
        self.strides = strides  # in elements
        self.offset = offset

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        total = 1
        for n in self.shape:
            total *= n
        return total
