"""Boxes, and a few functions of detection and deep networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint import nn
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.dtype import int64
from adjoint.engine.ops.elementwise.bounds import maximum, minimum
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F


def box_area(boxes: Tensor) -> Tensor:
    """Areas of boxes (N, 4) given as (x1, y1, x2, y2)."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union of all pairs of boxes: (N, 4), (M, 4) -> (N, M).

    Example:
        >>> import adjoint as ad
        >>> box_iou(ad.tensor([[0.0, 0, 2, 2]]), ad.tensor([[1.0, 0, 3, 2]]))
        tensor([[0.3333]])
    """
    left_top = maximum(boxes1[:, None, :2], boxes2[:, :2])
    right_bottom = minimum(boxes1[:, None, 2:], boxes2[:, 2:])
    sides = (right_bottom - left_top).clamp(min=0)
    common = sides[..., 0] * sides[..., 1]
    return common / (box_area(boxes1)[:, None] + box_area(boxes2) - common)


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes (..., 4) from one of "xyxy", "xywh", "cxcywh" to another."""
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
            made = corners
        case "xywh":
            made = (x1, y1, x2 - x1, y2 - y1)
        case "cxcywh":
            made = ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)
        case _:
            raise ValueError(f"box_convert: unknown format {out_fmt!r}")
    return stack(made, -1)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of boxes kept, best first: none overlaps a better one by more than the threshold."""
    overlaps = np.asarray(box_iou(boxes, boxes).detach().cpu().numpy())
    order = np.argsort(-np.asarray(scores.detach().cpu().numpy()), kind="stable")
    kept: list[int] = []
    alive = np.ones(len(order), bool)
    for i in order:
        if alive[i]:
            kept.append(int(i))
            alive &= ~(overlaps[i] > iou_threshold)
    return from_numpy(np.array(kept, np.int64)).to(boxes.device, int64)


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    r"""Cross entropy of logits with easy examples weighted down by :math:`(1 - p_t)^\gamma`."""
    p = inputs.sigmoid()
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = loss * (1 - (p * targets + (1 - p) * (1 - targets))) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"sigmoid_focal_loss: unknown reduction {reduction!r}")
    return loss if reduction == "none" else getattr(loss, reduction)()


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Zero rows (mode "row") or the whole batch ("batch") with a probability, while training."""
    if not 0 <= p <= 1 or mode not in ("batch", "row"):
        raise ValueError(f"stochastic_depth: p in [0, 1] and mode batch or row, got {p}, {mode!r}")
    if not training or p == 0.0:
        return input
    size = [input.shape[0] if mode == "row" else 1] + [1] * (input.ndim - 1)
    noise = input.new_empty(size).bernoulli_(1 - p)
    return input * (noise / (1 - p) if p < 1 else noise)


class StochasticDepth(nn.Module):
    """`stochastic_depth` as a layer."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Any) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)
