"""Fully convolutional networks (Long et al., 2014)."""

from __future__ import annotations

from typing import Any

from adjoint import nn
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.models.segmentation._utils import _SimpleSegmentationModel, resnet_backbone


class FCN(_SimpleSegmentationModel):
    """A backbone and a convolution that classifies."""


class FCNHead(nn.Sequential):
    """Two convolutions, the first a quarter as wide."""

    def __init__(self, in_channels: int, channels: int) -> None:
        inner = in_channels // 4
        super().__init__(
            nn.Conv2d(in_channels, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner),
            nn.ReLU(), nn.Dropout(0.1), nn.Conv2d(inner, channels, 1),
        )  # fmt: skip


def _build(source: str, num_classes: int, aux_loss: bool | None, weights_backbone: Any) -> FCN:
    backbone = resnet_backbone(f"fcn_{source}", source, weights_backbone, aux_loss)
    aux = FCNHead(1024, num_classes) if aux_loss else None
    return FCN(backbone, FCNHead(2048, num_classes), aux)


@network
def fcn_resnet50(
    num_classes: int = 21, aux_loss: bool | None = None, weights_backbone: Any = None
) -> FCN:
    """FCN on ResNet-50."""
    return _build("resnet50", num_classes, aux_loss, weights_backbone)


@network
def fcn_resnet101(
    num_classes: int = 21, aux_loss: bool | None = None, weights_backbone: Any = None
) -> FCN:
    """FCN on ResNet-101."""
    return _build("resnet101", num_classes, aux_loss, weights_backbone)


__getattr__ = weights_in(__name__)
