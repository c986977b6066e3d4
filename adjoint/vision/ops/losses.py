"""Losses of detection networks."""

from __future__ import annotations

from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F


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
