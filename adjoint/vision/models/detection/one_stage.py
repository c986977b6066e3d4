"""What networks that detect in one stage share: images to levels, levels to detections."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.ops.create.creation import full
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.detection._utils import Matcher, check_targets, refuse_degenerate
from adjoint.vision.models.detection.image_list import ImageList
from adjoint.vision.ops import boxes as box_ops

Target = dict[str, Any]
Detected = tuple[Tensor, Tensor, Tensor]  # boxes, scores, labels


def levels_of(
    model: Any, images: Sequence[Tensor], targets: list[Target] | None
) -> tuple[ImageList, list[Target] | None, list[Tensor]]:
    """The images as a batch, the targets at its scale, and the levels of the backbone."""
    if model.training:
        check_targets(targets)
    batch, targets = model.transform(images, targets)
    refuse_degenerate(targets)
    features = model.backbone(batch.tensors)
    if isinstance(features, Tensor):
        features = OrderedDict([("0", features)])
    return batch, targets, list(features.values())


def sizes_of(images: Sequence[Tensor]) -> list[tuple[int, int]]:
    """Height and width of each image."""
    return [(int(image.shape[-2]), int(image.shape[-1])) for image in images]


def matches(anchors: list[Tensor], targets: list[Target], matcher: Matcher) -> list[Tensor]:
    """Of each image, the true box that each anchor is matched to; -1 for none."""
    matched = []
    for boxes, target in zip(anchors, targets, strict=True):
        if target["boxes"].numel() == 0:
            matched.append(full((int(boxes.shape[0]),), -1, dtype=int64, device=boxes.device))
        else:
            matched.append(matcher(box_ops.box_iou(target["boxes"], boxes)))
    return matched


def best_of_level(
    scores: Tensor, codes: Tensor, anchors: Tensor, decode: Callable[[Tensor, Tensor], Tensor],
    shape: tuple[int, int], score_thresh: float, topk_candidates: int,
) -> Detected:  # fmt: skip
    """The best boxes of one level, whose scores are (anchors, classes)."""
    classes = int(scores.shape[-1])
    flat = scores.flatten()
    likely = where(flat > score_thresh)[0]
    flat, order = flat[likely].topk(min(topk_candidates, likely.numel()))
    likely = likely[order]
    which = likely // classes
    boxes = decode(codes[which], anchors[which])
    return box_ops.clip_boxes_to_image(boxes, shape), flat, likely % classes


def without_doubles(parts: Sequence[Detected], nms_thresh: float, most: int) -> Target:
    """The best of an image's detections, the worse of two that overlap left out."""
    boxes, scores, labels = (cat(list(part), 0) for part in zip(*parts, strict=True))
    keep = box_ops.batched_nms(boxes, scores, labels, nms_thresh)[:most]
    return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}
