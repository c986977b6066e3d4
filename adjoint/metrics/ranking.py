"""The receiver operating characteristic of binary scores, and the area under it."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.metrics.metric import IGNORED, Metric


class _Scores(Metric):
    """Keeps every score and label: the curve needs all of them."""

    def __init__(self, ignore_index: int = IGNORED) -> None:
        self.ignore_index = ignore_index
        super().__init__()

    def reset(self) -> None:
        self.scores: list[Any] = []
        self.labels: list[Any] = []

    def add(self, prediction: Tensor, target: Tensor) -> None:
        scores: Any = prediction.detach().double()
        if scores.ndim == target.ndim + 1 and scores.shape[1] == 2:
            # The order of probabilities, of their logarithms and of logits alike.
            scores = scores[:, 1] - scores[:, 0]
        if scores.shape != target.shape:
            raise ShapeValueError(
                f"{self.name}: scores {tuple(prediction.shape)} and labels {tuple(target.shape)} "
                "differ in shape. Give one score of the positive class per label."
            )
        counted = target != self.ignore_index
        scores, labels = scores[counted], target[counted]
        if not ((labels == 0) | (labels == 1)).all().item():
            raise ValueError(
                f"{self.name}: labels are 0 and 1 (or {self.ignore_index}, which does not count), "
                f"got {sorted(set(labels.flatten().tolist()) - {0, 1})[:3]}"
            )
        if scores.isnan().any().item():
            raise ValueError(f"{self.name}: a score is not a number, so nothing can be ranked")
        self.scores.append(scores.flatten())
        self.labels.append(labels.flatten().bool())

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

    Args:
        ignore_index: labels that do not count, as in `CrossEntropyLoss`.

    Of scores of two classes (N, 2) the second less the first is ranked, as logits want.

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

    Args:
        ignore_index: labels that do not count, as in `CrossEntropyLoss`.

    Of scores of two classes (N, 2) the second less the first is ranked, as logits want.

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
