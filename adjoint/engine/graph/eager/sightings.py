"""Which kinds of operands were met how often: those met once are not worth a fragment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.core.operations.large import STREAMED, WAITS
from adjoint.engine.core.operations.record import Record

WORTH = 4  # times: planning a fragment takes as long as a hundred calls of NumPy
KEPT = 1 << 12  # kinds


class Sightings:
    """Kinds that wait. Only what has the same bits either way may, or sums would change."""

    def __init__(self) -> None:
        self.counts: dict[Any, int] = {}

    def waits(self, record: Record, kind: Any, tensors: Sequence[Any]) -> bool:
        """Whether an operation on few elements is left to NumPy once more."""
        if (
            not WAITS
            or record.rounding != "exact"
            or any(t._array.size >= STREAMED for t in tensors)
        ):
            return False
        if len(self.counts) >= KEPT:
            self.counts.clear()
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        return count < WORTH
