"""Boxes: areas, overlaps, formats, and which of many to keep."""

from __future__ import annotations

import math

import numpy as np

from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.dtype import float32, float64, int32, int64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.ops.elementwise.bounds import maximum, minimum
from adjoint.engine.ops.elementwise.trigonometric import atan
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.ops import turned
from adjoint.vision.ops.recorded import by_records, nms_record


def _upcast(t: Tensor) -> Tensor:
    """Halves and short integers in types in which areas do not overflow."""
    if t.dtype.is_floating_point:
        return t if t.dtype in (float32, float64) else t.float()
    return t if t.dtype in (int32, int64) else t.int()


def _box_inter_union(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Areas of the intersections and unions of all pairs."""
    return _overlap(boxes1[:, None], boxes2)


def box_area(boxes: Tensor) -> Tensor:
    """Areas of boxes (N, 4) given as (x1, y1, x2, y2)."""
    boxes = _upcast(boxes)
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union of all pairs of boxes: (N, 4), (M, 4) -> (N, M).

    Example:
        >>> import adjoint as ad
        >>> box_iou(ad.tensor([[0.0, 0, 2, 2]]), ad.tensor([[1.0, 0, 3, 2]]))
        tensor([[0.3333]])
    """
    common, union = _box_inter_union(boxes1, boxes2)
    return common / union


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes (..., 4) from one of "xyxy", "xywh", "cxcywh" to another.

    Or turned boxes from one of "xywhr", "cxcywhr" (..., 5), "xyxyxyxy" (..., 8) to another; whole
    numbers are rounded.
    """
    if in_fmt.upper() in turned.FORMATS and out_fmt.upper() in turned.FORMATS:
        if in_fmt == out_fmt:
            return boxes.clone()
        if not boxes.dtype.is_floating_point and "xywhr" not in (in_fmt, out_fmt):
            boxes, in_fmt = box_convert(boxes, in_fmt, "xywhr"), "xywhr"  # rounded there too
        converted = turned.converted(boxes, in_fmt.upper(), out_fmt.upper())
        return (converted if boxes.dtype.is_floating_point else converted.round()).to(boxes.dtype)
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        corners = (a, b, a + c, b + d)
    elif in_fmt == "cxcywh":
        corners = (a - c / 2, b - d / 2, a + c / 2, b + d / 2)
    elif in_fmt == "xyxy":
        corners = (a, b, c, d)
    else:
        raise ValueError(f"box_convert: unknown format {in_fmt!r}")
    x1, y1, x2, y2 = corners
    match out_fmt:
        case "xyxy":
            columns = corners
        case "xywh":
            columns = (x1, y1, x2 - x1, y2 - y1)
        case "cxcywh":
            columns = ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)
        case _:
            raise ValueError(f"box_convert: unknown format {out_fmt!r}")
    return stack(columns, -1)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of boxes kept, best first: none overlaps a better one by more than the threshold."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ShapeError(f"nms: boxes should be (N, 4), received {tuple(boxes.shape)}")
    if scores.shape != boxes.shape[:1]:
        raise ShapeError(
            f"nms: scores should be one for each of {boxes.shape[0]} boxes, received "
            f"{tuple(scores.shape)}"
        )
    if by_records():
        chosen_boxes: Tensor = nms_record()(boxes, scores, iou_threshold=float(iou_threshold))
        return chosen_boxes
    overlaps = np.asarray(box_iou(boxes, boxes).detach().cpu().numpy())
    order = np.argsort(-np.asarray(scores.detach().cpu().numpy()), kind="stable")
    chosen: list[int] = []
    alive = np.ones(len(order), bool)
    for i in order:
        if alive[i]:
            chosen.append(int(i))
            alive &= ~(overlaps[i] > iou_threshold)
    return from_numpy(np.array(chosen, np.int64)).to(boxes.device, int64)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` within each class: boxes of different classes do not suppress each other."""
    if not boxes.shape[0]:
        return from_numpy(np.zeros(0, np.int64)).to(boxes.device)
    apart = idxs.to(boxes) * (boxes.max() + 1)  # classes moved away from each other
    return nms(boxes + apart[:, None], scores, iou_threshold)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """Indices of boxes whose sides are both at least a size."""
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return ((w >= min_size) & (h >= min_size)).nonzero()[:, 0]


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes cut off at the edges of an image (height, width)."""
    height, width = size
    x = boxes[..., 0::2].clamp(0, width)
    y = boxes[..., 1::2].clamp(0, height)
    return stack((x, y), boxes.ndim).reshape(boxes.shape)


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The box around each mask (N, H, W)."""
    boxes = np.zeros((masks.shape[0], 4), np.float32)
    for number, mask in enumerate(np.asarray(masks.detach().cpu().numpy())):
        y, x = np.nonzero(mask)
        if not len(x):
            raise ValueError(f"masks_to_boxes: mask {number} is empty")
        boxes[number] = x.min(), y.min(), x.max(), y.max()
    return from_numpy(boxes).to(masks.device)


def _sides(boxes: Tensor) -> tuple[Tensor, Tensor]:
    return boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]


def _overlap(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """Intersection and union of boxes that broadcast."""
    low, high = maximum(one[..., :2], two[..., :2]), minimum(one[..., 2:], two[..., 2:])
    inside = _upcast(high - low).clamp(min=0)
    common = inside[..., 0] * inside[..., 1]
    (w1, h1), (w2, h2) = _sides(_upcast(one)), _sides(_upcast(two))
    return common, w1 * h1 + w2 * h2 - common


def _around(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """Width and height of the box around both."""
    low, high = minimum(one[..., :2], two[..., :2]), maximum(one[..., 2:], two[..., 2:])
    w, h = _upcast(high - low).clamp(min=0).unbind(-1)
    return w, h


def _apart(one: Tensor, two: Tensor, eps: float) -> Tensor:
    """The squared distance of the middles, by the squared diagonal of the box around both."""
    w, h = _around(one, two)
    between = (one[..., :2] + one[..., 2:] - two[..., :2] - two[..., 2:]) / 2
    return (between**2).sum(-1) / (w**2 + h**2 + eps)


def _shape_term(one: Tensor, two: Tensor) -> Tensor:
    """How the ratios of sides differ."""
    (w1, h1), (w2, h2) = _sides(one), _sides(two)
    return 4 / math.pi**2 * (atan(w2 / h2) - atan(w1 / h1)) ** 2


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Overlap less the empty share of the box around both, of all pairs: (N, M)."""
    one, two = boxes1[:, None], boxes2
    common, union = _overlap(one, two)
    w, h = _around(one, two)
    return common / union - (w * h - union) / (w * h)


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """Overlap less how far the middles are apart, of all pairs: (N, M)."""
    one, two = boxes1[:, None], boxes2
    common, union = _overlap(one, two)
    return common / union - _apart(one, two, eps)


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """Overlap less distance and difference in shape, of all pairs: (N, M)."""
    one, two = boxes1[:, None], boxes2
    common, union = _overlap(one, two)
    iou, shape = common / union, _shape_term(one, two)
    weight = (shape / (1 - iou + shape + eps)).detach()
    return iou - _apart(one, two, eps) - weight * shape


def _reduced(loss: Tensor, reduction: str, name: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction == "mean":
        return loss.mean() if loss.numel() else 0.0 * loss.sum()
    raise ValueError(f"{name}: reduction must be none, mean or sum, received {reduction!r}")


def generalized_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """One less `generalized_box_iou` of boxes and their targets."""
    common, union = _overlap(boxes1, boxes2)
    w, h = _around(boxes1, boxes2)
    loss = 1 - (common / (union + eps) - (w * h - union) / (w * h + eps))
    return _reduced(loss, reduction, "generalized_box_iou_loss")


def distance_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """One less `distance_box_iou` of boxes and their targets."""
    common, union = _overlap(boxes1, boxes2)
    loss = 1 - common / (union + eps) + _apart(boxes1, boxes2, eps)
    return _reduced(loss, reduction, "distance_box_iou_loss")


def complete_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """One less `complete_box_iou` of boxes and their targets."""
    common, union = _overlap(boxes1, boxes2)
    iou, shape = common / (union + eps), _shape_term(boxes1, boxes2)
    weight = (shape / (1 - iou + shape + eps)).detach()
    loss = 1 - iou + _apart(boxes1, boxes2, eps) + weight * shape
    return _reduced(loss, reduction, "complete_box_iou_loss")
