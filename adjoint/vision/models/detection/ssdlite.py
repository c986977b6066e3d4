"""SSDlite (Sandler et al., 2018): SSD with convolutions by channel, on MobileNetV3."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.detection._utils import retrieve_out_channels
from adjoint.vision.models.detection.anchor_utils import DefaultBoxGenerator
from adjoint.vision.models.detection.backbone_utils import _validate_trainable_layers, trunk
from adjoint.vision.models.detection.faster_rcnn import COCO_CLASSES, backbone_weights
from adjoint.vision.models.detection.ssd import (
    SSD,
    SSDScoringHead,
    check_levels,
    freeze_before,
    ignore_size,
)
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.misc import Conv2dNormActivation

Norm = Callable[..., nn.Module]


def _prediction_block(
    in_channels: int, out_channels: int, kernel_size: int, norm_layer: Norm
) -> nn.Sequential:
    """A convolution of each channel, then one that mixes them."""
    return nn.Sequential(
        Conv2dNormActivation(
            in_channels, in_channels, kernel_size, groups=in_channels, norm_layer=norm_layer,
            activation_layer=nn.ReLU6,
        ),
        nn.Conv2d(in_channels, out_channels, 1),
    )  # fmt: skip


def _extra_block(in_channels: int, out_channels: int, norm_layer: Norm) -> nn.Sequential:
    """A level half the size of the one below."""
    make = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
    between = out_channels // 2
    return nn.Sequential(
        make(in_channels, between, kernel_size=1),
        make(between, between, kernel_size=3, stride=2, groups=between),
        make(between, out_channels, kernel_size=1),
    )


def _normal_init(part: nn.Module) -> None:
    for layer in part.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight, std=0.03)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class SSDLiteClassificationHead(SSDScoringHead):
    """Classes of each default box."""

    def __init__(
        self, in_channels: list[int], num_anchors: list[int], num_classes: int, norm_layer: Norm
    ) -> None:
        pairs = zip(in_channels, num_anchors, strict=True)
        layers = nn.ModuleList(
            [_prediction_block(c, num_classes * n, 3, norm_layer) for c, n in pairs]
        )
        _normal_init(layers)
        super().__init__(layers, num_classes)


class SSDLiteRegressionHead(SSDScoringHead):
    """Differences of boxes from each default box."""

    def __init__(self, in_channels: list[int], num_anchors: list[int], norm_layer: Norm) -> None:
        pairs = zip(in_channels, num_anchors, strict=True)
        layers = nn.ModuleList([_prediction_block(c, 4 * n, 3, norm_layer) for c, n in pairs])
        _normal_init(layers)
        super().__init__(layers, 4)


class SSDLiteHead(nn.Module):
    """Classes and boxes of each default box.

    Args:
        in_channels: of each level.
        num_anchors: boxes at a place, of each level.
        num_classes: with the background.
        norm_layer: makes normalisations.
    """

    def __init__(
        self, in_channels: list[int], num_anchors: list[int], num_classes: int, norm_layer: Norm
    ) -> None:
        super().__init__()
        self.classification_head = SSDLiteClassificationHead(
            in_channels, num_anchors, num_classes, norm_layer
        )
        self.regression_head = SSDLiteRegressionHead(in_channels, num_anchors, norm_layer)

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        """(B, boxes, 4) and (B, boxes, classes)."""
        codes, logits = self.regression_head(x), self.classification_head(x)
        return {"bbox_regression": codes, "cls_logits": logits}


class SSDLiteFeatureExtractorMobileNet(nn.Module):
    """Two levels of a MobileNet and four on top.

    Args:
        backbone: the layers of its `features`.
        c4_pos: the block whose widened input is the first level.
        norm_layer: makes normalisations.
        width_mult: factor of the channels on top.
        min_depth: the least number of them.
    """

    def __init__(
        self, backbone: Any, c4_pos: int, norm_layer: Norm, width_mult: float = 1.0,
        min_depth: int = 16,
    ) -> None:  # fmt: skip
        super().__init__()
        middle = backbone[c4_pos]
        if middle.use_res_connect:
            raise ValueError("backbone[c4_pos].use_res_connect should be False")
        self.features = nn.Sequential(
            nn.Sequential(*backbone[:c4_pos], middle.block[0]),
            nn.Sequential(middle.block[1:], *backbone[c4_pos + 1 :]),
        )
        widths = [max(min_depth, int(width * width_mult)) for width in (512, 256, 256, 128)]
        below = [backbone[-1].out_channels, *widths]
        self.extra = nn.ModuleList(
            [_extra_block(a, b, norm_layer) for a, b in zip(below[:-1], widths, strict=True)]
        )
        _normal_init(self.extra)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """(B, 3, H, W) -> the levels by number."""
        levels = []
        for block in (*self.features, *self.extra):
            x = block(x)
            levels.append(x)
        return OrderedDict((str(i), level) for i, level in enumerate(levels))


def _mobilenet_extractor(
    backbone: Any, trainable_layers: int, norm_layer: Norm
) -> SSDLiteFeatureExtractorMobileNet:
    layers = backbone.features
    halvings = [i for i, layer in enumerate(layers) if getattr(layer, "_is_cn", False)]
    stages = [0, *halvings, len(layers) - 1]
    freeze_before(layers, stages, trainable_layers)
    return SSDLiteFeatureExtractorMobileNet(layers, stages[-2], norm_layer)


@network
def ssdlite320_mobilenet_v3_large(
    num_classes: int | None = None, weights_backbone: Any = "IMAGENET1K_V1",
    trainable_backbone_layers: int | None = None, norm_layer: Norm | None = None,
    pretrained_backbone: bool | None = None, has_weights: bool = False, **kwargs: Any,
) -> SSD:  # fmt: skip
    """SSDlite on MobileNetV3-Large, for images of 320 by 320."""
    ignore_size(kwargs)
    weights = backbone_weights(weights_backbone, has_weights, pretrained_backbone)
    train = _validate_trainable_layers(
        has_weights or weights is not None, trainable_backbone_layers, 6, 6
    )
    norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.03)
    # Without published weights the tail is half as wide (Table 6 of the paper).
    layers = trunk("mobilenet_v3_large", weights, norm_layer=norm, reduced_tail=weights is None)
    if weights is None:
        _normal_init(layers)
    backbone = _mobilenet_extractor(layers, train, norm)
    boxes = DefaultBoxGenerator([[2, 3]] * 6, min_ratio=0.2, max_ratio=0.95)
    channels, at_place = (
        retrieve_out_channels(backbone, (320, 320)), boxes.num_anchors_per_location()
    )  # fmt: skip
    check_levels(channels, at_place)
    classes = num_classes or COCO_CLASSES
    options = {
        "score_thresh": 0.001, "nms_thresh": 0.55, "detections_per_img": 300,
        "topk_candidates": 300, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, **kwargs,
    }  # fmt: skip
    head = SSDLiteHead(channels, at_place, classes, norm)
    return SSD(backbone, boxes, (320, 320), classes, head=head, **options)


__getattr__ = weights_in(__name__)
