"""Registering kernels of linear algebra, which have the array library's threads for their time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.backends.array import table
from adjoint.engine.backends.array.table import Kernel
from adjoint.engine.backends.threads import keep_to_one_thread, library_threads
from adjoint.engine.core.operations.record import Record

# Elements of an operand from which on a library divides its work: it takes one thread for less, and
# to say how many it may have takes longer than a little matrix does.
FEW = 1 << 10


def lowers(record: Record) -> Callable[[Kernel], Kernel]:
    """Register the array kernel of a record, as `table.lowers` does."""

    def register(kernel: Kernel) -> Kernel:
        @functools.wraps(kernel)
        def threaded(xp: Any, *args: Any, **params: Any) -> Any:
            for x in args:
                if getattr(x, "size", 0) > FEW:
                    with library_threads():
                        return kernel(xp, *args, **params)
            keep_to_one_thread()
            return kernel(xp, *args, **params)

        table.lowers(record)(threaded)
        return kernel

    return register
