"""The receiver operating characteristic of binary scores, and the area under it."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.metrics.metric import Metric


class _Scores(Metric):
    """Keeps every score and label: the curve needs all of them."""

    def reset(self) -> None:
        self.scores: list[Any] = []
        self.labels: list[Any] = []

    def add(self, prediction: Tensor, target: Tensor) -> None:
        if prediction.ndim == target.ndim + 1 and prediction.shape[1] == 2:
            prediction = prediction[:, 1]
        if prediction.shape != target.shape:
            raise ShapeValueError(
                f"{self.name}: scores {tuple(prediction.shape)} and labels {tuple(target.shape)} "
                "differ in shape. Give one score of the positive class per label."
            )
        self.scores.append(prediction.detach().flatten().double())
        self.labels.append(target.flatten().bool())

    def curve(self) -> tuple[Any, Any, Any]:
        """False and true positives at each distinct threshold from the highest, from (0, 0)."""
        if not self.scores:
            raise self.nothing_seen()
        scores, order = cat(self.scores).sort(descending=True)
        positive = cat(self.labels)[order].double()
        last = scores.new_ones(len(scores)).bool()
        last[:-1] = scores[1:] != scores[:-1]  # ties share one threshold
        hits = positive.cumsum(0)[last]
        misses = (1 - positive).cumsum(0)[last]
        if not hits[-1].item() or not misses[-1].item():
            raise ValueError(f"{self.name}: needs labels of both classes, got only one")
        start = scores.new_zeros(1)
        high = scores.new_full((1,), float("inf"))
        return cat([start, misses]), cat([start, hits]), cat([high, scores[last]])


class ROC(_Scores):
    """False positive rates, true positive rates and thresholds of a binary classifier.

    Example:
        >>> import adjoint as ad
        >>> curve = ROC().update(ad.tensor([0.1, 0.4, 0.35, 0.8]), ad.tensor([0, 0, 1, 1]))
        >>> curve.compute()[1].tolist()
        [0.0, 0.5, 0.5, 1.0, 1.0]
    """

    name = "roc"

    def compute(self) -> tuple[Any, Any, Any]:
        misses, hits, thresholds = self.curve()
        return misses / misses[-1], hits / hits[-1], thresholds


class AUC(_Scores):
    """The area under the ROC curve: the chance that a positive outranks a negative, ties half.

    Example:
        >>> import adjoint as ad
        >>> AUC().update(ad.tensor([0.1, 0.4, 0.35, 0.8]), ad.tensor([0, 0, 1, 1])).compute()
        0.75
    """

    name = "auc"

    def compute(self) -> float:
        misses, hits, _ = self.curve()
        area = ((misses[1:] - misses[:-1]) * (hits[1:] + hits[:-1])).sum() / 2
        return float((area / (misses[-1] * hits[-1])).item())
