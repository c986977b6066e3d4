"""Keypoint R-CNN (He et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.detection._utils import overwrite_eps
from adjoint.vision.models.detection.faster_rcnn import (
    FasterRCNN,
    backbone_width,
    check_kind,
    resnet50_pyramid,
    start_convolutions,
)
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.regions import MultiScaleRoIAlign


class KeypointRCNN(FasterRCNN):
    """Faster R-CNN that finds points of each object too.

    Args:
        backbone: makes levels of `backbone.out_channels` channels.
        num_classes: with the background; None if `box_predictor` is given.
        min_size: the shorter side of images; one of six from 640 to 800 unless given.
        keypoint_roi_pool, keypoint_head, keypoint_predictor: features of each box, and the points.
        num_keypoints: 17 unless given.
        options: see `FasterRCNN`.
    """

    def __init__(
        self, backbone: Any, num_classes: int | None = None, min_size: Any = None, *,
        keypoint_roi_pool: MultiScaleRoIAlign | None = None,
        keypoint_head: nn.Module | None = None, keypoint_predictor: nn.Module | None = None,
        num_keypoints: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        check_kind("keypoint_roi_pool", keypoint_roi_pool, MultiScaleRoIAlign)
        if num_keypoints is not None and keypoint_predictor is not None:
            raise ValueError("num_keypoints should be None when keypoint_predictor is specified")
        if keypoint_head is None:
            keypoint_head = KeypointRCNNHeads(backbone_width(backbone), (512,) * 8)
        if keypoint_predictor is None:
            keypoint_predictor = KeypointRCNNPredictor(512, num_keypoints or 17)
        sizes = (640, 672, 704, 736, 768, 800) if min_size is None else min_size
        super().__init__(backbone, num_classes, sizes, **options)
        self.roi_heads.keypoint_roi_pool = keypoint_roi_pool or MultiScaleRoIAlign(
            ["0", "1", "2", "3"], 14, 2
        )
        self.roi_heads.keypoint_head = keypoint_head
        self.roi_heads.keypoint_predictor = keypoint_predictor


class KeypointRCNNHeads(nn.Sequential):
    """Convolutions on a box's features.

    Args:
        in_channels: of the features.
        layers: channels of the convolutions.
    """

    def __init__(self, in_channels: int, layers: Sequence[int]) -> None:
        blocks: list[nn.Module] = []
        for channels in layers:
            blocks += [nn.Conv2d(in_channels, channels, 3, padding=1), nn.ReLU(inplace=True)]
            in_channels = channels
        super().__init__(*blocks)
        start_convolutions(self)


class KeypointRCNNPredictor(nn.Module):
    """A map of each point, four times as large as the features.

    Args:
        in_channels: of the features.
        num_keypoints: points.
    """

    def __init__(self, in_channels: int, num_keypoints: int) -> None:
        super().__init__()
        self.kps_score_lowres = nn.ConvTranspose2d(in_channels, num_keypoints, 4, 2, padding=1)
        nn.init.kaiming_normal_(self.kps_score_lowres.weight, mode="fan_out", nonlinearity="relu")
        if self.kps_score_lowres.bias is not None:
            nn.init.zeros_(self.kps_score_lowres.bias)
        self.up_scale, self.out_channels = 2, num_keypoints

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, points, 4H, 4W)."""
        return F.interpolate(
            self.kps_score_lowres(x), scale_factor=float(self.up_scale), mode="bilinear",
            align_corners=False, recompute_scale_factor=False,
        )  # fmt: skip


@network
def keypointrcnn_resnet50_fpn(
    num_classes: int | None = None, num_keypoints: int | None = None,
    weights_backbone: Any = "IMAGENET1K_V1", trainable_backbone_layers: int | None = None,
    pretrained_backbone: bool | None = None, has_weights: bool = False, **kwargs: Any,
) -> KeypointRCNN:  # fmt: skip
    """Keypoint R-CNN on ResNet-50 with a pyramid."""
    backbone = resnet50_pyramid(
        weights_backbone, has_weights, trainable_backbone_layers, pretrained_backbone
    )
    model = KeypointRCNN(backbone, num_classes or 2, num_keypoints=num_keypoints or 17, **kwargs)
    if has_weights:
        overwrite_eps(model, 0.0)
    return model


__getattr__ = weights_in(__name__)
