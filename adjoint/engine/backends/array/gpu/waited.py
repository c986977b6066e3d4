"""Numbers that a kernel tells the host, which waits for them.

They are written into page-locked memory, which a GPU reaches by itself: nothing is copied, and no
array is made for it.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from adjoint.engine.backends.array.gpu import faults

MOST = 4  # numbers


class Told(threading.local):
    """This thread's numbers, each stream's apart: work that was given up may yet write to them."""

    def __init__(self) -> None:
        self.by_stream: dict[tuple[int, int], tuple[int, Any, Any]] = {}


_TOLD = Told()
KEPT = 64  # streams


class WaitedNumbers:
    """Numbers of 64 bits for kernels launched on the current stream: `address` is where they go."""

    __slots__ = ("address", "stream", "words")

    def __init__(self, xp: Any) -> None:
        self.stream = stream = xp.cuda.get_current_stream()
        key = xp.cuda.runtime.getDevice(), stream.ptr
        known = _TOLD.by_stream.get(key)
        if known is None:
            if len(_TOLD.by_stream) >= KEPT:
                _TOLD.by_stream.clear()
            memory = xp.cuda.alloc_pinned_memory(8 * MOST)
            words: Any = (ctypes.c_longlong * MOST).from_address(memory.ptr)
            known = _TOLD.by_stream[key] = int(memory.ptr), words, memory
        self.address, self.words, _ = known

    def wait(self) -> Any:
        """The numbers, once all work of the stream is done."""
        faults.guarded(self.stream.synchronize)
        return self.words
