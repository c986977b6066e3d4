"""Which operations on middling tensors are worth a fragment: those that are met again.

Planning a fragment takes as long as a hundred calls of NumPy, loading the compiler as long as ten
thousand. So what has the same bits either way waits until it was met some times. Sums may not:
their last bits would change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.operations.large import AT_ONCE, WAITS
from adjoint.engine.core.operations.record import HOOKS, Record

WORTH, LOADING = 4, 64  # times, where the compiler is loaded and where it is not
KEPT = 1 << 12  # kinds


class Sightings:
    """Kinds of operands that were met, and how often."""

    def __init__(self) -> None:
        self.counts: dict[Any, int] = {}

    def waits(
        self, record: Record, kind: Any, tensors: Sequence[Any], params: dict[str, Any]
    ) -> bool:
        """Whether an operation is left to NumPy once more."""
        if not WAITS or (record.rounding != "exact" and record.fragment != "plain"):
            return False
        if any(t._array.dtype.kind == "c" for t in tensors):
            return True  # fragments take them apart; NumPy has its own infinities and magnitudes
        if record.family == "linear" and getattr(params.get("dtype"), "is_complex", False):
            return True  # converted: parts are put together one by one, NumPy has a loop for them
        if any(t._array.size >= AT_ONCE for t in tensors):
            return False
        if len(self.counts) >= KEPT:
            self.counts.clear()
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        return count < (WORTH if HOOKS.native_loaded else LOADING)
