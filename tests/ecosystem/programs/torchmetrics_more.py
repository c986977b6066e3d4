import torch
import torchmetrics as tm
import torchmetrics.functional as F
from common import picture, say
from torchmetrics.aggregation import MeanMetric, RunningMean, SumMetric
from torchmetrics.classification import MultilabelAveragePrecision
from torchmetrics.detection import IntersectionOverUnion
from torchmetrics.image import (
    MultiScaleStructuralSimilarityIndexMeasure,
    PeakSignalNoiseRatio,
    StructuralSimilarityIndexMeasure,
    TotalVariation,
)
from torchmetrics.text import BLEUScore, CharErrorRate, Perplexity, WordErrorRate
from torchmetrics.wrappers import (
    BootStrapper,
    ClasswiseWrapper,
    MetricTracker,
    MinMaxMetric,
    MultioutputWrapper,
)

found = []
many, yes = {"task": "multiclass", "num_classes": 4}, {"task": "binary"}
p, y = picture(24, 4).softmax(-1), torch.arange(24) * 5 % 4
q, z = picture(24).sigmoid(), torch.arange(24) % 2
scores = tm.MetricCollection(
    [
        tm.Accuracy(**many, average="macro"), tm.Precision(**many, average="macro"), tm.Recall(**many, average="weighted"),
        tm.F1Score(**many, average="none"), tm.AUROC(**many), tm.AveragePrecision(**many), tm.CohenKappa(**many),
        tm.ConfusionMatrix(**many, normalize="true"), tm.MatthewsCorrCoef(**many), tm.CalibrationError(**many),
        tm.JaccardIndex(**many), tm.Specificity(**many), tm.HammingDistance(**many), tm.StatScores(**many, average="none"),
        tm.HingeLoss(**many),
    ]
)  # fmt: skip
for part in range(3):
    scores.update(p[part * 8 : part * 8 + 8], y[part * 8 : part * 8 + 8])
for value in scores.compute().values():
    found += value.flatten().tolist()
scores.reset()
for kind in (tm.AUROC, tm.AveragePrecision, tm.F1Score, tm.Accuracy, tm.MatthewsCorrCoef):
    found.append(kind(**yes)(q, z))
found.append(tm.AUROC(**yes, thresholds=10)(q, z))
for each in F.roc(q, z, task="binary"):
    found.append(each.sum())
for each in F.precision_recall_curve(q, z, task="binary", thresholds=5):
    found.append(each.sum())
a, b = picture(20) + 2, picture(20).cos() + 2
for kind in (
    tm.MeanAbsoluteError, tm.R2Score, tm.PearsonCorrCoef, tm.SpearmanCorrCoef, tm.KendallRankCorrCoef, tm.ExplainedVariance,
    tm.MeanAbsolutePercentageError, tm.SymmetricMeanAbsolutePercentageError, tm.MeanSquaredLogError, tm.CosineSimilarity,
    tm.ConcordanceCorrCoef, tm.LogCoshError, tm.TweedieDevianceScore, tm.RelativeSquaredError,
):  # fmt: skip
    metric = kind()
    shape = (10, 2) if kind is tm.CosineSimilarity else (20,)
    metric.update(a.reshape(shape), b.reshape(shape))
    found.append(metric.compute())
image, other = (picture(2, 3, 48, 48) + 1) / 2, (picture(2, 3, 48, 48).cos() + 1) / 2
found += [
    StructuralSimilarityIndexMeasure(data_range=1.0)(image, other),
    PeakSignalNoiseRatio(data_range=1.0)(image, other),
]
found += [
    MultiScaleStructuralSimilarityIndexMeasure(data_range=1.0, kernel_size=3, betas=(0.5, 0.5))(
        image, other
    ),
    TotalVariation()(image),
]
found += [
    BLEUScore(2)(["the cat sat on"], [["the cat sat down", "a cat sat on"]]),
    WordErrorRate()(["a cat"], ["the cat"]),
]
found += [
    CharErrorRate()(["abc"], ["abd"]),
    Perplexity()(picture(2, 6, 5), torch.ones(2, 6).long()),
]
boxes = [{"boxes": torch.tensor([[0.0, 0.0, 4.0, 4.0]]), "labels": torch.tensor([0])}]
aims = [{"boxes": torch.tensor([[1.0, 1.0, 5.0, 4.0]]), "labels": torch.tensor([0])}]
found.append(IntersectionOverUnion()(boxes, aims)["iou"])
found.append(MultilabelAveragePrecision(4)(p, (picture(24, 4) > 0).int()))
tracker = MetricTracker(tm.Accuracy(**many))
for part in range(2):
    tracker.increment()
    tracker.update(p[part * 12 : part * 12 + 12], y[part * 12 : part * 12 + 12])
found += [*tracker.compute_all().tolist(), tracker.best_metric()]
found += list(ClasswiseWrapper(tm.Accuracy(**many, average=None))(p, y).values())
found += MultioutputWrapper(tm.MeanSquaredError(), 2)(picture(6, 2), picture(6, 2) * 2).tolist()
found += [
    MinMaxMetric(tm.MeanSquaredError())(a, b)["max"],
    len(BootStrapper(tm.MeanSquaredError(), num_bootstraps=3)(a, b)),
]
mean, total, recent = MeanMetric(), SumMetric(), RunningMean(2)
for value in (1.0, 2.0, 6.0):
    mean(value)
    total(value)
    recent(value)
found += [mean.compute(), total.compute(), recent.compute()]
groups = torch.tensor([0, 0, 0, 1, 1, 1])
found += [
    tm.RetrievalMAP()(q[:6], z[:6], indexes=groups),
    tm.RetrievalNormalizedDCG()(q[:6], z[:6], indexes=groups),
]
kept = tm.MeanSquaredError()
kept.persistent(True)
kept.update(a, b)
loaded = tm.MeanSquaredError()
loaded.persistent(True)
loaded.load_state_dict(kept.state_dict())
found.append(loaded.sum_squared_error)
say(*found)
