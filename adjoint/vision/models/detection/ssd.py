"""SSD (Liu et al., 2016): default boxes over levels of several sizes."""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.ops.create.creation import full_like, ones, zeros
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.detection._utils import BoxCoder, SSDMatcher, retrieve_out_channels
from adjoint.vision.models.detection.anchor_utils import DefaultBoxGenerator
from adjoint.vision.models.detection.backbone_utils import _validate_trainable_layers, trunk
from adjoint.vision.models.detection.faster_rcnn import (
    COCO_CLASSES,
    IMAGENET_MEAN,
    IMAGENET_STD,
    backbone_weights,
)
from adjoint.vision.models.detection.one_stage import (
    Detected,
    Target,
    levels_of,
    matches,
    sizes_of,
    without_doubles,
)
from adjoint.vision.models.detection.rpn import permute_and_flatten
from adjoint.vision.models.detection.transform import GeneralizedRCNNTransform
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops import boxes as box_ops


def _xavier_init(part: nn.Module) -> None:
    for layer in part.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class SSDScoringHead(nn.Module):
    """A layer for each level, and its answers for all boxes below one another.

    Args:
        module_list: the layers.
        num_columns: answers for a box.
    """

    def __init__(self, module_list: nn.ModuleList, num_columns: int) -> None:
        super().__init__()
        self.module_list = module_list
        self.num_columns = num_columns

    def forward(self, x: list[Tensor]) -> Tensor:
        """(B, boxes of all levels, columns)."""
        answers = []
        for layer, level in zip(self.module_list, x, strict=True):
            out = layer(level)
            batch, channels, h, w = (int(n) for n in out.shape)
            columns = self.num_columns
            answers.append(permute_and_flatten(out, batch, channels // columns, columns, h, w))
        return cat(answers, 1)


class SSDClassificationHead(SSDScoringHead):
    """Classes of each default box."""

    def __init__(self, in_channels: list[int], num_anchors: list[int], num_classes: int) -> None:
        pairs = zip(in_channels, num_anchors, strict=True)
        layers = nn.ModuleList([nn.Conv2d(c, num_classes * n, 3, padding=1) for c, n in pairs])
        _xavier_init(layers)
        super().__init__(layers, num_classes)


class SSDRegressionHead(SSDScoringHead):
    """Differences of boxes from each default box."""

    def __init__(self, in_channels: list[int], num_anchors: list[int]) -> None:
        pairs = zip(in_channels, num_anchors, strict=True)
        layers = nn.ModuleList([nn.Conv2d(c, 4 * n, 3, padding=1) for c, n in pairs])
        _xavier_init(layers)
        super().__init__(layers, 4)


class SSDHead(nn.Module):
    """Classes and boxes of each default box.

    Args:
        in_channels: of each level.
        num_anchors: boxes at a place, of each level.
        num_classes: with the background.
    """

    def __init__(self, in_channels: list[int], num_anchors: list[int], num_classes: int) -> None:
        super().__init__()
        self.classification_head = SSDClassificationHead(in_channels, num_anchors, num_classes)
        self.regression_head = SSDRegressionHead(in_channels, num_anchors)

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        """(B, boxes, 4) and (B, boxes, classes)."""
        codes, logits = self.regression_head(x), self.classification_head(x)
        return {"bbox_regression": codes, "cls_logits": logits}


class SSD(nn.Module):
    """Detection in one stage on images of a fixed size.

    Args:
        backbone: makes levels; `backbone.out_channels` lists their channels, if it has it.
        anchor_generator: makes the default boxes.
        size: width and height that images are brought to.
        num_classes: with the background.
        image_mean, image_std: see `GeneralizedRCNNTransform`.
        head: the part that answers.
        score_thresh: detections must be more likely.
        nms_thresh: the overlap from which the worse of two is dropped.
        detections_per_img: at most.
        iou_thresh: the overlap with a true box from which a default box learns it.
        topk_candidates: detections of a class before `nms`.
        positive_fraction: the share of boxes with objects among those that classes learn from.
        kwargs: further options of the transform.
    """

    def __init__(
        self, backbone: Any, anchor_generator: DefaultBoxGenerator, size: tuple[int, int],
        num_classes: int, image_mean: list[float] | None = None,
        image_std: list[float] | None = None, head: nn.Module | None = None,
        score_thresh: float = 0.01, nms_thresh: float = 0.45, detections_per_img: int = 200,
        iou_thresh: float = 0.5, topk_candidates: int = 400, positive_fraction: float = 0.25,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.backbone, self.anchor_generator = backbone, anchor_generator
        self.box_coder = BoxCoder(weights=(10.0, 10.0, 5.0, 5.0))
        self.head: Any = head if head is not None else self._plain_head(size, num_classes)
        self.proposal_matcher = SSDMatcher(iou_thresh)
        self.transform = GeneralizedRCNNTransform(
            min(size), max(size), image_mean or IMAGENET_MEAN, image_std or IMAGENET_STD,
            size_divisible=1, fixed_size=size, **kwargs,
        )  # fmt: skip
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates
        self.neg_to_pos_ratio = (1.0 - positive_fraction) / positive_fraction

    def _plain_head(self, size: tuple[int, int], num_classes: int) -> SSDHead:
        known = getattr(self.backbone, "out_channels", None)
        channels = retrieve_out_channels(self.backbone, size) if known is None else known
        boxes = self.anchor_generator.num_anchors_per_location()
        check_levels(channels, boxes)
        return SSDHead(channels, boxes, num_classes)

    def compute_loss(
        self, targets: list[Target], head_outputs: dict[str, Tensor], anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:  # fmt: skip
        """The losses of boxes, and of classes at objects and at the worst of the background."""
        logits, codes = head_outputs["cls_logits"], head_outputs["bbox_regression"]
        count, box_losses, classes = 0, [], []
        for target, coded, boxes, match in zip(targets, codes, anchors, matched_idxs, strict=True):
            objects = where(match >= 0)[0]
            truth = match[objects]
            count += truth.numel()
            wanted = self.box_coder.encode_single(target["boxes"][truth], boxes[objects])
            box_losses.append(F.smooth_l1_loss(coded[objects], wanted, reduction="sum"))
            labels = target["labels"]
            these = zeros(int(match.shape[0]), dtype=labels.dtype, device=labels.device)
            these[objects] = labels[truth]
            classes.append(these)
        wanted = stack(classes)
        flat = logits.reshape(-1, int(logits.shape[-1]))
        loss = F.cross_entropy(flat, wanted.reshape(-1), reduction="none").reshape(wanted.shape)
        hard = self._hardest(loss, wanted > 0)
        total = loss[wanted > 0].sum() + loss[hard].sum()
        least = max(1, count)
        return {
            "bbox_regression": stack(box_losses).sum() / least,
            "classification": total / least,
        }

    def _hardest(self, loss: Tensor, objects: Tensor) -> Tensor:
        """Of each image, the boxes of the background with the greatest loss, so many per object."""
        most = self.neg_to_pos_ratio * objects.sum(1, keepdim=True)
        background = loss.clone()
        background[objects] = -math.inf
        order = background.sort(1, descending=True)[1]
        return order.sort(1)[1] < most

    def _of_class(self, boxes: Tensor, scores: Tensor, label: int) -> Detected:
        likely = where(scores > self.score_thresh)[0]
        best, order = scores[likely].topk(min(self.topk_candidates, likely.numel()))
        return boxes[likely[order]], best, full_like(order, label)

    def postprocess_detections(
        self, head_outputs: dict[str, Tensor], image_anchors: list[Tensor],
        image_shapes: list[tuple[int, int]],
    ) -> list[Target]:  # fmt: skip
        """Of each image, the boxes, scores and labels of its best detections."""
        detections = []
        scores = head_outputs["cls_logits"].softmax(-1)
        for codes, likely, anchors, shape in zip(
            head_outputs["bbox_regression"], scores, image_anchors, image_shapes, strict=True
        ):
            decoded = self.box_coder.decode_single(codes, anchors)
            boxes = box_ops.clip_boxes_to_image(decoded, shape)
            classes = [
                self._of_class(boxes, likely[:, label], label)
                for label in range(1, int(likely.shape[-1]))
            ]
            detections.append(without_doubles(classes, self.nms_thresh, self.detections_per_img))
        return detections

    def forward(self, images: Sequence[Tensor], targets: list[Target] | None = None) -> Any:
        """Images (C, H, W) -> a dictionary of losses while training, else one for each image."""
        batch, targets, levels = levels_of(self, images, targets)
        answers = self.head(levels)
        anchors = self.anchor_generator(batch, levels)
        if self.training:
            given = targets or []
            match = matches(anchors, given, self.proposal_matcher)
            return self.compute_loss(given, answers, anchors, match)
        detections = self.postprocess_detections(answers, anchors, batch.image_sizes)
        return self.transform.postprocess(detections, batch.image_sizes, sizes_of(images))


def check_levels(channels: Sequence[int], boxes: Sequence[int]) -> None:
    """Refuse a backbone with another number of levels than there are boxes for."""
    if len(channels) != len(boxes):
        raise ValueError(
            f"The length of the output channels from the backbone ({len(channels)}) do not match "
            f"the length of the anchor generator aspect ratios ({len(boxes)})"
        )


def _further(*widths: tuple[int, int, int, dict[str, Any]]) -> list[nn.Module]:
    """Levels on top of others: narrowed, then a convolution that makes them smaller."""
    return [
        nn.Sequential(
            nn.Conv2d(wide, narrow, 1), nn.ReLU(inplace=True),
            nn.Conv2d(narrow, 2 * narrow, kernel, **options), nn.ReLU(inplace=True),
        )
        for wide, narrow, kernel, options in widths
    ]  # fmt: skip


class SSDFeatureExtractorVGG(nn.Module):
    """The levels of a VGG network, its last layers as convolutions, and further ones on top.

    Args:
        backbone: the layers of VGG's `features`.
        highres: one level more, for images of 512.
    """

    def __init__(self, backbone: Any, highres: bool) -> None:
        super().__init__()
        pools = [i for i, layer in enumerate(backbone) if isinstance(layer, nn.MaxPool2d)]
        _, _, third, fourth, _ = pools
        backbone[third].ceil_mode = True  # sizes as in the paper
        self.scale_weight = nn.Parameter(ones(512) * 20)
        self.features = nn.Sequential(*backbone[:fourth])
        halve = {"padding": 1, "stride": 2}
        widths: list[Any] = [(1024, 256, 3, halve), (512, 128, 3, halve)]
        widths += [(256, 128, 3, {}), (256, 128, 3, {})]
        extra = _further(*widths, *([(256, 128, 4, {})] if highres else []))
        last = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1),
            nn.Conv2d(512, 1024, 3, padding=6, dilation=6), nn.ReLU(inplace=True),
            nn.Conv2d(1024, 1024, 1), nn.ReLU(inplace=True),
        )  # fmt: skip
        for part in (*extra, last):
            _xavier_init(part)
        self.extra = nn.ModuleList([nn.Sequential(*backbone[fourth:-1], last), *extra])

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """(B, 3, H, W) -> the levels by number; the first is scaled to a learned length."""
        x = self.features(x)
        levels = [self.scale_weight.reshape(1, -1, 1, 1) * F.normalize(x)]
        for block in self.extra:
            x = block(x)
            levels.append(x)
        return OrderedDict((str(i), level) for i, level in enumerate(levels))


def _vgg_extractor(backbone: Any, highres: bool, trainable_layers: int) -> SSDFeatureExtractorVGG:
    layers = backbone.features
    stages = [0, *(i for i, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d))][:-1]
    freeze_before(layers, stages, trainable_layers)
    return SSDFeatureExtractorVGG(layers, highres)


def freeze_before(layers: Any, stages: list[int], trainable_layers: int) -> None:
    """Let only the last of a backbone's stages train."""
    count = len(stages)
    if not 0 <= trainable_layers <= count:
        raise ValueError(
            f"trainable_layers should be in the range [0, {count}], instead got {trainable_layers}"
        )
    for layer in layers[: stages[count - trainable_layers] if trainable_layers else len(layers)]:
        for parameter in layer.parameters():
            parameter.requires_grad_(False)


def ignore_size(kwargs: dict[str, Any]) -> None:
    """Say that a network's size is fixed, where one is given."""
    if kwargs.pop("size", None) is not None:
        warnings.warn(
            "The size of the model is already fixed; ignoring the parameter.", stacklevel=4
        )


@network
def ssd300_vgg16(
    num_classes: int | None = None, weights_backbone: Any = "IMAGENET1K_FEATURES",
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> SSD:  # fmt: skip
    """SSD on VGG-16, for images of 300 by 300."""
    ignore_size(kwargs)
    if pretrained_backbone is not None:
        weights_backbone, pretrained_backbone = (
            ("IMAGENET1K_FEATURES" if pretrained_backbone else None), None
        )  # fmt: skip
    weights = backbone_weights(weights_backbone, has_weights, None)
    train = _validate_trainable_layers(
        has_weights or weights is not None, trainable_backbone_layers, 5, 4
    )
    backbone = _vgg_extractor(trunk("vgg16", weights), False, train)
    boxes = DefaultBoxGenerator(
        [[2], [2, 3], [2, 3], [2, 3], [2], [2]],
        scales=[0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05],
        steps=[8, 16, 32, 64, 100, 300],
    )
    # The backbone's own scale: pixels from 0 to 255, less their means.
    scale = {"image_mean": [0.48235, 0.45882, 0.40784], "image_std": [1.0 / 255.0] * 3}
    return SSD(backbone, boxes, (300, 300), num_classes or COCO_CLASSES, **{**scale, **kwargs})


__getattr__ = weights_in(__name__)
