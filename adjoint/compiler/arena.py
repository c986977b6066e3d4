"""The memory of programs' own values."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from adjoint.compiler.memory import ALIGN
from adjoint.core import forks


class Arena:
    """Memory for programs of which one runs at a time; the largest decides how much."""

    def __init__(self) -> None:
        self.lock = forks.lock(forks.Order.PROGRAM)
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        self.array = np.empty(0, np.uint8)
        self.origin = 0

    def reserve(self, nbytes: int) -> None:
        """Have at least so many bytes; users are told where they are now."""
        if nbytes + ALIGN <= self.array.nbytes:
            return
        with self.lock:
            self.array = np.empty(nbytes + ALIGN, np.uint8)
            base = self.array.ctypes.data
            self.origin = base + (-base) % ALIGN
            for user in self.users:
                user.move(self.origin)
