"""What detection networks share: coding boxes, matching them to the truth, drawing samples."""

from __future__ import annotations

import math
from typing import Any

from adjoint import nn
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import uint8
from adjoint.engine.ops.create.creation import zeros, zeros_like
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.random.random import randperm
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.ops.boxes import (
    complete_box_iou_loss,
    distance_box_iou_loss,
    generalized_box_iou_loss,
)
from adjoint.vision.ops.misc import FrozenBatchNorm2d

# Corners whose sides would be more than 62.5 times an anchor's are cut off there.
LARGEST_LOGARITHM = math.log(1000.0 / 16)


class BalancedPositiveNegativeSampler:
    """Draw so many elements of each image, a share of them positive if there are enough.

    Args:
        batch_size_per_image: elements drawn.
        positive_fraction: the share of positive ones, at most.
    """

    def __init__(self, batch_size_per_image: int, positive_fraction: float) -> None:
        self.batch_size_per_image = batch_size_per_image
        self.positive_fraction = positive_fraction

    def __call__(self, matched_idxs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Labels (1 and up, 0, or -1 to leave out) -> masks of those drawn, of both kinds."""
        drawn: tuple[list[Tensor], list[Tensor]] = ([], [])
        for labels in matched_idxs:
            positive, negative = where(labels >= 1)[0], where(labels == 0)[0]
            wanted = int(self.batch_size_per_image * self.positive_fraction)
            first = min(positive.numel(), wanted)
            second = min(negative.numel(), self.batch_size_per_image - first)
            for among, count, masks in (
                (positive, first, drawn[0]),
                (negative, second, drawn[1]),
            ):
                order = randperm(among.numel(), device=among.device)[:count]
                mask = zeros_like(labels, dtype=uint8)
                mask[among[order]] = 1
                masks.append(mask)
        return drawn


def _middles(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Width, height and middle of boxes (N, 4)."""
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return w, h, boxes[:, 0] + 0.5 * w, boxes[:, 1] + 0.5 * h


class BoxCoder:
    """Boxes as differences from others: of middles by sides, and logarithms of sides' ratios.

    Args:
        weights: factors of the four differences.
        bbox_xform_clip: the greatest logarithm that is decoded.

    Example:
        >>> import adjoint as ad
        >>> coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
        >>> coder.encode_single(ad.tensor([[1.0, 0, 3, 2]]), ad.tensor([[0.0, 0, 2, 2]]))
        tensor([[0.5000, 0.0000, 0.0000, 0.0000]])
    """

    def __init__(
        self, weights: tuple[float, float, float, float], bbox_xform_clip: float = LARGEST_LOGARITHM
    ) -> None:
        self.weights = weights
        self.bbox_xform_clip = bbox_xform_clip

    def encode(self, reference_boxes: list[Tensor], proposals: list[Tensor]) -> Any:
        """Of each image, the differences of its reference boxes from its proposals."""
        counts = [int(boxes.shape[0]) for boxes in reference_boxes]
        return self.encode_single(cat(reference_boxes, 0), cat(proposals, 0)).split(counts, 0)

    def encode_single(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        """The differences of reference boxes from proposals: (N, 4)."""
        w, h, x, y = _middles(proposals)
        to_w, to_h, to_x, to_y = _middles(reference_boxes)
        weigh_x, weigh_y, weigh_w, weigh_h = self.weights
        return stack(
            [
                weigh_x * (to_x - x) / w, weigh_y * (to_y - y) / h,
                weigh_w * (to_w / w).log(), weigh_h * (to_h / h).log(),
            ],
            1,
        )  # fmt: skip

    def decode(self, rel_codes: Tensor, boxes: list[Tensor]) -> Tensor:
        """Boxes (N, classes, 4) that differ so from the boxes of several images."""
        if not isinstance(boxes, (list, tuple)):
            raise AssertionError("This function expects boxes of type list or tuple.")
        every = cat(list(boxes), 0)
        count = int(every.shape[0])
        codes = rel_codes.reshape(count, rel_codes.numel() // count) if count else rel_codes
        return self.decode_single(codes, every).reshape(count, int(codes.shape[-1]) // 4, 4)

    def decode_single(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        """Boxes (N, classes * 4) that differ so from boxes (N, 4)."""
        w, h, x, y = (column[:, None] for column in _middles(boxes.to(rel_codes.dtype)))
        by_x, by_y, by_w, by_h = (rel_codes[:, i::4] / self.weights[i] for i in range(4))
        middle_x, middle_y = by_x * w + x, by_y * h + y
        half_w = 0.5 * (by_w.clamp(max=self.bbox_xform_clip).exp() * w)
        half_h = 0.5 * (by_h.clamp(max=self.bbox_xform_clip).exp() * h)
        corners = (middle_x - half_w, middle_y - half_h, middle_x + half_w, middle_y + half_h)
        return stack(corners, 2).flatten(1)


class BoxLinearCoder:
    """Boxes as the distances of their four sides from the middles of others.

    Args:
        normalize_by_size: distances in sides of the other box, not in pixels.

    Example:
        >>> import adjoint as ad
        >>> coder = BoxLinearCoder()
        >>> coder.encode(ad.tensor([[0.0, 0, 2, 2]]), ad.tensor([[0.0, 0, 4, 2]]))
        tensor([[0.5000, 0.5000, 1.5000, 0.5000]])
    """

    def __init__(self, normalize_by_size: bool = True) -> None:
        self.normalize_by_size = normalize_by_size

    def _frame(self, boxes: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Middles of boxes (..., 4), and their sides in the order of the distances."""
        x0, y0, x1, y1 = (boxes[..., i] for i in range(4))
        sides = stack([x1 - x0, y1 - y0] * 2, -1) if self.normalize_by_size else None
        return 0.5 * (x0 + x1), 0.5 * (y0 + y1), sides

    def encode(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        """Left, upper, right and lower distances of proposals from the middles."""
        x, y, sides = self._frame(reference_boxes)
        x0, y0, x1, y1 = (proposals[..., i] for i in range(4))
        distances = stack([x - x0, y - y0, x1 - x, y1 - y], -1)
        return distances if sides is None else distances / sides

    def decode(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        """The boxes at these distances."""
        x, y, sides = self._frame(boxes.to(rel_codes.dtype))
        codes = rel_codes if sides is None else rel_codes * sides
        left, up, right, down = (codes[..., i] for i in range(4))
        return stack([x - left, y - up, x + right, y + down], -1)


class Matcher:
    """Give each prediction the true element it fits best, if it fits well enough.

    Args:
        high_threshold: the least quality of a match.
        low_threshold: below this a prediction is background; between, it does not count.
        allow_low_quality_matches: each true element also keeps the predictions that fit it best.

    Example:
        >>> import adjoint as ad
        >>> Matcher(0.7, 0.3)(ad.tensor([[0.8, 0.5, 0.1]]))
        tensor([ 0, -2, -1])
    """

    BELOW_LOW_THRESHOLD = -1
    BETWEEN_THRESHOLDS = -2

    def __init__(
        self, high_threshold: float, low_threshold: float, allow_low_quality_matches: bool = False
    ) -> None:
        if low_threshold > high_threshold:
            raise AssertionError("low_threshold should be <= high_threshold")
        self.high_threshold, self.low_threshold = high_threshold, low_threshold
        self.allow_low_quality_matches = allow_low_quality_matches

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        """(true, predictions) -> the number of the true element, or one of the two above."""
        if match_quality_matrix.numel() == 0:
            lacking = "ground-truth" if match_quality_matrix.shape[0] == 0 else "proposal"
            raise ValueError(f"No {lacking} boxes available for one of the images during training")
        quality, best = match_quality_matrix.max(dim=0)
        matches = where(quality < self.high_threshold, self.BETWEEN_THRESHOLDS, best)
        matches = where(quality < self.low_threshold, self.BELOW_LOW_THRESHOLD, matches)
        if self.allow_low_quality_matches:
            highest = match_quality_matrix.max(dim=1)[0]
            is_best = (match_quality_matrix == highest[:, None]).any(0)
            matches = where(is_best, best, matches)
        return matches.to(best.dtype)


class SSDMatcher(Matcher):
    """A matcher where each true element keeps the one prediction that fits it best.

    Args:
        threshold: the least quality of any other match.
    """

    def __init__(self, threshold: float) -> None:
        super().__init__(threshold, threshold, allow_low_quality_matches=False)

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        """(true, predictions) -> the number of the true element, or -1."""
        matches = super().__call__(match_quality_matrix)
        best = match_quality_matrix.max(dim=1)[1]
        matches[best] = arange(int(best.shape[0]), dtype=matches.dtype, device=matches.device)
        return matches


def retrieve_out_channels(model: nn.Module, size: tuple[int, int]) -> list[int]:
    """The channels of each level that a backbone makes of images of a width and height."""
    training = model.training
    model.eval()
    with no_grad():
        where_it_is = next(iter(model.parameters())).device
        features: Any = model(zeros(1, 3, size[1], size[0], device=where_it_is))
    model.train(training)
    levels = [features] if isinstance(features, Tensor) else features.values()
    return [int(level.shape[1]) for level in levels]


def overwrite_eps(model: nn.Module, eps: float) -> None:
    """Set `eps` of every `FrozenBatchNorm2d`; the first published weights were made without."""
    for module in model.modules():
        if isinstance(module, FrozenBatchNorm2d):
            module.eps = eps


def _box_loss(
    type: str, box_coder: BoxCoder, anchors: Tensor, truth: Tensor, codes: Tensor,
    cnf: dict[str, float] | None = None,
) -> Tensor:  # fmt: skip
    """The summed loss of coded boxes, by the differences or by the overlap."""
    options = cnf or {}
    if type == "l1":
        return F.l1_loss(codes, box_coder.encode_single(truth, anchors), reduction="sum")
    if type == "smooth_l1":
        wanted = box_coder.encode_single(truth, anchors)
        return F.smooth_l1_loss(codes, wanted, reduction="sum", beta=options.get("beta", 1.0))
    overlaps = {
        "ciou": complete_box_iou_loss,
        "diou": distance_box_iou_loss,
        "giou": generalized_box_iou_loss,
    }
    if type not in overlaps:
        raise AssertionError(f"Unsupported loss: {type}")
    boxes = box_coder.decode_single(codes, anchors)
    return overlaps[type](boxes, truth, reduction="sum", eps=options.get("eps", 1e-7))


def check_targets(targets: list[dict[str, Any]] | None) -> None:
    """Refuse to train without true boxes (N, 4)."""
    if targets is None:
        raise AssertionError("targets should not be none when in training mode")
    for target in targets:
        boxes = target["boxes"]
        if not isinstance(boxes, Tensor):
            raise AssertionError(
                f"Expected target boxes to be of type Tensor, got {boxes.__class__}."
            )
        if boxes.ndim != 2 or boxes.shape[-1] != 4:
            raise AssertionError(
                f"Expected target boxes to be a tensor of shape [N, 4], got {boxes.shape}."
            )


def refuse_degenerate(targets: list[dict[str, Any]] | None) -> None:
    """Refuse true boxes without width or height."""
    for number, target in enumerate(targets or []):
        boxes = target["boxes"]
        empty = (boxes[:, 2:] <= boxes[:, :2]).any(dim=1)
        if bool(empty.any()):
            first = boxes[where(empty)[0][0]].tolist()
            raise AssertionError(
                "All bounding boxes should have positive height and width. "
                f"Found invalid box {first} for target at index {number}."
            )
