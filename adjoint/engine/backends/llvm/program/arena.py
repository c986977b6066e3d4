"""The memory of programs' own values."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint.engine.compiler.memory.buffer_kinds import ALIGN
from adjoint.engine.core.state import forks

# NumPy asks for huge pages where an array has 4 MiB or more, and Linux gives them where all of a
# page lies in it: an arena that begins with one has small pages at its end only. Of the page
# faults of a GPT's first step that saves a fifth. What is skipped before it is never touched.
HUGE_PAGE = 2 << 20
ADVISED = 4 << 20
PAGE = 4 << 10
SPARE = 3  # an arena that grows has up to a quarter of it more than is asked for


class Arena:
    """Memory for programs of which one runs at a time; the largest decides how much."""

    def __init__(self) -> None:
        self.lock = forks.lock(forks.LockOrder.PROGRAM)
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        self.array = np.empty(0, np.uint8)
        self.nbytes = -1  # none, not even of nothing
        self.origin = 0

    def reserve(self, nbytes: int) -> None:
        """Have at least so many bytes; users are told where they are now."""
        if nbytes <= self.nbytes:
            return
        if self.users:  # of many, which would else be told again and again
            nbytes += -nbytes % (1 << max(nbytes.bit_length() - SPARE, 0))
        align = ALIGN if nbytes < ADVISED else HUGE_PAGE
        with self.lock:
            self.array = np.empty(nbytes + align, np.uint8)
            self.nbytes = nbytes
            base = self.array.ctypes.data
            self.origin = base + (-base) % align
            for user in self.users:
                user.move(self.origin)

    @contextlib.contextmanager
    def touched(self) -> Iterator[None]:
        """A block in which the system clears a large new arena's pages, on another processor.

        Else the first run waits for that, and at times for memory to be moved to make huge ones.
        """
        if self.nbytes < ADVISED or self.users:
            yield
            return
        start = self.origin - self.array.ctypes.data
        pages = self.array[start : start + self.nbytes : PAGE]
        helper = threading.Thread(target=pages.fill, args=(0,))
        try:
            helper.start()
        except RuntimeError:  # the system gives no more threads
            yield
            return
        try:
            yield
        finally:
            helper.join()
