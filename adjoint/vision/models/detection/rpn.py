"""Region proposals: where on the levels of a pyramid objects may be (Ren et al., 2015)."""

from __future__ import annotations

from typing import Any

from adjoint import nn
from adjoint.engine.core.dtype import float32
from adjoint.engine.ops.create.creation import full, zeros
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
from adjoint.vision.models.detection.anchor_utils import AnchorGenerator
from adjoint.vision.models.detection.image_list import ImageList
from adjoint.vision.ops import boxes as box_ops
from adjoint.vision.ops.misc import Conv2dNormActivation


class RPNHead(nn.Module):
    """At each place of a level, how likely each anchor holds an object and how it lies off.

    Args:
        in_channels: channels of a level.
        num_anchors: anchors at a place.
        conv_depth: convolutions before.
    """

    _version = 2  # since then convolutions are numbered

    def __init__(self, in_channels: int, num_anchors: int, conv_depth: int = 1) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            *[
                Conv2dNormActivation(in_channels, in_channels, 3, norm_layer=None)
                for _ in range(conv_depth)
            ]
        )
        self.cls_logits = nn.Conv2d(in_channels, num_anchors, 1)
        self.bbox_pred = nn.Conv2d(in_channels, num_anchors * 4, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.normal_(layer.weight, std=0.01)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *others: Any
    ) -> None:
        if (local_metadata.get("version") or 1) < 2:
            for kind in ("weight", "bias"):
                if (old := f"{prefix}conv.{kind}") in state_dict:
                    state_dict[f"{prefix}conv.0.0.{kind}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def forward(self, x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Of each level, (B, anchors, H, W) and (B, anchors * 4, H, W)."""
        seen = [self.conv(level) for level in x]
        return [self.cls_logits(level) for level in seen], [self.bbox_pred(level) for level in seen]


def permute_and_flatten(layer: Tensor, N: int, A: int, C: int, H: int, W: int) -> Tensor:
    """(N, A * C, H, W) -> (N, H * W * A, C)."""
    return layer.reshape(N, A, C, H, W).permute(0, 3, 4, 1, 2).reshape(N, H * W * A, C)


def concat_box_prediction_layers(
    box_cls: list[Tensor], box_regression: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """All levels' answers in the order of the anchors: (N, classes) and (N, 4)."""
    classes, boxes = [], []
    for logits, differences in zip(box_cls, box_regression, strict=True):
        batch, channels, h, w = (int(n) for n in logits.shape)
        anchors = int(differences.shape[1]) // 4
        classes.append(permute_and_flatten(logits, batch, anchors, channels // anchors, h, w))
        boxes.append(permute_and_flatten(differences, batch, anchors, 4, h, w))
    return cat(classes, 1).flatten(0, -2), cat(boxes, 1).reshape(-1, 4)


class RegionProposalNetwork(nn.Module):
    """Boxes that may hold an object, the best of them without much overlap.

    Args:
        anchor_generator: makes the boxes to start from.
        head: `RPNHead`.
        fg_iou_thresh: anchors that overlap a true box so much hold an object.
        bg_iou_thresh: anchors that overlap each true box less hold none.
        batch_size_per_image: anchors drawn for the loss.
        positive_fraction: the share of those with an object.
        pre_nms_top_n: proposals of each level before `nms`, in "training" and "testing".
        post_nms_top_n: proposals after it.
        nms_thresh: the overlap from which the worse of two is dropped.
        score_thresh: proposals less likely are dropped.
    """

    def __init__(
        self, anchor_generator: nn.Module, head: nn.Module, fg_iou_thresh: float,
        bg_iou_thresh: float, batch_size_per_image: int, positive_fraction: float,
        pre_nms_top_n: dict[str, int], post_nms_top_n: dict[str, int], nms_thresh: float,
        score_thresh: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.anchor_generator, self.head = anchor_generator, head
        self.box_coder = BoxCoder(weights=(1.0, 1.0, 1.0, 1.0))
        self.box_similarity = box_ops.box_iou
        self.proposal_matcher = Matcher(fg_iou_thresh, bg_iou_thresh, True)
        self.fg_bg_sampler = BalancedPositiveNegativeSampler(
            batch_size_per_image, positive_fraction
        )
        self._pre_nms_top_n, self._post_nms_top_n = pre_nms_top_n, post_nms_top_n
        self.nms_thresh, self.score_thresh = nms_thresh, score_thresh
        self.min_size = 1e-3

    def pre_nms_top_n(self) -> int:
        """Proposals of each level before `nms`."""
        return self._pre_nms_top_n["training" if self.training else "testing"]

    def post_nms_top_n(self) -> int:
        """Proposals of an image after `nms`."""
        return self._post_nms_top_n["training" if self.training else "testing"]

    def assign_targets_to_anchors(
        self, anchors: list[Tensor], targets: list[dict[str, Tensor]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Of each image, labels (1, 0 or -1 for neither) and the true box of each anchor."""
        labels, matched = [], []
        for boxes, target in zip(anchors, targets, strict=True):
            truth = target["boxes"]
            if truth.numel() == 0:
                labels.append(zeros(int(boxes.shape[0]), dtype=float32, device=boxes.device))
                matched.append(zeros(*boxes.shape, dtype=float32, device=boxes.device))
                continue
            matches = self.proposal_matcher(self.box_similarity(truth, boxes))
            label = (matches >= 0).to(float32)
            labels.append(where(matches == self.proposal_matcher.BETWEEN_THRESHOLDS, -1.0, label))
            matched.append(truth[matches.clamp(min=0)])
        return labels, matched

    def _get_top_n_idx(self, objectness: Tensor, num_anchors_per_level: list[int]) -> Tensor:
        best, before = [], 0
        for level in objectness.split(num_anchors_per_level, 1):
            count = min(self.pre_nms_top_n(), int(level.shape[1]))
            best.append(level.topk(count, dim=1)[1] + before)
            before += int(level.shape[1])
        return cat(best, 1)

    def filter_proposals(
        self, proposals: Tensor, objectness: Tensor, image_shapes: list[tuple[int, int]],
        num_anchors_per_level: list[int],
    ) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
        """The best boxes of each image, and how likely they hold an object."""
        count, device = int(proposals.shape[0]), proposals.device
        objectness = objectness.detach().reshape(count, -1)
        levels = cat(
            [full((n,), level, device=device) for level, n in enumerate(num_anchors_per_level)], 0
        )
        best = self._get_top_n_idx(objectness, num_anchors_per_level)
        images = arange(count, device=device)[:, None]
        likely, of_level, boxes = (
            objectness[images, best].sigmoid(),
            levels[best],
            proposals[images, best],
        )
        final: tuple[list[Tensor], list[Tensor]] = ([], [])
        for box, score, level, shape in zip(boxes, likely, of_level, image_shapes, strict=True):
            box = box_ops.clip_boxes_to_image(box, shape)
            w, h = box[:, 2] - box[:, 0], box[:, 3] - box[:, 1]
            fits = (w >= self.min_size) & (h >= self.min_size) & (score >= self.score_thresh)
            keep = where(fits)[0]
            box, score, level = box[keep], score[keep], level[keep]
            keep = box_ops.batched_nms(box, score, level, self.nms_thresh)[: self.post_nms_top_n()]
            final[0].append(box[keep])
            final[1].append(score[keep])
        return final

    def compute_loss(
        self, objectness: Tensor, pred_bbox_deltas: Tensor, labels: list[Tensor],
        regression_targets: Any,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The losses of objects and of boxes, of anchors drawn at random."""
        drawn = self.fg_bg_sampler(labels)
        positive, negative = (where(cat(masks, 0))[0] for masks in drawn)
        every = cat([positive, negative], 0)
        wanted, boxes = cat(labels, 0), cat(list(regression_targets), 0)
        box_loss = F.smooth_l1_loss(
            pred_bbox_deltas[positive], boxes[positive], beta=1 / 9, reduction="sum"
        )
        object_loss = F.binary_cross_entropy_with_logits(objectness.flatten()[every], wanted[every])
        return object_loss, box_loss / every.numel()

    def forward(
        self, images: ImageList, features: dict[str, Tensor],
        targets: list[dict[str, Tensor]] | None = None,
    ) -> tuple[list[Tensor], dict[str, Tensor]]:  # fmt: skip
        """Proposals (n, 4) of each image; while training also the losses."""
        levels = list(features.values())
        objectness, differences = self.head(levels)
        anchors = self.anchor_generator(images, levels)
        counts = [int(level[0].numel()) for level in objectness]
        objectness, differences = concat_box_prediction_layers(objectness, differences)
        # No gradient flows through the boxes that the second stage looks at.
        proposals = self.box_coder.decode(differences.detach(), anchors)
        proposals = proposals.reshape(len(anchors), -1, 4)
        boxes, _ = self.filter_proposals(proposals, objectness, images.image_sizes, counts)
        if not self.training:
            return boxes, {}
        if targets is None:
            raise ValueError("targets should not be None")
        labels, matched = self.assign_targets_to_anchors(anchors, targets)
        wanted = self.box_coder.encode(matched, anchors)
        object_loss, box_loss = self.compute_loss(objectness, differences, labels, wanted)
        return boxes, {"loss_objectness": object_loss, "loss_rpn_box_reg": box_loss}


__all__ = [
    "AnchorGenerator",
    "RPNHead",
    "RegionProposalNetwork",
    "concat_box_prediction_layers",
    "permute_and_flatten",
]
