"""torchmetrics: sound, pictures, groups, pairs, shapes, segments, texts, boxes; states that are merged and moved."""

import pickle

import torch
import torchmetrics as tm
import torchmetrics.functional as F
from common import parts, picture
from torchmetrics import (
    audio,
    clustering,
    detection,
    image,
    nominal,
    regression,
    segmentation,
    text,
)
from torchmetrics.functional import pairwise

a, b = picture(2, 200), picture(2, 200).cos()
seen, wanted = (picture(2, 3, 48, 48) + 1) / 2, (picture(2, 3, 48, 48).cos() + 1) / 2


def sound():
    """Noise and distortion."""
    found = [
        each()(a, b)
        for each in (
            audio.SignalNoiseRatio,
            audio.ScaleInvariantSignalNoiseRatio,
            audio.ScaleInvariantSignalDistortionRatio,
        )
    ]
    found.append(audio.SignalDistortionRatio(filter_length=16)(a, b))
    found.append(audio.SourceAggregatedSignalDistortionRatio()(a[None], b[None]))
    best = audio.PermutationInvariantTraining(F.scale_invariant_signal_noise_ratio, eval_func="max")
    return [*found, best(torch.stack([a, b], 1), torch.stack([b, a], 1))]


def pictures():
    """Distances of pictures."""
    found = []
    for each in (
        image.UniversalImageQualityIndex(), image.SpectralAngleMapper(), image.ErrorRelativeGlobalDimensionlessSynthesis(), image.RelativeAverageSpectralError(),
        image.RootMeanSquaredErrorUsingSlidingWindow(), image.SpatialCorrelationCoefficient(), image.VisualInformationFidelity(),
    ):  # fmt: skip
        found.append(each(seen, wanted))
    grey = image.PeakSignalNoiseRatioWithBlockedEffect()
    found += [grey(seen[:, :1], wanted[:, :1]), *F.image_gradients(seen)]
    return found


def groups():
    """Clusters and tables of counts."""
    first, second = torch.arange(20) % 3, torch.arange(20) * 7 % 4
    found = [
        each()(first, second)
        for each in (
            clustering.MutualInfoScore,
            clustering.AdjustedRandScore,
            clustering.RandScore,
            clustering.FowlkesMallowsIndex,
            clustering.HomogeneityScore,
            clustering.CompletenessScore,
            clustering.VMeasureScore,
            clustering.NormalizedMutualInfoScore,
            clustering.AdjustedMutualInfoScore,
        )
    ]
    found += [
        each()(picture(20, 3), first)
        for each in (
            clustering.CalinskiHarabaszScore,
            clustering.DaviesBouldinScore,
            clustering.DunnIndex,
        )
    ]
    found += [
        each(4)(first, second)
        for each in (
            nominal.CramersV,
            nominal.TschuprowsT,
            nominal.PearsonsContingencyCoefficient,
            nominal.TheilsU,
        )
    ]
    return [*found, nominal.FleissKappa(mode="counts")(torch.tensor([[3, 1], [2, 2], [4, 0]]))]


def pairs():
    """Every row against every other."""
    rows, others = picture(5, 4), picture(3, 4).cos()
    return [
        each(rows, others)
        for each in (
            pairwise.pairwise_cosine_similarity,
            pairwise.pairwise_euclidean_distance,
            pairwise.pairwise_linear_similarity,
            pairwise.pairwise_manhattan_distance,
            lambda x, y: pairwise.pairwise_minkowski_distance(x, y, 3),
        )
    ]


def numbers():
    """Further errors of numbers."""
    x, y = picture(30) + 2, picture(30).cos() + 2
    found = [
        each()(x, y)
        for each in (
            regression.WeightedMeanAbsolutePercentageError,
            regression.NormalizedRootMeanSquaredError,
            regression.LogCoshError,
        )
    ]
    found += [regression.MinkowskiDistance(3)(x, y), regression.CriticalSuccessIndex(0.5)(x, y)]
    shares = picture(4, 5).softmax(-1)
    found += [
        regression.KLDivergence()(shares, shares.flip(0)),
        regression.JensenShannonDivergence()(shares, shares.flip(0)),
    ]
    return [*found, regression.ContinuousRankedProbabilityScore()(picture(6, 4), picture(6))]


def segments():
    """Pieces of pictures."""
    guess, aim = (picture(2, 3, 8, 8) > 0).long(), (picture(2, 3, 8, 8).cos() > 0).long()
    found = [
        segmentation.GeneralizedDiceScore(3)(guess, aim),
        segmentation.MeanIoU(3)(guess, aim),
        segmentation.DiceScore(3, average="macro")(guess, aim),
    ]
    return [*found, segmentation.HausdorffDistance(3, input_format="one-hot")(guess, aim)]


def texts():
    """Words beside words."""
    said, meant = ["the cat sat on the mat", "a dog"], ["the cat is on the mat", "the dog"]
    found = [
        each()(said, meant)
        for each in (
            text.MatchErrorRate,
            text.WordInfoLost,
            text.WordInfoPreserved,
            text.CharErrorRate,
            text.EditDistance,
        )
    ]
    found += [
        each()(said, [[m] for m in meant])
        for each in (
            text.CHRFScore,
            text.TranslationEditRate,
            text.ExtendedEditDistance,
            text.SacreBLEUScore,
        )
    ]
    answers = [{"prediction_text": "1976", "id": "a"}]
    truth = [{"answers": {"answer_start": [97], "text": ["1976"]}, "id": "a"}]
    return [*found, list(text.SQuAD()(answers, truth).values())]


def boxes():
    """Boxes by overlap."""
    guess = [
        {
            "boxes": torch.tensor([[0.0, 0.0, 4.0, 4.0], [5.0, 5.0, 9.0, 9.0]]),
            "scores": torch.tensor([0.9, 0.4]),
            "labels": torch.tensor([0, 1]),
        }
    ]
    aim = [
        {
            "boxes": torch.tensor([[1.0, 0.0, 5.0, 4.0], [5.0, 5.0, 9.0, 8.0]]),
            "labels": torch.tensor([0, 1]),
        }
    ]
    found = []
    for each in (
        detection.GeneralizedIntersectionOverUnion(),
        detection.CompleteIntersectionOverUnion(),
        detection.DistanceIntersectionOverUnion(),
    ):
        found += [value for value in each(guess, aim).values()]
    scores = detection.MeanAveragePrecision()(guess, aim)
    return [*found, scores["map"], scores["map_50"], scores["mar_100"]]


def kept():
    """Metrics copied, added, pickled, merged, composed, in other types."""
    metric = tm.MeanSquaredError()
    metric.update(a, b)
    again = pickle.loads(pickle.dumps(metric))
    copy = metric.clone()
    copy.update(b, a * 2)
    found = [again.compute(), copy.compute(), (metric + 1).compute(), (metric * again).compute()]
    metric.merge_state(copy)
    found.append(metric.compute())
    double = tm.MeanSquaredError().set_dtype(torch.float64)
    double.update(a.double(), b.double())
    found += [double.compute(), double.compute().dtype == torch.float64]
    whole = tm.MetricCollection(
        {"one": tm.MeanSquaredError(), "two": tm.MeanAbsoluteError()}, prefix="p_"
    )
    whole.update(a, b)
    found += [whole.compute()["p_one"], len(whole.state_dict()), len(whole.clone(prefix="q_"))]
    total = tm.CatMetric()
    total.update(torch.tensor([1.0, 2.0]))
    total.update(torch.tensor(3.0))

    class Own(tm.Metric):
        """How many are positive."""

        def __init__(self):
            super().__init__()
            self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")
            self.add_state("rows", [], dist_reduce_fx="cat")

        def update(self, x):
            self.count += (x > 0).sum()
            self.rows.append(x)

        def compute(self):
            return self.count + torch.cat(self.rows).numel()

    own = Own()
    own(a[0])
    own(b[0])
    return [*found, total.compute(), own.compute(), own.update_count]


parts(sound, pictures, groups, pairs, numbers, segments, texts, boxes, kept)
