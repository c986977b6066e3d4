"""Metrics against closed forms and plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import metrics
from adjoint.training import Trainer

RNG = np.random.default_rng(0)
GOT, WANT = RNG.integers(0, 4, 200), RNG.integers(0, 4, 200)


def in_batches(metric: Any, got: Any, want: Any, size: int = 33) -> Any:
    for start in range(0, len(want), size):
        metric.update(ad.tensor(got[start : start + size]), ad.tensor(want[start : start + size]))
    return metric.compute()


def test_confusion_and_what_is_read_off_it() -> None:
    matrix = np.zeros((4, 4), int)
    np.add.at(matrix, (WANT, GOT), 1)
    assert in_batches(metrics.ConfusionMatrix(4), GOT, WANT).tolist() == matrix.tolist()
    precision = np.diag(matrix) / matrix.sum(0)
    recall = np.diag(matrix) / matrix.sum(1)
    f1 = 2 * precision * recall / (precision + recall)
    share = matrix.sum(1) / matrix.sum()
    for cls, each in (
        (metrics.Precision, precision),
        (metrics.Recall, recall),
        (metrics.F1, f1),
    ):
        assert in_batches(cls(4, "none"), GOT, WANT) == pytest.approx(each)
        assert in_batches(cls(4, "macro"), GOT, WANT) == pytest.approx(each.mean())
        assert in_batches(cls(4, "weighted"), GOT, WANT) == pytest.approx((each * share).sum())
        assert in_batches(cls(4, "micro"), GOT, WANT) == pytest.approx((GOT == WANT).mean())


def test_accuracy_and_top_k() -> None:
    scores = RNG.normal(size=(100, 6)).astype(np.float32)
    want = RNG.integers(0, 6, 100)
    rank = (-scores).argsort(1)
    for k in (1, 2, 5):
        expected = (rank[:, :k] == want[:, None]).any(1).mean()
        assert in_batches(metrics.Accuracy(k), scores, want) == pytest.approx(expected)


@pytest.mark.parametrize("levels", [5, 10_000])
def test_auc_counts_pairs(levels: int) -> None:
    scores = RNG.integers(0, levels, 150) / levels
    labels = RNG.integers(0, 2, 150)
    positive, negative = scores[labels == 1], scores[labels == 0]
    wins = (positive[:, None] > negative).sum() + 0.5 * (positive[:, None] == negative).sum()
    expected = wins / (len(positive) * len(negative))
    assert in_batches(metrics.AUC(), scores, labels) == pytest.approx(expected)
    fpr, tpr, thresholds = in_batches(metrics.ROC(), scores, labels)
    for f, t, threshold in zip(fpr.tolist(), tpr.tolist(), thresholds.tolist(), strict=True):
        assert f == pytest.approx((negative >= threshold).mean())
        assert t == pytest.approx((positive >= threshold).mean())


def test_regression() -> None:
    want = RNG.normal(size=80)
    got = want + 0.3 * RNG.normal(size=80)
    error = got - want
    assert in_batches(metrics.MeanSquaredError(), got, want) == pytest.approx((error**2).mean())
    assert in_batches(metrics.RootMeanSquaredError(), got, want) == pytest.approx(
        np.sqrt((error**2).mean())
    )
    assert in_batches(metrics.MeanAbsoluteError(), got, want) == pytest.approx(abs(error).mean())
    assert in_batches(metrics.R2(), got, want) == pytest.approx(
        1 - (error**2).sum() / ((want - want.mean()) ** 2).sum()
    )


@pytest.mark.parametrize("far", [0, 10**6, 10**9])
@pytest.mark.parametrize("size", [1, 7, 40])
def test_regression_by_fractions(far: int, size: int) -> None:
    """Exact numbers, in batches, also where they vary little beside what they are."""
    want = np.array([far + n * 37 % 11 / 8 for n in range(40)])
    got = want + np.array([n * 23 % 7 / 4 - 0.5 for n in range(40)])
    targets, errors = [Fraction(x) for x in want], [Fraction(x) for x in got - want]
    mean = sum(targets) / 40
    squared, spread = sum(e * e for e in errors), sum((t - mean) ** 2 for t in targets)
    exact: dict[type[Any], float] = {
        metrics.MeanSquaredError: float(squared / 40),
        metrics.RootMeanSquaredError: float(squared / 40) ** 0.5,
        metrics.MeanAbsoluteError: float(sum(map(abs, errors)) / 40),
        metrics.R2: float(1 - squared / spread),
    }
    for kind, value in exact.items():
        assert in_batches(kind(), got, want, size) == pytest.approx(value, rel=1e-12)
    weights = np.arange(40) % 5
    weighed = sum(t * int(w) for t, w in zip(targets, weights, strict=True)) / int(weights.sum())
    assert in_batches(metrics.Mean(), want, weights, size) == pytest.approx(
        float(weighed), rel=1e-12
    )


def test_what_numbers_cannot_say() -> None:
    same = ad.full((3,), 0.1, dtype=ad.float64)
    for size in (1, 3):
        with pytest.raises(ValueError, match="do not vary"):
            in_batches(metrics.R2(), np.zeros(3), same.numpy(), size)
    for empty in (metrics.Mean(), metrics.R2(), metrics.MeanSquaredError(), metrics.Perplexity()):
        with pytest.raises(RuntimeError, match="nothing to say"):
            empty.compute()
    with pytest.raises(RuntimeError, match="nothing to say"):
        metrics.Mean().update(ad.ones(2), ad.zeros(2)).compute()
    for metric, got, want in (
        (metrics.R2(), ad.ones(2), ad.ones(2, 1)),
        (metrics.Perplexity(), ad.ones(2, 3), ad.zeros(3).long()),
        (metrics.AUC(), ad.ones(2, 3), ad.zeros(2)),
        (metrics.AUC(), ad.ones(2, 1), ad.zeros(2)),
    ):
        with pytest.raises(ValueError, match="differ in shape|do not fit"):
            metric.update(got, want)


def test_auc_of_the_chances_of_two_classes_is_that_of_the_second() -> None:
    scores = RNG.random((30, 1))
    scores = np.concatenate([1 - scores, scores], 1)  # logits are another matter, below
    labels = np.arange(30) % 2
    two, one = (in_batches(metrics.AUC(), s, labels) for s in (scores, scores[:, 1]))
    assert two == one
    assert two != in_batches(metrics.AUC(), scores[:, 0], labels)


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
def test_scores_of_classes_by_counting(average: str) -> None:
    for kind, share in (
        (metrics.Precision, lambda t, p, n: t / p if p else 0.0),
        (metrics.Recall, lambda t, p, n: t / n if n else 0.0),
        (metrics.F1, lambda t, p, n: 2 * t / (p + n) if p + n else 0.0),
    ):
        got, want = GOT % 3, WANT  # class 3 is never said
        counts = [
            (int(((got == c) & (want == c)).sum()), int((got == c).sum()), int((want == c).sum()))
            for c in range(4)
        ]
        each = [share(*c) for c in counts]
        expected: Any = {
            "none": each,
            "macro": sum(each) / 4,
            "weighted": sum(s * n for s, (_, _, n) in zip(each, counts, strict=True)) / len(want),
            "micro": share(*(sum(c) for c in zip(*counts, strict=True))),
        }[average]
        found = in_batches(kind(4, average=average), got, want)
        assert found == pytest.approx(expected)


def test_perplexity_ignores_padding() -> None:
    logits = RNG.normal(size=(6, 7, 5)).astype(np.float32)
    want = RNG.integers(0, 5, (6, 7))
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(log_p, want[..., None], -1)[..., 0]
    masked = want.copy()
    masked[:, 5:] = -100
    assert in_batches(metrics.Perplexity(), logits, want, 2) == pytest.approx(
        np.exp(-chosen.mean())
    )
    assert in_batches(metrics.Perplexity(), logits, masked, 2) == pytest.approx(
        np.exp(-chosen[:, :5].mean())
    )


def test_reset_call_and_errors() -> None:
    accuracy = metrics.Accuracy()
    assert accuracy(ad.tensor([1, 1]), ad.tensor([1, 0])) == 0.5
    assert accuracy(ad.tensor([1, 1]), ad.tensor([1, 1])) == 1.0
    assert accuracy.compute() == 0.75
    accuracy.reset()
    with pytest.raises(RuntimeError, match="nothing to say"):
        accuracy.compute()
    with pytest.raises(ValueError, match="differ in shape"):
        accuracy.update(ad.tensor([1, 1]), ad.tensor([1]))
    with pytest.raises(ValueError, match="outside the 2 classes"):
        metrics.ConfusionMatrix(2).update(ad.tensor([2]), ad.tensor([0]))
    with pytest.raises(ValueError, match="both classes"):
        metrics.AUC().update(ad.tensor([0.2]), ad.tensor([1])).compute()
    with pytest.raises(ValueError, match="average"):
        metrics.F1(2, "mean")


class InPlace(metrics.Metric):
    """Gathers in a list, a dict, a tensor and an array, and clears them where they are."""

    name = "in_place"

    def __init__(self) -> None:
        self.seen: list[float] = []
        self.counts = {"batches": [0]}
        self.total = ad.zeros(1)
        self.array = np.zeros(1)
        super().__init__()

    def reset(self) -> None:
        self.seen.clear()
        self.counts["batches"][0] = 0
        self.total.zero_()
        self.array[:] = 0

    def add(self, prediction: ad.Tensor, target: ad.Tensor) -> None:
        self.seen.append(float((prediction - target).abs().sum()))
        self.counts["batches"][0] += 1
        self.total += self.seen[-1]
        self.array += self.seen[-1]

    def compute(self) -> Any:
        return (list(self.seen), self.counts["batches"][0], self.total.item(), self.array[0])


CLASSES = ad.tensor([0, 1, 1, 0, 1, 0])
SCORES = ad.tensor([[2.0, 1.0], [0.5, 1.0], [1.0, 0.2], [3.0, 1.0], [0.0, 1.0], [0.1, 0.3]])
CASES: dict[str, tuple[Callable[[], metrics.Metric], ad.Tensor, ad.Tensor]] = {
    "Accuracy": (metrics.Accuracy, SCORES, CLASSES),
    "ConfusionMatrix": (lambda: metrics.ConfusionMatrix(2), SCORES, CLASSES),
    "Precision": (lambda: metrics.Precision(2), SCORES, CLASSES),
    "Recall": (lambda: metrics.Recall(2), SCORES, CLASSES),
    "F1": (lambda: metrics.F1(2), SCORES, CLASSES),
    "ROC": (metrics.ROC, SCORES[:, 1], CLASSES),
    "AUC": (metrics.AUC, SCORES[:, 1], CLASSES),
    "Mean": (metrics.Mean, SCORES[:, 1], CLASSES),
    "MeanSquaredError": (metrics.MeanSquaredError, SCORES[:, 0], SCORES[:, 1]),
    "RootMeanSquaredError": (metrics.RootMeanSquaredError, SCORES[:, 0], SCORES[:, 1]),
    "MeanAbsoluteError": (metrics.MeanAbsoluteError, SCORES[:, 0], SCORES[:, 1]),
    "R2": (metrics.R2, SCORES[:, 0], SCORES[:, 1]),
    "Perplexity": (metrics.Perplexity, SCORES, CLASSES),
    "InPlace": (InPlace, SCORES[:, 0], SCORES[:, 1]),
}


def test_every_metric_is_among_the_cases() -> None:
    public = {n for n, v in vars(metrics).items() if isinstance(v, type) and n != "Metric"}
    assert public <= CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_one_batch_alone_and_evaluation_leave_what_was_gathered(name: str) -> None:
    make, prediction, target = CASES[name]
    one, other = slice(0, 3), slice(3, 6)
    metric, wanted = make(), make()
    metric.update(prediction[one], target[one])
    alone = metric(prediction[other], target[other])  # taken in as well
    assert told(alone) == told(make().update(prediction[other], target[other]).compute())
    wanted.update(prediction[one], target[one]).update(prediction[other], target[other])
    gathered = told(wanted.compute())
    assert told(metric.compute()) == gathered

    model = Same()
    optimizer = ad.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, optimizer, lambda *_: ad.zeros(()), metrics=[metric], progress=False)
    trainer.evaluate([(prediction[one], target[one])])
    assert told(metric.compute()) == gathered

    trainer._batches = 1  # inside an epoch: what was gathered is part of the state
    kept = trainer.state_dict()
    metric.update(prediction[one], target[one])
    metric.reset()
    trainer.load_state_dict(kept)
    assert told(metric.compute()) == gathered
    metric.reset()
    trainer.load_state_dict(kept)
    assert told(metric.compute()) == gathered


class Same(ad.nn.Module):
    """Gives what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = ad.nn.Parameter(ad.zeros(1))

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return x


def told(value: Any) -> Any:
    """A value as plain numbers, to be compared."""
    if isinstance(value, (tuple, list)):
        return [told(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize(
    "make",
    [
        metrics.Accuracy,
        lambda **k: metrics.Accuracy(2, **k),
        lambda **k: metrics.F1(3, **k),
        lambda **k: metrics.Recall(3, "micro", **k),
        lambda **k: metrics.ConfusionMatrix(3, **k),
    ],
)
@pytest.mark.parametrize("options", [{}, {"ignore_index": 1}])
def test_targets_that_do_not_count(make: Any, options: Any) -> None:
    """Those that the loss leaves out are left out here, in images, too."""
    generator = ad.Generator().manual_seed(0)
    scores = ad.randn(2, 3, 4, 5, generator=generator)
    target = ad.randint(0, 3, (2, 4, 5), generator=generator)
    ignored = options.get("ignore_index", -100)
    target[:, 1:3] = ignored
    counted = target != ignored
    kept = scores.movedim(1, -1)[counted], target[counted]
    got, want = make(**options).update(scores, target), make(**options).update(*kept)
    assert np.array_equal(got.compute(), want.compute())


def test_scores_of_two_classes_are_ranked_as_their_probabilities() -> None:
    logits = RNG.normal(size=(80, 2)) * 3
    labels = (RNG.uniform(size=80) < 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))).astype(int)
    chances = ad.tensor(logits).softmax(1)
    want = in_batches(metrics.AUC(), chances[:, 1].numpy(), labels)
    for scores in (ad.tensor(logits), chances, chances.log()):
        assert in_batches(metrics.AUC(), scores.numpy(), labels) == pytest.approx(want)
    assert abs(want - in_batches(metrics.AUC(), logits[:, 1], labels)) > 0.02


def test_labels_and_scores_that_cannot_be_ranked() -> None:
    scores = ad.tensor([0.1, 0.9, 0.95, 0.2])
    counted = metrics.AUC().update(scores, ad.tensor([0, 1, -100, 0])).compute()
    assert counted == metrics.AUC().update(scores[[0, 1, 3]], ad.tensor([0, 1, 0])).compute()
    other = metrics.ROC(ignore_index=2).update(scores, ad.tensor([0, 1, 2, 0])).compute()
    assert told(other) == told(
        metrics.ROC().update(scores[[0, 1, 3]], ad.tensor([False, True, False])).compute()
    )
    for labels in ([0, 1, 2, 0], [0, 1, -1, 0], [0.0, 1.0, 0.4, 0.0]):
        with pytest.raises(ValueError, match="labels are 0 and 1"):
            metrics.AUC().update(scores, ad.tensor(labels))
    with pytest.raises(ValueError, match="not a number"):
        metrics.AUC().update(scores.log().log(), ad.tensor([0, 1, 1, 0]))


def test_scores_of_one_class_choose_nothing() -> None:
    for make in (metrics.Accuracy, lambda: metrics.F1(2)):
        with pytest.raises(ValueError, match="are of one class"):
            make().update(ad.tensor([[5.0], [-3.0]]), ad.tensor([1, 0]))


def test_perplexity_beyond_all_numbers_is_infinite() -> None:
    scores = ad.tensor([[1000.0, 0.0]])
    assert metrics.Perplexity().update(scores, ad.tensor([1])).compute() == float("inf")
