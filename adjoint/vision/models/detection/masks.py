"""Masks of detected objects: their loss, and laying them into images."""

from __future__ import annotations

from adjoint.engine.ops.create.ranges import arange
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.ops.regions import roi_align


def maskrcnn_inference(x: Tensor, labels: list[Tensor]) -> list[Tensor]:
    """Logits (N, classes, H, W) -> of each image, the masks (n, 1, H, W) of its labels."""
    every = cat(labels, 0)
    chosen = x.sigmoid()[arange(int(x.shape[0]), device=x.device), every][:, None]
    return list(chosen.split([int(label.shape[0]) for label in labels], 0))


def project_masks_on_boxes(gt_masks: Tensor, boxes: Tensor, matched_idxs: Tensor, M: int) -> Tensor:
    """The part of each box's mask that lies in the box, at a size: (N, M, M)."""
    rois = cat([matched_idxs.to(boxes)[:, None], boxes], 1)
    return roi_align(gt_masks[:, None].to(rois), rois, (M, M), 1.0)[:, 0]


def maskrcnn_loss(
    mask_logits: Tensor, proposals: list[Tensor], gt_masks: list[Tensor], gt_labels: list[Tensor],
    mask_matched_idxs: list[Tensor],
) -> Tensor:  # fmt: skip
    """Binary cross entropy of the true class's mask."""
    size = int(mask_logits.shape[-1])
    labels = cat([label[i] for label, i in zip(gt_labels, mask_matched_idxs, strict=True)], 0)
    wanted = cat(
        [
            project_masks_on_boxes(masks, boxes, matched, size)
            for masks, boxes, matched in zip(gt_masks, proposals, mask_matched_idxs, strict=True)
        ],
        0,
    )
    if wanted.numel() == 0:
        return mask_logits.sum() * 0
    chosen = mask_logits[arange(int(labels.shape[0]), device=labels.device), labels]
    return F.binary_cross_entropy_with_logits(chosen, wanted)


def expand_boxes(boxes: Tensor, scale: float) -> Tensor:
    """Boxes (N, 4) made larger about their middles."""
    half_w = (boxes[:, 2] - boxes[:, 0]) * 0.5 * scale
    half_h = (boxes[:, 3] - boxes[:, 1]) * 0.5 * scale
    x, y = (boxes[:, 2] + boxes[:, 0]) * 0.5, (boxes[:, 3] + boxes[:, 1]) * 0.5
    return stack([x - half_w, y - half_h, x + half_w, y + half_h], 1)


def paste_mask_in_image(mask: Tensor, box: list[int], im_h: int, im_w: int) -> Tensor:
    """One mask, stretched over its box (whole pixels), in an image of zeros."""
    left, top, right, bottom = box
    across, down = max(right - left + 1, 1), max(bottom - top + 1, 1)
    stretched = F.interpolate(
        mask[None, None], size=(down, across), mode="bilinear", align_corners=False
    )[0, 0]
    x0, y0 = max(left, 0), max(top, 0)
    x1, y1 = max(min(right + 1, im_w), x0), max(min(bottom + 1, im_h), y0)
    seen = stretched[y0 - top : y1 - top, x0 - left : x1 - left]
    return F.pad(seen, (x0, im_w - x1, y0, im_h - y1))


def paste_masks_in_image(
    masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int = 1
) -> Tensor:
    """Masks (N, 1, M, M) laid over their boxes in the image: (N, 1, H, W)."""
    height, width = img_shape
    if not int(masks.shape[0]):
        return masks.new_zeros((0, 1, height, width))
    size = int(masks.shape[-1])
    wide = F.pad(masks, (padding,) * 4)  # so that borders fade
    corners = expand_boxes(boxes, (size + 2 * padding) / size)
    whole = [[int(v) for v in box] for box in corners.detach().cpu().tolist()]
    pasted = [
        paste_mask_in_image(mask[0], box, height, width)
        for mask, box in zip(wide, whole, strict=True)
    ]
    return stack(pasted, 0)[:, None]
