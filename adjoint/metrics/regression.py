"""Metrics of predicted numbers, and of predicted distributions over tokens."""

from __future__ import annotations

from math import exp, inf, sqrt
from typing import Any

from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.reduce.softmax import log_softmax
from adjoint.engine.tensor.tensor import Tensor
from adjoint.metrics.metric import Metric

LARGEST = 709.0  # whose exponential is a number


class Mean(Metric):
    """The mean of values given with their weights (as losses with batch sizes).

    Example:
        >>> import adjoint as ad
        >>> Mean().update(ad.tensor([1.0, 3.0]), ad.tensor([1, 3])).compute()
        2.5
    """

    name = "mean"

    def reset(self) -> None:
        self.total, self.count = 0.0, 0.0

    def add(self, prediction: Tensor, target: Tensor) -> None:
        self.total += (prediction.double() * target).sum().item()
        self.count += float(target.sum().item())

    def compute(self) -> float:
        if not self.count:
            raise self.nothing_seen()
        return self.total / self.count


class _Errors(Metric):
    """Sums over the differences between prediction and target."""

    def reset(self) -> None:
        self.count = 0
        self.absolute = self.squared = self.mean = self.spread = self.origin = 0.0

    def add(self, prediction: Tensor, target: Tensor) -> None:
        if prediction.shape != target.shape:
            raise ShapeValueError(
                f"{self.name}: predictions {tuple(prediction.shape)} and targets "
                f"{tuple(target.shape)} differ in shape."
            )
        difference: Any = prediction.double() - target.double()
        self.absolute += difference.abs().sum().item()
        self.squared += difference.square().sum().item()
        if target.numel():
            self._spread_further(target.double())

    def _spread_further(self, target: Tensor) -> None:
        """Count targets, with their mean and the squares of their distances from it.

        By differences alone (Chan, Golub and LeVeque), and counted from the first of them: where
        numbers are far from 0, the square of their sum and the sum of their squares agree in all
        digits that a double has.
        """
        before = self.count
        if not before:
            self.origin = target.flatten()[0].item()
        target = target - self.origin
        mean = target.mean().item()
        self.count += target.numel()
        apart, share = mean - self.mean, target.numel() / self.count
        self.spread += (target - mean).square().sum().item() + apart * apart * before * share
        self.mean += apart * share

    def compute(self) -> float:
        if not self.count:
            raise self.nothing_seen()
        return self.value()

    def value(self) -> float:
        raise NotImplementedError


class MeanSquaredError(_Errors):
    """The mean of squared differences.

    Example:
        >>> import adjoint as ad
        >>> MeanSquaredError().update(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 4.0])).compute()
        2.0
    """

    name = "mse"

    def value(self) -> float:
        return self.squared / self.count


class RootMeanSquaredError(_Errors):
    """The square root of the mean of squared differences."""

    name = "rmse"

    def value(self) -> float:
        return sqrt(self.squared / self.count)


class MeanAbsoluteError(_Errors):
    """The mean of absolute differences."""

    name = "mae"

    def value(self) -> float:
        return self.absolute / self.count


class R2(_Errors):
    r"""The share of variance explained: $1 - \sum (y - \hat y)^2 / \sum (y - \bar y)^2$."""

    name = "r2"

    def value(self) -> float:
        if self.spread <= 0:
            raise ValueError("r2: the targets do not vary, so no share of variance is explained")
        return 1 - self.squared / self.spread


class Perplexity(Metric):
    r"""How many tokens the model hesitates between: $\exp$ of the mean negative log likelihood.

    Scores are (N, T, C) or (N, C) logits, targets (N, T) or (N). Targets equal to `ignore_index`
    do not count.

    Example:
        >>> import adjoint as ad
        >>> round(Perplexity().update(ad.zeros(2, 5, 10), ad.zeros(2, 5).long()).compute(), 4)
        10.0
    """

    name = "perplexity"

    def __init__(self, ignore_index: int = -100) -> None:
        self.ignore_index = ignore_index
        super().__init__()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, prediction: Tensor, target: Tensor) -> None:
        if prediction.shape[:-1] != target.shape:
            raise ShapeValueError(
                f"{self.name}: logits {tuple(prediction.shape)} do not fit targets "
                f"{tuple(target.shape)}. Classes go last."
            )
        logits = prediction.reshape(-1, prediction.shape[-1])
        target = target.flatten()
        counted = target != self.ignore_index
        chosen = log_softmax(logits[counted].double(), 1).gather(1, target[counted].unsqueeze(1))
        self.total -= chosen.sum().item()
        self.count += int(counted.sum().item())

    def compute(self) -> float:
        if not self.count:
            raise self.nothing_seen()
        mean = self.total / self.count
        return exp(mean) if mean < LARGEST else inf
