"""Rows of `tests.samples.modules` for losses, with their reductions, weights and targets."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from tests.samples.modules import Inputs, Row, classes, draw, ints, reals, signs, unit


def reductions(kind: Any, inputs: Inputs, **more: Any) -> list[Row]:
    """The loss with each reduction."""
    return [Row(partial(kind, reduction=how, **more), inputs) for how in ("mean", "sum", "none")]


def _weight(n: int) -> Any:
    return ad.tensor(np.linspace(0.5, 1.5, n).astype(np.float32))


def _probabilities(module: Any, x: Any, y: Any) -> Any:
    return module(x.sigmoid(), y)


def _log_probabilities(module: Any, x: Any, y: Any) -> Any:
    return module(x.log_softmax(1), y)


def _ctc(module: Any, x: Any, targets: Any) -> Any:
    return module(x.log_softmax(2), targets, ad.tensor([5, 4]), ad.tensor([3, 2]))


def _units(rng: np.random.Generator) -> tuple[Any, ...]:
    return draw(rng, 4, 3), unit(rng, 4, 3)


def _distributions(rng: np.random.Generator) -> tuple[Any, ...]:
    return draw(rng, 4, 3), draw(rng, 4, 3).softmax(1)


def _variances(rng: np.random.Generator) -> tuple[Any, ...]:
    return draw(rng, 4, 3), draw(rng, 4, 3), unit(rng, 4, 3)


def _pair_and_signs(rng: np.random.Generator) -> tuple[Any, ...]:
    return draw(rng, 4, 3), draw(rng, 4, 3), signs(rng, 4)


def _ranked(rng: np.random.Generator) -> tuple[Any, ...]:
    return draw(rng, 4), draw(rng, 4), signs(rng, 4)


def _with_signs(rng: np.random.Generator) -> tuple[Any, ...]:
    return draw(rng, 4, 3), signs(rng, 4, 3)


def _labels(rng: np.random.Generator) -> tuple[Any, ...]:
    return draw(rng, 2, 4), ad.tensor([[1, 3, -1, 0], [2, -1, 0, 1]])


def _strings(rng: np.random.Generator) -> tuple[Any, ...]:
    return draw(rng, 5, 2, 4), ints(rng, 3, 2, 3) + 1


PAIR = reals((4, 3), (4, 3))
TRIPLE = reals((4, 3), (4, 3), (4, 3))
CLASSES = classes((4, 3), 3, 4)
LOSSES: dict[str, list[Row]] = {
    "L1Loss": reductions(nn.L1Loss, PAIR),
    "MSELoss": reductions(nn.MSELoss, PAIR),
    "SmoothL1Loss": reductions(nn.SmoothL1Loss, PAIR, beta=0.7),
    "HuberLoss": reductions(nn.HuberLoss, PAIR, delta=0.7),
    "PoissonNLLLoss": [
        *reductions(nn.PoissonNLLLoss, _units, full=True),
        Row(partial(nn.PoissonNLLLoss, log_input=False), _units, _probabilities),
    ],
    "GaussianNLLLoss": reductions(nn.GaussianNLLLoss, _variances, full=True),
    "KLDivLoss": [
        Row(partial(nn.KLDivLoss, reduction=how), _distributions, _log_probabilities)
        for how in ("mean", "sum", "batchmean", "none")
    ],
    "BCELoss": [
        Row(nn.BCELoss, _units, _probabilities),
        Row(lambda: nn.BCELoss(weight=_weight(3), reduction="sum"), _units, _probabilities),
    ],
    "BCEWithLogitsLoss": [
        *reductions(nn.BCEWithLogitsLoss, _units),
        Row(lambda: nn.BCEWithLogitsLoss(_weight(3), pos_weight=_weight(3)), _units),
    ],
    "CrossEntropyLoss": [
        *reductions(nn.CrossEntropyLoss, CLASSES),
        Row(lambda: nn.CrossEntropyLoss(_weight(3), label_smoothing=0.1, ignore_index=1), CLASSES),
        Row(partial(nn.CrossEntropyLoss, label_smoothing=0.2), _distributions),
        Row(nn.CrossEntropyLoss, classes((2, 3, 4, 4), 3, 2, 4, 4)),
    ],
    "NLLLoss": [
        Row(lambda: nn.NLLLoss(_weight(3), ignore_index=0), CLASSES, _log_probabilities),
        Row(partial(nn.NLLLoss, reduction="none"), CLASSES, _log_probabilities),
    ],
    "NLLLoss2d": [Row(nn.NLLLoss, classes((2, 3, 4, 4), 3, 2, 4, 4), _log_probabilities)],
    "LinearCrossEntropyLoss": [
        Row(partial(nn.LinearCrossEntropyLoss, 3, 5), classes((4, 3), 5, 4))
    ],
    "AdaptiveLogSoftmaxWithLoss": [
        Row(partial(nn.AdaptiveLogSoftmaxWithLoss, 6, 12, [3, 7]), classes((5, 6), 12, 5)),
        Row(
            partial(nn.AdaptiveLogSoftmaxWithLoss, 6, 12, [3], head_bias=True),
            classes((5, 6), 12, 5),
        ),
    ],
    "CTCLoss": [
        Row(nn.CTCLoss, _strings, _ctc),
        Row(partial(nn.CTCLoss, reduction="none", zero_infinity=True), _strings, _ctc),
    ],
    "HingeEmbeddingLoss": reductions(nn.HingeEmbeddingLoss, _with_signs),
    "SoftMarginLoss": reductions(nn.SoftMarginLoss, _with_signs),
    "CosineEmbeddingLoss": reductions(nn.CosineEmbeddingLoss, _pair_and_signs, margin=0.2),
    "MarginRankingLoss": reductions(nn.MarginRankingLoss, _ranked, margin=0.2),
    "MultiMarginLoss": [
        *reductions(nn.MultiMarginLoss, CLASSES),
        Row(lambda: nn.MultiMarginLoss(p=2, margin=0.5, weight=_weight(3)), CLASSES),
    ],
    "MultiLabelMarginLoss": reductions(nn.MultiLabelMarginLoss, _labels),
    "MultiLabelSoftMarginLoss": [
        *reductions(nn.MultiLabelSoftMarginLoss, _units),
        Row(lambda: nn.MultiLabelSoftMarginLoss(_weight(3)), _units),
    ],
    "TripletMarginLoss": [
        *reductions(nn.TripletMarginLoss, TRIPLE),
        Row(partial(nn.TripletMarginLoss, 0.5, 1.0, swap=True), TRIPLE),
    ],
    "TripletMarginWithDistanceLoss": [
        Row(
            lambda: nn.TripletMarginWithDistanceLoss(
                distance_function=nn.PairwiseDistance(), swap=True
            ),
            TRIPLE,
        ),
        Row(
            lambda: nn.TripletMarginWithDistanceLoss(
                distance_function=lambda x, y: 1 - ad.nn.functional.cosine_similarity(x, y)
            ),
            TRIPLE,
        ),
    ],
}
