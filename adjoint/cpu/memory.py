"""Memory of the CPU's tensors: how much they take, the most it was, and a limit.

Counting begins with the first call of one of these, for tensors that are made afterwards.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.backends.llvm.runtime import host_memory as counts
from adjoint.engine.backends.llvm.runtime.host_memory import host_memory


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors and compiled programs hold, of those made since counting began.

    >>> import adjoint as ad
    >>> before = ad.cpu.memory_allocated()
    >>> x = ad.ones(1000)
    >>> ad.cpu.memory_allocated() - before >= 4000
    True
    """
    return host_memory()[counts.CURRENT]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were held at once, since the start or `reset_peak_memory_stats`."""
    return host_memory()[counts.PEAK]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin to look for the most memory held anew."""
    host_memory().reset_peak()


def memory_stats(device: Any = None) -> dict[str, int]:
    """What is known of memory, under the names of `cuda.memory_stats`."""
    counted = host_memory()
    return {
        "allocated_bytes.all.current": counted[counts.CURRENT],
        "allocated_bytes.all.peak": counted[counts.PEAK],
        "allocation.all.allocated": counted[counts.MADE],
        "allocation.all.freed": counted[counts.FREED],
        "allocation.all.current": counted[counts.MADE] - counted[counts.FREED],
        "num_ooms": counted[counts.REFUSED],
    }


def set_memory_limit(limit: int | None) -> None:
    """Allow tensors of the CPU, made since counting began, so many bytes in all; None: any.

    What goes beyond raises `OutOfMemoryError`, which says what was asked and who holds memory. The
    limit is for the thread that sets it, and threads that share its context.

    >>> import adjoint as ad
    >>> ad.cpu.set_memory_limit(1 << 20)
    >>> try:
    ...     x = ad.ones(1 << 20)
    ... except ad.OutOfMemoryError as error:
    ...     print(str(error).partition(".")[0])
    ... finally:
    ...     ad.cpu.set_memory_limit(None)
    full(1): Unable to allocate 4
    """
    if limit is not None and (limit.__class__ is not int or not 0 < limit < 1 << 63):
        raise ValueError(
            f"set_memory_limit: expected a number of bytes or None, received {limit!r}"
        )
    host_memory().limit(limit or 0)


def get_memory_limit() -> int | None:
    """The limit that `set_memory_limit` set, if any."""
    return host_memory()[counts.LIMIT] or None
