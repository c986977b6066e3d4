"""RetinaNet (Lin et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from adjoint import nn
from adjoint.engine.ops.create.creation import zeros_like
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.detection._utils import (
    BoxCoder,
    Matcher,
    _box_loss,
    overwrite_eps,
)
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
    matches,
    sizes_of,
    without_doubles,
)
from adjoint.vision.models.detection.rpn import permute_and_flatten
from adjoint.vision.models.detection.transform import GeneralizedRCNNTransform
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.layers import LastLevelP6P7
from adjoint.vision.ops.losses import sigmoid_focal_loss
from adjoint.vision.ops.misc import Conv2dNormActivation

Norm = Callable[..., nn.Module]


def _default_anchorgen() -> AnchorGenerator:
    sizes = tuple(
        (side, int(side * 2 ** (1.0 / 3)), int(side * 2 ** (2.0 / 3)))
        for side in (32, 64, 128, 256, 512)
    )
    return AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))


class _Head(nn.Module):
    """Four convolutions, and one that answers for each anchor."""

    _version = 2  # since then convolutions are numbered one by one

    def __init__(self, in_channels: int, norm_layer: Norm | None) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            *[
                Conv2dNormActivation(in_channels, in_channels, norm_layer=norm_layer)
                for _ in range(4)
            ]
        )
        for layer in self.conv.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.normal_(layer.weight, std=0.01)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *others: Any
    ) -> None:
        if (local_metadata.get("version") or 1) < 2:
            for number in range(4):
                for kind in ("weight", "bias"):
                    if (old := f"{prefix}conv.{2 * number}.{kind}") in state_dict:
                        state_dict[f"{prefix}conv.{number}.0.{kind}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def _answers(self, x: list[Tensor], last: nn.Module, values: int) -> Tensor:
        """(B, anchors of all levels, values)."""
        answers = []
        for level in x:
            out = last(self.conv(level))
            batch, channels, h, w = (int(n) for n in out.shape)
            answers.append(permute_and_flatten(out, batch, channels // values, values, h, w))
        return cat(answers, 1)


class RetinaNetClassificationHead(_Head):
    """Classes of each anchor.

    Args:
        in_channels: of the levels.
        num_anchors: at a place.
        num_classes: with the background.
        prior_probability: of each class at the start.
        norm_layer: makes normalisations; None for none.
    """

    def __init__(
        self, in_channels: int, num_anchors: int, num_classes: int,
        prior_probability: float = 0.01, norm_layer: Norm | None = None,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, norm_layer)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, 3, padding=1)
        nn.init.normal_(self.cls_logits.weight, std=0.01)
        if self.cls_logits.bias is not None:
            start = -math.log((1 - prior_probability) / prior_probability)
            nn.init.constant_(self.cls_logits.bias, start)
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.BETWEEN_THRESHOLDS = Matcher.BETWEEN_THRESHOLDS

    def compute_loss(
        self, targets: list[Target], head_outputs: dict[str, Tensor], matched_idxs: list[Tensor]
    ) -> Tensor:
        """Focal loss of all anchors that count, by the number of those with an object."""
        losses: Any = 0.0
        for target, logits, matched in zip(
            targets, head_outputs["cls_logits"], matched_idxs, strict=True
        ):
            objects = where(matched >= 0)[0]
            wanted = zeros_like(logits)
            wanted[objects, target["labels"][matched[objects]]] = 1.0
            counts = where(matched != self.BETWEEN_THRESHOLDS)[0]
            loss = sigmoid_focal_loss(logits[counts], wanted[counts], reduction="sum")
            losses = losses + loss / max(1, objects.numel())
        return losses / len(targets)

    def forward(self, x: list[Tensor]) -> Tensor:
        """(B, anchors, classes)."""
        return self._answers(x, self.cls_logits, self.num_classes)


class RetinaNetRegressionHead(_Head):
    """Differences of boxes from each anchor.

    Args:
        in_channels: of the levels.
        num_anchors: at a place.
        norm_layer: makes normalisations; None for none.
    """

    def __init__(self, in_channels: int, num_anchors: int, norm_layer: Norm | None = None) -> None:
        super().__init__(in_channels, norm_layer)
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, 3, padding=1)
        nn.init.normal_(self.bbox_reg.weight, std=0.01)
        if self.bbox_reg.bias is not None:
            nn.init.zeros_(self.bbox_reg.bias)
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self._loss_type = "l1"

    def compute_loss(
        self, targets: list[Target], head_outputs: dict[str, Tensor], anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> Tensor:  # fmt: skip
        """The loss of anchors with an object."""
        losses: Any = 0.0
        for target, codes, boxes, matched in zip(
            targets, head_outputs["bbox_regression"], anchors, matched_idxs, strict=True
        ):
            objects = where(matched >= 0)[0]
            truth = target["boxes"][matched[objects]]
            loss = _box_loss(self._loss_type, self.box_coder, boxes[objects], truth, codes[objects])
            losses = losses + loss / max(1, objects.numel())
        return losses / max(1, len(targets))

    def forward(self, x: list[Tensor]) -> Tensor:
        """(B, anchors, 4)."""
        return self._answers(x, self.bbox_reg, 4)


class RetinaNetHead(nn.Module):
    """Classes and boxes of each anchor.

    Args:
        in_channels: of the levels.
        num_anchors: at a place.
        num_classes: with the background.
        norm_layer: makes normalisations; None for none.
    """

    def __init__(
        self, in_channels: int, num_anchors: int, num_classes: int, norm_layer: Norm | None = None
    ) -> None:
        super().__init__()
        self.classification_head = RetinaNetClassificationHead(
            in_channels, num_anchors, num_classes, norm_layer=norm_layer
        )
        self.regression_head = RetinaNetRegressionHead(in_channels, num_anchors, norm_layer)

    def compute_loss(
        self, targets: list[Target], head_outputs: dict[str, Tensor], anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:  # fmt: skip
        """The losses of classes and of boxes."""
        classes, boxes = self.classification_head, self.regression_head
        return {
            "classification": classes.compute_loss(targets, head_outputs, matched_idxs),
            "bbox_regression": boxes.compute_loss(targets, head_outputs, anchors, matched_idxs),
        }

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        """(B, anchors, classes) and (B, anchors, 4)."""
        return {
            "cls_logits": self.classification_head(x),
            "bbox_regression": self.regression_head(x),
        }


class RetinaNet(nn.Module):
    """Detection in one stage.

    Args:
        backbone: makes levels of `backbone.out_channels` channels.
        num_classes: with the background.
        min_size, max_size, image_mean, image_std: see `GeneralizedRCNNTransform`.
        anchor_generator, head, proposal_matcher: the parts.
        score_thresh: detections must be more likely.
        nms_thresh: the overlap from which the worse of two is dropped.
        detections_per_img: at most.
        fg_iou_thresh, bg_iou_thresh: of the matcher.
        topk_candidates: detections of a level before `nms`.
        kwargs: further options of the transform.
    """

    def __init__(
        self, backbone: Any, num_classes: int, min_size: Any = 800, max_size: int = 1333,
        image_mean: list[float] | None = None, image_std: list[float] | None = None,
        anchor_generator: AnchorGenerator | None = None, head: nn.Module | None = None,
        proposal_matcher: Matcher | None = None, score_thresh: float = 0.05,
        nms_thresh: float = 0.5, detections_per_img: int = 300, fg_iou_thresh: float = 0.5,
        bg_iou_thresh: float = 0.4, topk_candidates: int = 1000, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        width = backbone_width(backbone)
        check_kind("anchor_generator", anchor_generator, AnchorGenerator)
        self.backbone = backbone
        anchors = anchor_generator or _default_anchorgen()
        self.anchor_generator = anchors
        if head is None:
            head = RetinaNetHead(width, anchors.num_anchors_per_location()[0], num_classes)
        self.head: Any = head
        self.proposal_matcher = proposal_matcher or Matcher(fg_iou_thresh, bg_iou_thresh, True)
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self.transform = GeneralizedRCNNTransform(
            min_size, max_size, image_mean or IMAGENET_MEAN, image_std or IMAGENET_STD, **kwargs
        )
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates

    def compute_loss(
        self, targets: list[Target], head_outputs: dict[str, Tensor], anchors: list[Tensor]
    ) -> dict[str, Tensor]:
        """The losses, each anchor matched to the truth."""
        matched = matches(anchors, targets, self.proposal_matcher)
        return self.head.compute_loss(targets, head_outputs, anchors, matched)

    def postprocess_detections(
        self, head_outputs: dict[str, list[Tensor]], anchors: list[list[Tensor]],
        image_shapes: list[tuple[int, int]],
    ) -> list[Target]:  # fmt: skip
        """Of each image, the boxes, scores and labels of its best detections."""
        detections = []
        for number, shape in enumerate(image_shapes):
            levels = [
                best_of_level(
                    logits[number].sigmoid(), codes[number], boxes, self.box_coder.decode_single,
                    shape, self.score_thresh, self.topk_candidates,
                )
                for logits, codes, boxes in zip(
                    head_outputs["cls_logits"], head_outputs["bbox_regression"], anchors[number],
                    strict=True,
                )
            ]  # fmt: skip
            detections.append(without_doubles(levels, self.nms_thresh, self.detections_per_img))
        return detections

    def forward(self, images: Sequence[Tensor], targets: list[Target] | None = None) -> Any:
        """Images (C, H, W) -> a dictionary of losses while training, else one for each image."""
        batch, targets, levels = levels_of(self, images, targets)
        answers = self.head(levels)
        anchors = self.anchor_generator(batch, levels)
        if self.training:
            return self.compute_loss(targets or [], answers, anchors)
        places = [int(level.shape[2] * level.shape[3]) for level in levels]
        at_place = int(answers["cls_logits"].shape[1]) // sum(places)
        counts = [count * at_place for count in places]
        parts = {name: list(answer.split(counts, 1)) for name, answer in answers.items()}
        detections = self.postprocess_detections(
            parts, [list(boxes.split(counts, 0)) for boxes in anchors], batch.image_sizes
        )
        return self.transform.postprocess(detections, batch.image_sizes, sizes_of(images))


@network
def retinanet_resnet50_fpn(
    num_classes: int | None = None, weights_backbone: Any = "IMAGENET1K_V1",
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> RetinaNet:  # fmt: skip
    """RetinaNet on ResNet-50 with a pyramid."""
    backbone = resnet50_pyramid(
        weights_backbone, has_weights, trainable_backbone_layers, pretrained_backbone,
        returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256),
    )  # fmt: skip
    model = RetinaNet(backbone, num_classes or COCO_CLASSES, **kwargs)
    if has_weights:
        overwrite_eps(model, 0.0)
    return model


@network
def retinanet_resnet50_fpn_v2(
    num_classes: int | None = None, weights_backbone: Any = None,
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> RetinaNet:  # fmt: skip
    """RetinaNet on ResNet-50 with a pyramid, the second version."""
    backbone = resnet50_pyramid(
        weights_backbone, has_weights, trainable_backbone_layers, pretrained_backbone,
        frozen=False, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(2048, 256),
    )  # fmt: skip
    classes, anchors = num_classes or COCO_CLASSES, _default_anchorgen()
    head = RetinaNetHead(
        backbone.out_channels, anchors.num_anchors_per_location()[0], classes,
        norm_layer=partial(nn.GroupNorm, 32),
    )  # fmt: skip
    head.regression_head._loss_type = "giou"
    return RetinaNet(backbone, classes, **{"anchor_generator": anchors, "head": head, **kwargs})


__getattr__ = weights_in(__name__)
