"""When parameters are averaged over processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from adjoint.distributed.algorithms.model_averaging import utils
from adjoint.distributed.groups.group import resolve


class ModelAverager(ABC):
    """Counts steps, and averages parameters at some of them."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = resolve(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """A step has been made."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters every `period` steps, after a warm-up.

    Args:
        period: how many steps there are from one average to the next.
        warmup_steps: how many steps pass before the first.
        process_group: the processes; all unless given.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters that have gradients, where it is time."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
