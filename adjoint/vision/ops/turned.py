"""Turned boxes: a corner or the middle, sides and an angle, or four corners.

Angles are degrees, counter-clockwise as one sees the image (y goes down). Corners are in the order
of top left, top right, bottom right, bottom left of the box before it was turned.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from adjoint.engine.core.dtype import float32
from adjoint.engine.ops.elementwise.bounds import maximum, minimum
from adjoint.engine.ops.elementwise.condition import where
from adjoint.engine.ops.elementwise.trigonometric import atan2
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor

Size = tuple[int, int]
FORMATS = ("XYWHR", "CXCYWHR", "XYXYXYXY")


def _axes(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Width and height of boxes (..., 5), and the directions (..., 2) they go along."""
    turn = boxes[..., 4] * (math.pi / 180)
    cos, sin = turn.cos(), turn.sin()
    return boxes[..., 2:3], boxes[..., 3:4], stack([cos, -sin], -1), stack([sin, cos], -1)


def converted(boxes: Tensor, given: str, wanted: str) -> Tensor:
    """Boxes in another format of turned ones; whole numbers are computed as floating-point ones."""
    if given == wanted:
        return boxes
    work = boxes if boxes.dtype.is_floating_point else boxes.to(float32)
    if given == "XYXYXYXY":
        first, second, third = (work[..., i : i + 2] for i in (0, 2, 4))
        along, down = second - first, third - second
        angle = atan2(first[..., 1] - second[..., 1], along[..., 0]) * (180 / math.pi)
        sides = [x.square().sum(-1).sqrt() for x in (along, down)]
        work = cat([first, stack([*sides, angle], -1)], -1)
    elif given == "CXCYWHR":
        w, h, right, down = _axes(work)
        work = cat([work[..., :2] - right * w / 2 - down * h / 2, work[..., 2:]], -1)
    if wanted == "XYWHR":
        return work
    w, h, right, down = _axes(work)
    corner = work[..., :2]
    if wanted == "CXCYWHR":
        return cat([corner + right * w / 2 + down * h / 2, work[..., 2:]], -1)
    across, below = right * w, down * h
    return cat([corner, corner + across, corner + across + below, corner + below], -1)


def corners_of(boxes: Tensor, kind: str) -> Tensor:
    """The corners (..., 4, 2) of boxes."""
    flat = converted(boxes, kind, "XYXYXYXY")
    return flat.reshape(*flat.shape[:-1], 4, 2)


def _length(x: Tensor) -> Tensor:
    return x.square().sum(-1, keepdim=True).sqrt()


def rectangles(corners: Tensor) -> Tensor:
    """The rectangles (..., 8) around parallelograms (..., 4, 2), along their longer sides."""
    first, second, third, fourth = corners.unbind(-2)
    along, down = second - first, fourth - first
    w, h = _length(along), _length(down)
    right = along / w.masked_fill(w == 0, 1)
    below = down / h.masked_fill(h == 0, 1)
    shared = (right * below).sum(-1, keepdim=True).abs()
    cross = (right[..., :1] * below[..., 1:] - right[..., 1:] * below[..., :1]).abs()
    width, height = where(w < h, w * cross, w + h * shared), where(w > h, h * cross, h + w * shared)
    right = where(h > w, stack([below[..., 1], -below[..., 0]], -1), right)
    below = stack([-right[..., 1], right[..., 0]], -1)
    middle, across, deep = (first + third) / 2, right * width / 2, below * height / 2
    sides = (-across - deep, across - deep, across + deep, deep - across)
    return cat([middle + side for side in sides], -1)


def _candidates(corners: Tensor, canvas_size: Size) -> tuple[Tensor, Tensor]:
    """Points among which the corners of what box and image share are, and which of them are.

    (..., 24, 2): the box's corners, the image's, and where their edges meet.
    """
    height, width = canvas_size
    frame = corners.new_tensor([[0, 0], [width, 0], [width, height], [0, height]])
    ends = corners.roll(-1, -2)
    met = []
    for axis, edge in ((0, 0), (0, width), (1, 0), (1, height)):
        step = ends[..., axis] - corners[..., axis]
        share = (edge - corners[..., axis]) / where(step == 0, corners.new_full((), math.nan), step)
        share = where((share >= 0) & (share <= 1), share, corners.new_full((), math.nan))
        met.append(corners + (ends - corners) * share.unsqueeze(-1))
    points = cat([corners, frame.expand(corners.shape), *met], -2)
    x, y, room = points[..., 0], points[..., 1], 1e-6 * max(height, width)
    inside = (x >= -room) & (x <= width + room) & (y >= -room) & (y <= height + room)
    return points, inside & ~x.isnan()


def clamped(boxes: Tensor, kind: str, canvas_size: Size, mode: str | None) -> Tensor:
    """Boxes that reach out of the image made as small as what they show of it, at their angle.

    This is what "soft" says; "hard", the largest box within both, is refused.
    """
    if mode is None:
        return boxes.clone()
    if mode == "hard":
        raise NotImplementedError(
            "clamp_bounding_boxes: clamping_mode 'hard' is not supported for turned boxes; wanted "
            "'soft' or None"
        )
    height, width = canvas_size
    corners = corners_of(boxes, kind)
    x, y = corners[..., 0], corners[..., 1]
    whole = ((x >= 0) & (x <= width) & (y >= 0) & (y <= height)).all(-1, keepdim=True)
    first, along, down = (corners[..., i, :] for i in (0, 1, 3))
    along, down = along - first, down - first
    w, h = _length(along), _length(down)
    right, below = along / w.masked_fill(w == 0, 1), down / h.masked_fill(h == 0, 1)
    points, valid = _candidates(corners, canvas_size)
    away = points.masked_fill(points.isnan(), 0) - first.unsqueeze(-2)
    places = [(away * axis.unsqueeze(-2)).sum(-1) for axis in (right, below)]
    room = 1e-6 * max(height, width)
    for place, side in zip(places, (w, h), strict=True):
        valid = valid & (place >= -room) & (place <= side + room)
    low = [p.masked_fill(~valid, math.inf).amin(-1, keepdim=True) for p in places]
    high = [p.masked_fill(~valid, -math.inf).amax(-1, keepdim=True) for p in places]
    low = [maximum(p, p.new_zeros(())) for p in low]
    high = [minimum(p, side) for p, side in zip(high, (w, h), strict=True)]
    ends = ((low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1]))
    cut = cat([first + right * s + below * t for s, t in ends], -1)
    nothing = ~valid.any(-1, keepdim=True)
    cut = cut.masked_fill(nothing | cut.isnan() | cut.isinf(), 0)
    return where(whole, boxes, converted(cut, "XYXYXYXY", kind)).to(boxes.dtype)


def moved(
    boxes: Tensor, kind: str, move: Callable[[Tensor], Tensor], canvas_size: Size, mode: str | None
) -> Tensor:
    """The boxes around what becomes of boxes when `move` is done to their corners (..., 4, 2)."""
    around = rectangles(move(corners_of(boxes, kind)))
    inside = clamped(around, "XYXYXYXY", canvas_size, mode)
    return converted(inside, "XYXYXYXY", kind).to(boxes.dtype)


def flipped(boxes: Tensor, kind: str, side: int, axis: int) -> Tensor:
    """Boxes with one axis (0 for x, 1 for y) of an image that long turned round."""
    if kind == "XYXYXYXY":
        corners = boxes.reshape(*boxes.shape[:-1], 4, 2)
        parts = list(corners.unbind(-1))
        parts[axis] = side - parts[axis]
        mirrored = stack(parts, -1)
        order = [mirrored[..., i, :] for i in (1, 0, 3, 2)]
        return cat(order, -1)
    x, y, w, h, turn = converted(boxes, kind, "CXCYWHR").unbind(-1)
    if axis == 0:
        mirrored = stack([side - x, y, w, h, -turn], -1)
    else:
        mirrored = stack([x, side - y, w, h, 180 - turn], -1)
    return converted(mirrored, "CXCYWHR", kind)
