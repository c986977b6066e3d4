"""Points of detected objects, as maps of where they are."""

from __future__ import annotations

from adjoint.engine.core.dtype import float32, int64
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F


def keypoints_to_heatmap(
    keypoints: Tensor, rois: Tensor, heatmap_size: int
) -> tuple[Tensor, Tensor]:
    """The place of each point in its box's map, row by row, and whether it is seen there."""
    places = []
    for axis in (0, 1):
        low, high = rois[:, axis, None], rois[:, axis + 2, None]
        point = keypoints[..., axis]
        place = ((point - low) * (heatmap_size / (high - low))).floor().to(int64)
        places.append(where(point == high, heatmap_size - 1, place))
    x, y = places
    inside = (x >= 0) & (y >= 0) & (x < heatmap_size) & (y < heatmap_size)
    valid = (inside & (keypoints[..., 2] > 0)).to(int64)
    return (y * heatmap_size + x) * valid, valid


def heatmaps_to_keypoints(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """Maps (N, K, H, W) of boxes -> points (N, K, 3) in the image, and their scores (N, K)."""
    count = int(maps.shape[1])
    points, scores = [], []
    for heat, box in zip(maps, rois, strict=True):
        w, h = (box[2] - box[0]).clamp(min=1), (box[3] - box[1]).clamp(min=1)
        across, down = int(w.ceil().item()), int(h.ceil().item())
        large = F.interpolate(
            heat[:, None], size=(down, across), mode="bicubic", align_corners=False
        )[:, 0]
        place = large.reshape(count, -1).argmax(dim=1)
        column, row = place % across, place // across
        x = (column.to(float32) + 0.5) * (w / across) + box[0]
        y = (row.to(float32) + 0.5) * (h / down) + box[1]
        points.append(stack([x, y, x * 0 + 1], 1))
        scores.append(large[arange(count, device=maps.device), row, column])
    if not points:
        return maps.new_zeros((0, count, 3)), maps.new_zeros((0, count))
    return stack(points, 0), stack(scores, 0)


def keypointrcnn_loss(
    keypoint_logits: Tensor, proposals: list[Tensor], gt_keypoints: list[Tensor],
    keypoint_matched_idxs: list[Tensor],
) -> Tensor:  # fmt: skip
    """Cross entropy of the place of each point that is seen."""
    count, points, h, w = (int(n) for n in keypoint_logits.shape)
    if h != w:
        raise ShapeValueError(
            "keypoint_logits height and width (last two elements of shape) should be equal. "
            f"Instead got H = {h} and W = {w}"
        )
    places = [
        keypoints_to_heatmap(truth[matched], boxes, h)
        for boxes, truth, matched in zip(
            proposals, gt_keypoints, keypoint_matched_idxs, strict=True
        )
    ]
    wanted = cat([place.reshape(-1) for place, _ in places], 0)
    seen = where(cat([valid.reshape(-1) for _, valid in places], 0))[0]
    if seen.numel() == 0:
        return keypoint_logits.sum() * 0
    return F.cross_entropy(keypoint_logits.reshape(count * points, h * w)[seen], wanted[seen])


def keypointrcnn_inference(x: Tensor, boxes: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Of each image, its boxes' points and their scores."""
    parts = x.split([int(box.shape[0]) for box in boxes], 0)
    answers = [heatmaps_to_keypoints(maps, box) for maps, box in zip(parts, boxes, strict=True)]
    return [points for points, _ in answers], [scores for _, scores in answers]
