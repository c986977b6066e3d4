"""FCOS (Tian et al., 2019): boxes from every place, without anchors of many shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from adjoint import nn
from adjoint.engine.core.dtype import float32, int64
from adjoint.engine.ops.create.creation import full, zeros_like
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.detection._utils import BoxLinearCoder
from adjoint.vision.models.detection.anchor_utils import AnchorGenerator
from adjoint.vision.models.detection.faster_rcnn import (
    COCO_CLASSES,
    IMAGENET_MEAN,
    IMAGENET_STD,
    backbone_width,
    check_kind,
    resnet50_pyramid,
)
from adjoint.vision.models.detection.one_stage import (
    Target,
    best_of_level,
    levels_of,
    sizes_of,
    without_doubles,
)
from adjoint.vision.models.detection.rpn import permute_and_flatten
from adjoint.vision.models.detection.transform import GeneralizedRCNNTransform
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.boxes import generalized_box_iou_loss
from adjoint.vision.ops.layers import LastLevelP6P7
from adjoint.vision.ops.losses import sigmoid_focal_loss

Norm = Callable[..., nn.Module]
LARGEST_AREA = 1e8  # of a true box; more than any picture's


def _tower(in_channels: int, num_convs: int, norm_layer: Norm | None) -> nn.Sequential:
    """Convolutions with normalisations, as every head begins."""
    norm = norm_layer or partial(nn.GroupNorm, 32)
    layers: list[nn.Module] = []
    for _ in range(num_convs):
        layer = _quiet(nn.Conv2d(in_channels, in_channels, 3, padding=1))
        layers += [layer, norm(in_channels), nn.ReLU()]
    return nn.Sequential(*layers)


def _quiet(layer: nn.Conv2d, bias: float = 0.0) -> nn.Conv2d:
    """A convolution that starts with small weights."""
    nn.init.normal_(layer.weight, std=0.01)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias)
    return layer


def _columns(out: Tensor, values: int) -> Tensor:
    """(B, values, H, W) -> (B, H * W, values)."""
    batch, channels, h, w = (int(n) for n in out.shape)
    return permute_and_flatten(out, batch, channels // values, values, h, w)


class FCOSClassificationHead(nn.Module):
    """Classes of each place.

    Args:
        in_channels: of the levels.
        num_anchors: at a place.
        num_classes: with the background.
        num_convs: before the one that answers.
        prior_probability: of each class at the start.
        norm_layer: makes normalisations; groups of 32 channels unless given.
    """

    def __init__(
        self, in_channels: int, num_anchors: int, num_classes: int, num_convs: int = 4,
        prior_probability: float = 0.01, norm_layer: Norm | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.conv = _tower(in_channels, num_convs, norm_layer)
        start = -math.log((1 - prior_probability) / prior_probability)
        last = nn.Conv2d(in_channels, num_anchors * num_classes, 3, padding=1)
        self.cls_logits = _quiet(last, start)

    def forward(self, x: list[Tensor]) -> Tensor:
        """(B, places of all levels, classes)."""
        return cat([_columns(self.cls_logits(self.conv(y)), self.num_classes) for y in x], 1)


class FCOSRegressionHead(nn.Module):
    """Distances of a box's sides from each place, and how near its middle the place is.

    Args:
        in_channels: of the levels.
        num_anchors: at a place.
        num_convs: before those that answer.
        norm_layer: makes normalisations; groups of 32 channels unless given.
    """

    def __init__(
        self, in_channels: int, num_anchors: int, num_convs: int = 4, norm_layer: Norm | None = None
    ) -> None:
        super().__init__()
        self.conv = _tower(in_channels, num_convs, norm_layer)
        self.bbox_reg = _quiet(nn.Conv2d(in_channels, num_anchors * 4, 3, padding=1))
        self.bbox_ctrness = _quiet(nn.Conv2d(in_channels, num_anchors, 3, padding=1))

    def forward(self, x: list[Tensor]) -> tuple[Tensor, Tensor]:
        """(B, places, 4) and (B, places, 1)."""
        seen = [self.conv(level) for level in x]
        sides = [_columns(self.bbox_reg(level).relu(), 4) for level in seen]
        middles = [_columns(self.bbox_ctrness(level), 1) for level in seen]
        return cat(sides, 1), cat(middles, 1)


class FCOSHead(nn.Module):
    """Classes, boxes and nearness to their middles, at each place.

    Args:
        in_channels: of the levels.
        num_anchors: at a place.
        num_classes: with the background.
        num_convs: before those that answer.
    """

    def __init__(
        self, in_channels: int, num_anchors: int, num_classes: int, num_convs: int = 4
    ) -> None:
        super().__init__()
        self.box_coder = BoxLinearCoder(normalize_by_size=True)
        self.classification_head = FCOSClassificationHead(
            in_channels, num_anchors, num_classes, num_convs
        )
        self.regression_head = FCOSRegressionHead(in_channels, num_anchors, num_convs)

    def compute_loss(
        self, targets: list[Target], head_outputs: dict[str, Tensor], anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:  # fmt: skip
        """The losses of classes, of boxes and of nearness, by the number of places with objects."""
        pairs = zip(targets, matched_idxs, strict=True)
        truths = [_truth(target, matched) for target, matched in pairs]
        labels, truth = (stack(list(part)) for part in zip(*truths, strict=True))
        places, logits = stack(anchors), head_outputs["cls_logits"]
        object_there = labels >= 0
        wanted = zeros_like(logits)
        wanted[object_there, labels[object_there]] = 1.0
        boxes = self.box_coder.decode(head_outputs["bbox_regression"], places)
        near = _nearness(self.box_coder.encode(places, truth))
        said = head_outputs["bbox_ctrness"].squeeze(2)
        losses = {
            "classification": sigmoid_focal_loss(logits, wanted, reduction="sum"),
            "bbox_regression": generalized_box_iou_loss(
                boxes[object_there], truth[object_there], reduction="sum"
            ),
            "bbox_ctrness": F.binary_cross_entropy_with_logits(
                said[object_there], near[object_there], reduction="sum"
            ),
        }
        count = max(1, int(object_there.sum()))
        return {name: loss / count for name, loss in losses.items()}

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        """(B, places, classes), (B, places, 4) and (B, places, 1)."""
        sides, middles = self.regression_head(x)
        logits = self.classification_head(x)
        return {"cls_logits": logits, "bbox_regression": sides, "bbox_ctrness": middles}


def _truth(target: Target, matched: Tensor) -> tuple[Tensor, Tensor]:
    """The class of each place, -1 for background, and its box."""
    count = int(matched.shape[0])
    if len(target["labels"]) == 0:
        labels, boxes = target["labels"].new_zeros(count), target["boxes"].new_zeros(count, 4)
    else:
        which = matched.clip(min=0)
        labels, boxes = target["labels"][which], target["boxes"][which]
    labels[matched < 0] = -1
    return labels, boxes


def _nearness(distances: Tensor) -> Tensor:
    """How near a box's middle a place is, of its distances from the sides: 1 in the middle."""
    across, along = distances[:, :, [0, 2]], distances[:, :, [1, 3]]
    shares = [pair.min(-1)[0] / pair.max(-1)[0] for pair in (across, along)]
    return (shares[0] * shares[1]).sqrt()


class FCOS(nn.Module):
    """Detection in one stage, each place answering for the box it lies in.

    Args:
        backbone: makes levels of `backbone.out_channels` channels.
        num_classes: with the background.
        min_size, max_size, image_mean, image_std: see `GeneralizedRCNNTransform`.
        anchor_generator: makes one square at a place, of the level's stride.
        head: the part that answers.
        center_sampling_radius: how near a box's middle places must lie to learn it, in strides.
        score_thresh: detections must be more likely.
        nms_thresh: the overlap from which the worse of two is dropped.
        detections_per_img: at most.
        topk_candidates: detections of a level before `nms`.
        kwargs: further options of the transform.
    """

    def __init__(
        self, backbone: Any, num_classes: int, min_size: Any = 800, max_size: int = 1333,
        image_mean: list[float] | None = None, image_std: list[float] | None = None,
        anchor_generator: AnchorGenerator | None = None, head: nn.Module | None = None,
        center_sampling_radius: float = 1.5, score_thresh: float = 0.2, nms_thresh: float = 0.6,
        detections_per_img: int = 100, topk_candidates: int = 1000, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        width = backbone_width(backbone)
        check_kind("anchor_generator", anchor_generator, AnchorGenerator)
        self.backbone = backbone
        squares = ((8,), (16,), (32,), (64,), (128,))
        self.anchor_generator = anchor_generator or AnchorGenerator(squares, ((1.0,),) * 5)
        at_place = self.anchor_generator.num_anchors_per_location()[0]
        if at_place != 1:
            raise ValueError(
                f"anchor_generator.num_anchors_per_location()[0] should be 1 instead of {at_place}"
            )
        self.head: Any = head if head is not None else FCOSHead(width, at_place, num_classes)
        self.box_coder = BoxLinearCoder(normalize_by_size=True)
        self.transform = GeneralizedRCNNTransform(
            min_size, max_size, image_mean or IMAGENET_MEAN, image_std or IMAGENET_STD, **kwargs
        )
        self.center_sampling_radius = center_sampling_radius
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates

    def _matched(self, boxes: Tensor, squares: Tensor, counts: list[int]) -> Tensor:
        """The true box that each place learns, -1 for none: the smallest of those it may."""
        if boxes.numel() == 0:
            return full((int(squares.shape[0]),), -1, dtype=int64, device=squares.device)
        middles = (boxes[:, :2] + boxes[:, 2:]) / 2
        places = (squares[:, :2] + squares[:, 2:]) / 2
        side = squares[:, 2] - squares[:, 0]
        away = (places[:, None] - middles[None]).abs().max(2)[0]
        may = away < self.center_sampling_radius * side[:, None]
        x, y = places[:, :1], places[:, 1:]
        x0, y0, x1, y1 = (boxes[None, :, i] for i in range(4))
        distances = stack([x - x0, y - y0, x1 - x, y1 - y], 2)
        may &= distances.min(2)[0] > 0
        least, most = side * 4, side * 8  # each level answers for boxes of its own size
        least[: counts[0]] = 0
        most[-counts[-1] :] = math.inf
        far = distances.max(2)[0]
        may &= (far > least[:, None]) & (far < most[:, None])
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        smallness, matched = (may.to(float32) * (LARGEST_AREA - areas[None])).max(1)
        matched[smallness < 1e-5] = -1
        return matched

    def compute_loss(
        self, targets: list[Target], head_outputs: dict[str, Tensor], anchors: list[Tensor],
        num_anchors_per_level: list[int],
    ) -> dict[str, Tensor]:  # fmt: skip
        """The losses, each place matched to the truth."""
        matched = [
            self._matched(target["boxes"], squares, num_anchors_per_level)
            for target, squares in zip(targets, anchors, strict=True)
        ]
        return self.head.compute_loss(targets, head_outputs, anchors, matched)

    def postprocess_detections(
        self, head_outputs: dict[str, list[Tensor]], anchors: list[list[Tensor]],
        image_shapes: list[tuple[int, int]],
    ) -> list[Target]:  # fmt: skip
        """Of each image, the boxes, scores and labels of its best detections."""
        parts = [head_outputs[name] for name in ("cls_logits", "bbox_ctrness", "bbox_regression")]
        detections = []
        for number, shape in enumerate(image_shapes):
            levels = [
                best_of_level(
                    (logits[number].sigmoid() * near[number].sigmoid()).sqrt(), codes[number],
                    squares, self.box_coder.decode, shape, self.score_thresh, self.topk_candidates,
                )
                for logits, near, codes, squares in zip(*parts, anchors[number], strict=True)
            ]  # fmt: skip
            detections.append(without_doubles(levels, self.nms_thresh, self.detections_per_img))
        return detections

    def forward(self, images: Sequence[Tensor], targets: list[Target] | None = None) -> Any:
        """Images (C, H, W) -> a dictionary of losses while training, else one for each image."""
        batch, targets, levels = levels_of(self, images, targets)
        answers = self.head(levels)
        anchors = self.anchor_generator(batch, levels)
        counts = [int(level.shape[2] * level.shape[3]) for level in levels]
        if self.training:
            return self.compute_loss(targets or [], answers, anchors, counts)
        parts = {name: list(answer.split(counts, 1)) for name, answer in answers.items()}
        squares = [list(boxes.split(counts, 0)) for boxes in anchors]
        detections = self.postprocess_detections(parts, squares, batch.image_sizes)
        return self.transform.postprocess(detections, batch.image_sizes, sizes_of(images))


@network
def fcos_resnet50_fpn(
    num_classes: int | None = None, weights_backbone: Any = "IMAGENET1K_V1",
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> FCOS:  # fmt: skip
    """FCOS on ResNet-50 with a pyramid."""
    backbone = resnet50_pyramid(
        weights_backbone, has_weights, trainable_backbone_layers, pretrained_backbone,
        returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256),
    )  # fmt: skip
    return FCOS(backbone, num_classes or COCO_CLASSES, **kwargs)


__getattr__ = weights_in(__name__)
