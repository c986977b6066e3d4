"""`memory_report`: which tensors hold memory now."""

from __future__ import annotations

from adjoint.engine.tensor.holders import largest_storages, told


def memory_report(count: int = 10) -> str:
    """The largest tensors there are, and how much all of them take.

    Which line made them, and memory over time, `profiler.profile(profile_memory=True)` tells.

    Example:
        >>> import adjoint as ad
        >>> big = ad.zeros(1000, 1000)
        >>> "float32[1000, 1000]" in ad.debug.memory_report()
        True
    """
    return told(largest_storages(), count)
