"""Metrics of classifiers: accuracy, confusion, and what is read off the confusion matrix."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.metrics.metric import IGNORED, Metric, ratio

AVERAGES = ("micro", "macro", "weighted", "none")


def classes_of(name: str, prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Predicted and true classes, flat; scores over classes in dimension 1 become their argmax."""
    if prediction.ndim == target.ndim + 1:
        if prediction.shape[1] == 1:  # the best of one class is always that one
            raise ShapeValueError(
                f"{name}: scores {tuple(prediction.shape)} are of one class. Give the classes "
                "themselves, such as (scores > 0).long() of logits, in the shape of the targets."
            )
        prediction = prediction.argmax(1)
    elif prediction.is_floating_point():
        raise ShapeValueError(
            f"{name}: scores of shape {tuple(prediction.shape)} do not fit targets of shape "
            f"{tuple(target.shape)}. Give scores (N, C, ...) or classes (N, ...)."
        )
    if prediction.shape != target.shape:
        raise ShapeValueError(
            f"{name}: predictions {tuple(prediction.shape)} and targets {tuple(target.shape)} "
            "differ in shape."
        )
    return prediction.flatten().long(), target.flatten().long()


class Accuracy(Metric):
    """The share of right answers, among the k best where `top_k` is more than one.

    Args:
        top_k: how many of the best answers count.
        ignore_index: targets that do not count, as in `CrossEntropyLoss`.

    Example:
        >>> import adjoint as ad
        >>> scores = ad.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
        >>> round(Accuracy().update(scores, ad.tensor([1, 0, 0])).compute(), 4)
        0.6667
    """

    def __init__(self, top_k: int = 1, ignore_index: int = IGNORED) -> None:
        if top_k < 1:
            raise ValueError(f"Accuracy: top_k must be at least 1, got {top_k}")
        self.top_k, self.ignore_index = top_k, ignore_index
        self.name = "accuracy" if top_k == 1 else f"top_{top_k}_accuracy"
        super().__init__()

    def reset(self) -> None:
        self.right, self.seen = 0, 0

    def add(self, prediction: Tensor, target: Tensor) -> None:
        if self.top_k == 1:
            predicted, want = classes_of(self.name, prediction, target)
            right = predicted == want
        else:
            if prediction.ndim != target.ndim + 1 or prediction.shape[1] < self.top_k:
                raise ShapeValueError(
                    f"{self.name}: needs scores (N, C >= {self.top_k}, ...), got "
                    f"{tuple(prediction.shape)} for targets {tuple(target.shape)}"
                )
            best = prediction.topk(self.top_k, 1).indices
            want = target.flatten()
            right = (best == target.unsqueeze(1)).any(1).flatten()
        counted = want != self.ignore_index
        self.right += int((right & counted).sum().item())
        self.seen += int(counted.sum().item())

    def compute(self) -> float:
        if not self.seen:
            raise self.nothing_seen()
        return self.right / self.seen


class ConfusionMatrix(Metric):
    """Counts by true class (rows) and predicted class (columns).

    Args:
        num_classes: number of classes.
        ignore_index: targets that do not count, as in `CrossEntropyLoss`.

    Example:
        >>> import adjoint as ad
        >>> ConfusionMatrix(2).update(ad.tensor([0, 1, 1]), ad.tensor([0, 1, 0])).compute()
        tensor([[1, 1],
                [0, 1]])
    """

    name = "confusion"

    def __init__(self, num_classes: int, ignore_index: int = IGNORED) -> None:
        self.num_classes, self.ignore_index = num_classes, ignore_index
        super().__init__()

    def reset(self) -> None:
        self.counts: Any = None

    def add(self, prediction: Tensor, target: Tensor) -> None:
        predicted, want = classes_of(self.name, prediction, target)
        counted = want != self.ignore_index
        predicted, want = predicted[counted], want[counted]
        size = self.num_classes
        for what, values in (("prediction", predicted), ("target", want)):
            if values.numel() and not 0 <= values.min().item() <= values.max().item() < size:
                raise ValueError(
                    f"{self.name}: a {what} is outside the {size} classes 0..{size - 1}"
                )
        counts = (want * size + predicted).bincount(minlength=size * size).reshape(size, size)
        self.counts = counts if self.counts is None else self.counts + counts

    def compute(self) -> Any:
        if self.counts is None:
            raise self.nothing_seen()
        return self.counts


class _FromConfusion(ConfusionMatrix):
    """A score per class from true positives, false positives and false negatives, averaged."""

    def __init__(
        self, num_classes: int, average: str = "macro", ignore_index: int = IGNORED
    ) -> None:
        if average not in AVERAGES:
            raise ValueError(f"{self.name}: average must be one of {AVERAGES}, got {average!r}")
        self.average = average
        super().__init__(num_classes, ignore_index)

    @staticmethod
    @abstractmethod
    def score(tp: float, fp: float, fn: float) -> float:
        """The score of one class."""

    def compute(self) -> Any:
        matrix = super().compute()
        tp = matrix.diagonal().tolist()
        predicted, true = matrix.sum(0).tolist(), matrix.sum(1).tolist()
        fp = [p - t for p, t in zip(predicted, tp, strict=True)]
        fn = [p - t for p, t in zip(true, tp, strict=True)]
        if self.average == "micro":
            return self.score(sum(tp), sum(fp), sum(fn))
        scores = [self.score(*counts) for counts in zip(tp, fp, fn, strict=True)]
        if self.average == "none":
            return scores
        if self.average == "weighted":
            return ratio(sum(s * n for s, n in zip(scores, true, strict=True)), sum(true))
        present = [s for s, p, n in zip(scores, predicted, true, strict=True) if p or n]
        return ratio(sum(present), len(present))


class Precision(_FromConfusion):
    r"""How much of what was called positive is: $TP / (TP + FP)$.

    Args:
        num_classes: number of classes.
        average: "micro" (over all), "macro" (mean of classes seen), "weighted" (by their counts)
            or "none" (a list).
        ignore_index: targets that do not count, as in `CrossEntropyLoss`.

    Example:
        >>> import adjoint as ad
        >>> got, want = ad.tensor([0, 1, 1, 1]), ad.tensor([0, 1, 0, 0])
        >>> round(Precision(2).update(got, want).compute(), 4)
        0.6667
    """

    name = "precision"

    @staticmethod
    def score(tp: float, fp: float, fn: float) -> float:
        return ratio(tp, tp + fp)


class Recall(_FromConfusion):
    r"""How much of what is positive was found: $TP / (TP + FN)$. Arguments as of Precision.

    Example:
        >>> import adjoint as ad
        >>> got, want = ad.tensor([0, 1, 1, 1]), ad.tensor([0, 1, 0, 0])
        >>> round(Recall(2).update(got, want).compute(), 4)
        0.6667
    """

    name = "recall"

    @staticmethod
    def score(tp: float, fp: float, fn: float) -> float:
        return ratio(tp, tp + fn)


class F1(_FromConfusion):
    r"""Harmonic mean of precision and recall: $2TP / (2TP + FP + FN)$. Arguments as of Precision.

    Example:
        >>> import adjoint as ad
        >>> got, want = ad.tensor([0, 1, 1, 1]), ad.tensor([0, 1, 0, 0])
        >>> F1(2, "micro").update(got, want).compute()
        0.5
    """

    name = "f1"

    @staticmethod
    def score(tp: float, fp: float, fn: float) -> float:
        return ratio(2 * tp, 2 * tp + fp + fn)
