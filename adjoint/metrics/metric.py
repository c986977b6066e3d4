"""What every metric is: update with batches, compute at the end, reset to begin anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from typing import Any, Self

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor

IGNORED = -100  # targets that `CrossEntropyLoss` leaves out unless told otherwise


class Metric(ABC):
    """A number (or table) over a stream of batches.

    `update(prediction, target)` adds a batch, `compute()` gives the value over all seen since the
    last `reset()`.
    """

    name = "metric"

    def __init__(self) -> None:
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Forget all batches."""

    @abstractmethod
    def add(self, prediction: Tensor, target: Tensor) -> None:
        """Take in one batch, gradients off."""

    @abstractmethod
    def compute(self) -> Any:
        """The value over everything seen."""

    def update(self, prediction: Tensor, target: Tensor) -> Metric:
        """Take in one batch."""
        with no_grad():
            self.add(prediction, target)
        return self

    def __call__(self, prediction: Tensor, target: Tensor) -> Any:
        """The value on one batch alone, which is also taken in."""
        value = self.fresh().update(prediction, target).compute()
        self.update(prediction, target)
        return value

    def fresh(self) -> Self:
        """A metric with the same settings that has seen nothing.

        All that this one holds is copied first: `reset` and `add` may change it in place.
        """
        copy = deepcopy(self)
        copy.reset()
        return copy

    def nothing_seen(self) -> RuntimeError:
        """The error of `compute` before any batch."""
        return RuntimeError(f"{self.name}: compute() before any update(): there is nothing to say")


def ratio(numerator: float, denominator: float) -> float:
    """Their quotient, 0 where nothing is counted (as precision without positives is taken)."""
    return numerator / denominator if denominator else 0.0
