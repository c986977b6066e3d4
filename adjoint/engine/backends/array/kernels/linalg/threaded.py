"""Registering kernels of linear algebra, which have the array library's threads for their time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.backends.array import table
from adjoint.engine.backends.array.table import Kernel
from adjoint.engine.backends.threads import library_threads
from adjoint.engine.core.operations.record import Record


def lowers(record: Record) -> Callable[[Kernel], Kernel]:
    """Register the array kernel of a record, as `table.lowers` does."""

    def register(kernel: Kernel) -> Kernel:
        @functools.wraps(kernel)
        def threaded(*args: Any, **params: Any) -> Any:
            with library_threads():
                return kernel(*args, **params)

        table.lowers(record)(threaded)
        return kernel

    return register
