"""What a worker process knows of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adjoint.data.shared import SharedSegments


@dataclass(slots=True)
class WorkerInfo:
    """Which worker this is: its number, how many there are, its seed and its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class WorkerState:
    """Set in a worker process alone; empty in the main one."""

    __slots__ = ("arena", "info")

    def __init__(self) -> None:
        self.info: WorkerInfo | None = None
        self.arena: SharedSegments | None = None  # shared memory that batches are collated into


WORKER = WorkerState()


def get_worker_info() -> WorkerInfo | None:
    """The worker this code runs in, or None in the main process.

    Example:
        >>> get_worker_info() is None
        True
    """
    return WORKER.info
