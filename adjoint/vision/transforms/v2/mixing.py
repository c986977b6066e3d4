"""Batches mixed with themselves: MixUp (Zhang et al., 2017) and CutMix (Yun et al., 2019)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint import nn
from adjoint.data.transforms.draw import integer
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F


class _Mixing(nn.Module):
    """What both share: a batch (images, labels) with the one before it in the batch."""

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None,
                 labels_getter: Any = "default") -> None:  # fmt: skip
        super().__init__()
        if labels_getter != "default":
            raise NotImplementedError(
                f"{type(self).__name__}: labels_getter is not supported; pass (images, labels)"
            )
        self.alpha = float(alpha)
        self.num_classes = num_classes

    def forward(self, *inputs: Any) -> Any:
        """The mixed images and the labels' shares."""
        given = inputs if len(inputs) > 1 else inputs[0]
        images, labels = given
        if images.ndim != 4:
            raise ShapeValueError(
                f"expected images (B, C, H, W), received shape {tuple(images.shape)}"
            )
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("num_classes must be passed where labels are class indices")
        source = np.random.default_rng(integer(0, 2**31 - 1))
        share = float(source.beta(self.alpha, self.alpha))
        images, share = self.mix(images, share)
        if labels.ndim == 1:
            labels = F.one_hot(labels, num_classes=self.num_classes or -1)
        labels = labels.float()
        mixed = labels.roll(1, 0) * (1.0 - share) + labels * share
        return type(given)((images, mixed)) if isinstance(given, (tuple, list)) else (images, mixed)

    def mix(self, images: Tensor, share: float) -> tuple[Tensor, float]:
        """The images, and how much of each is its own."""
        raise NotImplementedError


class MixUp(_Mixing):
    """Every image mixed with another, and so their labels.

    Args:
        alpha: how evenly.
        num_classes: how many classes there are, where labels are indices.
    """

    def mix(self, images: Tensor, share: float) -> tuple[Tensor, float]:
        return images.roll(1, 0) * (1.0 - share) + images * share, share


class CutMix(_Mixing):
    """A rectangle of every image from another, and their labels mixed by its area.

    Args:
        alpha: how evenly.
        num_classes: how many classes there are, where labels are indices.
    """

    def mix(self, images: Tensor, share: float) -> tuple[Tensor, float]:
        height, width = int(images.shape[-2]), int(images.shape[-1])
        x, y = integer(0, width), integer(0, height)
        side = 0.5 * math.sqrt(1.0 - share)
        half_w, half_h = int(side * width), int(side * height)
        x1, y1 = max(x - half_w, 0), max(y - half_h, 0)
        x2, y2 = min(x + half_w, width), min(y + half_h, height)
        out = images.clone()
        out[..., y1:y2, x1:x2] = images.roll(1, 0)[..., y1:y2, x1:x2]
        return out, 1.0 - (x2 - x1) * (y2 - y1) / (width * height)
