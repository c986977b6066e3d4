"""The second stage: what proposals show, where exactly, and with which mask or points."""

from __future__ import annotations

from typing import Any

from adjoint import nn
from adjoint.engine.core.dtype import float16, float32, float64, int64
from adjoint.engine.core.errors import DTypeTypeError
from adjoint.engine.ops.create.creation import zeros
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.detection._utils import (
    BalancedPositiveNegativeSampler,
    BoxCoder,
    Matcher,
)
from adjoint.vision.models.detection.keypoints import heatmaps_to_keypoints as heatmaps_to_keypoints
from adjoint.vision.models.detection.keypoints import (
    keypointrcnn_inference as keypointrcnn_inference,
)
from adjoint.vision.models.detection.keypoints import keypointrcnn_loss as keypointrcnn_loss
from adjoint.vision.models.detection.keypoints import keypoints_to_heatmap as keypoints_to_heatmap
from adjoint.vision.models.detection.masks import expand_boxes as expand_boxes
from adjoint.vision.models.detection.masks import maskrcnn_inference as maskrcnn_inference
from adjoint.vision.models.detection.masks import maskrcnn_loss as maskrcnn_loss
from adjoint.vision.models.detection.masks import paste_mask_in_image as paste_mask_in_image
from adjoint.vision.models.detection.masks import paste_masks_in_image as paste_masks_in_image
from adjoint.vision.models.detection.masks import project_masks_on_boxes as project_masks_on_boxes
from adjoint.vision.ops import boxes as box_ops

Target = dict[str, Any]


def fastrcnn_loss(
    class_logits: Tensor, box_regression: Tensor, labels: list[Tensor], regression_targets: Any
) -> tuple[Tensor, Tensor]:
    """The losses of classes, and of boxes by the true class's differences."""
    every, wanted = cat(labels, 0), cat(list(regression_targets), 0)
    class_loss = F.cross_entropy(class_logits, every)
    objects = where(every > 0)[0]
    count = int(class_logits.shape[0])
    boxes = box_regression.reshape(count, int(box_regression.shape[-1]) // 4, 4)
    box_loss = F.smooth_l1_loss(
        boxes[objects, every[objects]], wanted[objects], beta=1 / 9, reduction="sum"
    )
    return class_loss, box_loss / every.numel()


class RoIHeads(nn.Module):
    """Classify proposals, mend their boxes, and find masks or points in them.

    Args:
        box_roi_pool, box_head, box_predictor: features of each box, and what they say.
        fg_iou_thresh: proposals that overlap a true box so much show its object.
        bg_iou_thresh: proposals that overlap each true box less show none.
        batch_size_per_image: proposals drawn for the loss.
        positive_fraction: the share of those with an object.
        bbox_reg_weights: of `BoxCoder`.
        score_thresh: detections must be more likely.
        nms_thresh: the overlap from which the worse of two is dropped.
        detections_per_img: at most.
        mask_roi_pool, mask_head, mask_predictor: the same for masks, or None.
        keypoint_roi_pool, keypoint_head, keypoint_predictor: the same for points, or None.
    """

    def __init__(
        self, box_roi_pool: nn.Module, box_head: nn.Module, box_predictor: nn.Module,
        fg_iou_thresh: float, bg_iou_thresh: float, batch_size_per_image: int,
        positive_fraction: float, bbox_reg_weights: tuple[float, float, float, float] | None,
        score_thresh: float, nms_thresh: float, detections_per_img: int,
        mask_roi_pool: nn.Module | None = None, mask_head: nn.Module | None = None,
        mask_predictor: nn.Module | None = None, keypoint_roi_pool: nn.Module | None = None,
        keypoint_head: nn.Module | None = None, keypoint_predictor: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.box_similarity = box_ops.box_iou
        self.proposal_matcher = Matcher(fg_iou_thresh, bg_iou_thresh, False)
        self.fg_bg_sampler = BalancedPositiveNegativeSampler(
            batch_size_per_image, positive_fraction
        )
        self.box_coder = BoxCoder(bbox_reg_weights or (10.0, 10.0, 5.0, 5.0))
        self.box_roi_pool, self.box_head, self.box_predictor = box_roi_pool, box_head, box_predictor
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img = detections_per_img
        self.mask_roi_pool, self.mask_head = mask_roi_pool, mask_head
        self.mask_predictor = mask_predictor
        self.keypoint_roi_pool, self.keypoint_head = keypoint_roi_pool, keypoint_head
        self.keypoint_predictor = keypoint_predictor

    def _has(self, kind: str) -> bool:
        parts = ("roi_pool", "head", "predictor")
        return all(getattr(self, f"{kind}_{part}") is not None for part in parts)

    def has_mask(self) -> bool:
        """Whether masks are found."""
        return self._has("mask")

    def has_keypoint(self) -> bool:
        """Whether points are found."""
        return self._has("keypoint")

    def assign_targets_to_proposals(
        self, proposals: list[Tensor], gt_boxes: list[Tensor], gt_labels: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Of each image, the number of each proposal's true box, and its label."""
        matched, labels = [], []
        for boxes, truth, classes in zip(proposals, gt_boxes, gt_labels, strict=True):
            if truth.numel() == 0:
                nothing = zeros(int(boxes.shape[0]), dtype=int64, device=boxes.device)
                matched.append(nothing)
                labels.append(nothing)
                continue
            matches = self.proposal_matcher(self.box_similarity(truth, boxes))
            which = matches.clamp(min=0)
            label = where(matches == Matcher.BELOW_LOW_THRESHOLD, 0, classes[which].to(int64))
            label = where(matches == Matcher.BETWEEN_THRESHOLDS, -1, label)
            matched.append(which)
            labels.append(label.to(int64))
        return matched, labels

    def subsample(self, labels: list[Tensor]) -> list[Tensor]:
        """The numbers of proposals drawn at random, of each image."""
        drawn = zip(*self.fg_bg_sampler(labels), strict=True)
        return [where(positive | negative)[0] for positive, negative in drawn]

    def add_gt_proposals(self, proposals: list[Tensor], gt_boxes: list[Tensor]) -> list[Tensor]:
        """Proposals with the true boxes among them."""
        return [cat(pair, 0) for pair in zip(proposals, gt_boxes, strict=True)]

    def check_targets(self, targets: list[Target] | None) -> None:
        """Refuse targets that lack something to train on."""
        if targets is None:
            raise ValueError("targets should not be None")
        for key in ("boxes", "labels", "masks") if self.has_mask() else ("boxes", "labels"):
            if not all(key in target for target in targets):
                raise ValueError(f"Every element of targets should have a {key} key")

    def select_training_samples(
        self, proposals: list[Tensor], targets: list[Target] | None
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor], Any]:
        """Proposals drawn, their true boxes' numbers, their labels and differences."""
        self.check_targets(targets)
        dtype, device = proposals[0].dtype, proposals[0].device
        truth = [target["boxes"].to(dtype) for target in targets or []]
        classes = [target["labels"] for target in targets or []]
        proposals = self.add_gt_proposals(proposals, truth)
        matched, labels = self.assign_targets_to_proposals(proposals, truth, classes)
        drawn = self.subsample(labels)
        proposals, matched, labels = (
            [values[chosen] for values, chosen in zip(all_of, drawn, strict=True)]
            for all_of in (proposals, matched, labels)
        )
        nothing = zeros(1, 4, dtype=dtype, device=device)
        wanted = [
            (boxes if boxes.numel() else nothing)[which]
            for boxes, which in zip(truth, matched, strict=True)
        ]
        return proposals, matched, labels, self.box_coder.encode(wanted, proposals)

    def postprocess_detections(
        self, class_logits: Tensor, box_regression: Tensor, proposals: list[Tensor],
        image_shapes: list[tuple[int, int]],
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:  # fmt: skip
        """Of each image, the boxes, scores and labels of its best detections."""
        counts = [int(boxes.shape[0]) for boxes in proposals]
        decoded = self.box_coder.decode(box_regression, proposals).split(counts, 0)
        likely = F.softmax(class_logits, -1).split(counts, 0)
        classes = arange(int(class_logits.shape[-1]), device=class_logits.device)
        final: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        for box, score, shape in zip(decoded, likely, image_shapes, strict=True):
            label = classes.expand_as(score)[:, 1:].reshape(-1)  # class 0 is the background
            box = box_ops.clip_boxes_to_image(box, shape)[:, 1:].reshape(-1, 4)
            score = score[:, 1:].reshape(-1)
            keep = where(score > self.score_thresh)[0]
            box, score, label = box[keep], score[keep], label[keep]
            keep = box_ops.remove_small_boxes(box, min_size=1e-2)
            box, score, label = box[keep], score[keep], label[keep]
            keep = box_ops.batched_nms(box, score, label, self.nms_thresh)
            keep = keep[: self.detections_per_img]
            for column, values in zip(final, (box, score, label), strict=True):
                column.append(values[keep])
        return final

    def _check_types(self, targets: list[Target] | None) -> None:
        for target in targets or []:
            if target["boxes"].dtype not in (float16, float32, float64):
                raise DTypeTypeError(
                    f"target boxes must of float type, instead got {target['boxes'].dtype}"
                )
            if target["labels"].dtype != int64:
                raise DTypeTypeError(
                    f"target labels must of int64 type, instead got {target['labels'].dtype}"
                )
            if self.has_keypoint() and target["keypoints"].dtype != float32:
                raise DTypeTypeError(
                    f"target keypoints must of float type, instead got {target['keypoints'].dtype}"
                )

    def _look(
        self, kind: str, features: dict[str, Tensor], boxes: list[Tensor],
        image_shapes: list[tuple[int, int]],
    ) -> Any:  # fmt: skip
        """What the predictor of a kind says of boxes."""
        pool, head, predictor = (
            getattr(self, f"{kind}_{part}") for part in ("roi_pool", "head", "predictor")
        )
        return predictor(head(pool(features, boxes, image_shapes)))

    def forward(
        self, features: dict[str, Tensor], proposals: list[Tensor],
        image_shapes: list[tuple[int, int]], targets: list[Target] | None = None,
    ) -> tuple[list[Target], dict[str, Tensor]]:  # fmt: skip
        """Detections of each image; while training the losses instead."""
        self._check_types(targets)
        if self.training:
            return [], self._losses(features, proposals, image_shapes, targets)
        logits, differences = self._look("box", features, proposals, image_shapes)
        detections = self.postprocess_detections(logits, differences, proposals, image_shapes)
        result: list[Target] = [
            {"boxes": box, "labels": label, "scores": score}
            for box, score, label in zip(*detections, strict=True)
        ]
        if self.has_mask():
            masks = self._look("mask", features, detections[0], image_shapes)
            for detection, mask in zip(
                result, maskrcnn_inference(masks, detections[2]), strict=True
            ):
                detection["masks"] = mask
        if self.has_keypoint():
            maps = self._look("keypoint", features, detections[0], image_shapes)
            answers = zip(result, *keypointrcnn_inference(maps, detections[0]), strict=True)
            for detection, points, scores in answers:
                detection["keypoints"], detection["keypoints_scores"] = points, scores
        return result, {}

    def _losses(
        self, features: dict[str, Tensor], proposals: list[Tensor],
        image_shapes: list[tuple[int, int]], targets: list[Target] | None,
    ) -> dict[str, Tensor]:  # fmt: skip
        boxes, matched, labels, wanted = self.select_training_samples(proposals, targets)
        logits, differences = self._look("box", features, boxes, image_shapes)
        class_loss, box_loss = fastrcnn_loss(logits, differences, labels, wanted)
        losses = {"loss_classifier": class_loss, "loss_box_reg": box_loss}
        if not (self.has_mask() or self.has_keypoint()):
            return losses
        objects = [where(label > 0)[0] for label in labels]
        boxes = [box[chosen] for box, chosen in zip(boxes, objects, strict=True)]
        matched = [which[chosen] for which, chosen in zip(matched, objects, strict=True)]
        truth = targets or []
        if self.has_mask():
            masks = self._look("mask", features, boxes, image_shapes)
            losses["loss_mask"] = maskrcnn_loss(
                masks, boxes, [target["masks"] for target in truth],
                [target["labels"] for target in truth], matched,
            )  # fmt: skip
        if self.has_keypoint():
            maps = self._look("keypoint", features, boxes, image_shapes)
            losses["loss_keypoint"] = keypointrcnn_loss(
                maps, boxes, [target["keypoints"] for target in truth], matched
            )
        return losses
