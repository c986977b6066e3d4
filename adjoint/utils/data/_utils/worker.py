"""What a worker process knows of itself, under PyTorch's address.

A loader of a library's own writes `_worker_info` here in its workers; `get_worker_info` reads it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from adjoint.data.worker_info import WORKER
from adjoint.data.worker_info import WorkerInfo as WorkerInfo
from adjoint.data.worker_info import get_worker_info as get_worker_info


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """A worker's word that its part of a stream is at an end."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """A loader's word that workers shall begin again."""

    seed: int | None = None


class ManagerWatchdog:
    """Tells whether the process that started this one still lives."""

    def __init__(self) -> None:
        self.manager_pid = os.getppid()
        self.manager_dead = False

    def is_alive(self) -> bool:
        """Whether it does."""
        self.manager_dead = self.manager_dead or os.getppid() != self.manager_pid
        return not self.manager_dead


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four numbers to seed NumPy's generator of a worker with.

    Example:
        >>> _generate_state(0, 0) == _generate_state(0, 1)
        False
    """
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(words).generate_state(4)]


class _Routed(ModuleType):
    """The module's class, for the sake of assignments to `_worker_info`."""

    def __getattr__(self, name: str) -> Any:
        if name == "_worker_info":
            return WORKER.info
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_worker_info":
            WORKER.info = value
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Routed
