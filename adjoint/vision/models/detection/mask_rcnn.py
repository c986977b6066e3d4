"""Mask R-CNN (He et al., 2017)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import nn
from adjoint.vision.models.detection._utils import overwrite_eps
from adjoint.vision.models.detection.faster_rcnn import (
    COCO_CLASSES,
    FasterRCNN,
    backbone_width,
    check_kind,
    resnet50_pyramid,
    second_version,
    start_convolutions,
)
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.misc import Conv2dNormActivation
from adjoint.vision.ops.regions import MultiScaleRoIAlign


class MaskRCNN(FasterRCNN):
    """Faster R-CNN that finds the mask of each object too.

    Args:
        backbone: makes levels of `backbone.out_channels` channels.
        num_classes: with the background; None if predictors are given.
        mask_roi_pool, mask_head, mask_predictor: features of each box, and the masks they say.
        options: see `FasterRCNN`.
    """

    def __init__(
        self, backbone: Any, num_classes: int | None = None, *,
        mask_roi_pool: MultiScaleRoIAlign | None = None, mask_head: nn.Module | None = None,
        mask_predictor: nn.Module | None = None, **options: Any,
    ) -> None:  # fmt: skip
        check_kind("mask_roi_pool", mask_roi_pool, MultiScaleRoIAlign)
        if num_classes is not None and mask_predictor is not None:
            raise ValueError("num_classes should be None when mask_predictor is specified")
        if mask_head is None:
            mask_head = MaskRCNNHeads(backbone_width(backbone), (256,) * 4, 1)
        if mask_predictor is None:
            if num_classes is None:
                raise ValueError(
                    "num_classes should not be None when mask_predictor is not specified"
                )
            mask_predictor = MaskRCNNPredictor(256, 256, num_classes)
        super().__init__(backbone, num_classes, **options)
        self.roi_heads.mask_roi_pool = mask_roi_pool or MultiScaleRoIAlign(
            ["0", "1", "2", "3"], 14, 2
        )
        self.roi_heads.mask_head = mask_head
        self.roi_heads.mask_predictor = mask_predictor


class MaskRCNNHeads(nn.Sequential):
    """Convolutions on a box's features.

    Args:
        in_channels: of the features.
        layers: channels of the convolutions.
        dilation: of the convolutions.
        norm_layer: makes normalisations; None for none.
    """

    _version = 2  # since then convolutions are numbered from 0

    def __init__(
        self, in_channels: int, layers: Sequence[int], dilation: int,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:  # fmt: skip
        widths = [in_channels, *layers]
        super().__init__(
            *[
                Conv2dNormActivation(
                    before, after, 3, padding=dilation, dilation=dilation, norm_layer=norm_layer
                )
                for before, after in zip(widths[:-1], layers, strict=True)
            ]
        )
        start_convolutions(self)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *others: Any
    ) -> None:
        if (local_metadata.get("version") or 1) < 2:
            for number in range(len(self)):
                for kind in ("weight", "bias"):
                    if (old := f"{prefix}mask_fcn{number + 1}.{kind}") in state_dict:
                        state_dict[f"{prefix}{number}.0.{kind}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)


class MaskRCNNPredictor(nn.Sequential):
    """Masks of all classes, twice as large as the features.

    Args:
        in_channels: of the features.
        dim_reduced: channels between.
        num_classes: with the background.
    """

    def __init__(self, in_channels: int, dim_reduced: int, num_classes: int) -> None:
        super().__init__(
            OrderedDict(
                conv5_mask=nn.ConvTranspose2d(in_channels, dim_reduced, 2, 2, 0),
                relu=nn.ReLU(inplace=True),
                mask_fcn_logits=nn.Conv2d(dim_reduced, num_classes, 1, 1, 0),
            )
        )
        for name, parameter in self.named_parameters():
            if "weight" in name:
                nn.init.kaiming_normal_(parameter, mode="fan_out", nonlinearity="relu")


@network
def maskrcnn_resnet50_fpn(
    num_classes: int | None = None, weights_backbone: Any = "IMAGENET1K_V1",
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> MaskRCNN:  # fmt: skip
    """Mask R-CNN on ResNet-50 with a pyramid."""
    backbone = resnet50_pyramid(
        weights_backbone, has_weights, trainable_backbone_layers, pretrained_backbone
    )
    model = MaskRCNN(backbone, num_classes or COCO_CLASSES, **kwargs)
    if has_weights:
        overwrite_eps(model, 0.0)
    return model


@network
def maskrcnn_resnet50_fpn_v2(
    num_classes: int | None = None, weights_backbone: Any = None,
    trainable_backbone_layers: int | None = None, pretrained_backbone: bool | None = None,
    has_weights: bool = False, **kwargs: Any,
) -> MaskRCNN:  # fmt: skip
    """Mask R-CNN on ResNet-50 with a pyramid, the second version."""
    backbone = resnet50_pyramid(
        weights_backbone, has_weights, trainable_backbone_layers, pretrained_backbone,
        frozen=False, norm_layer=nn.BatchNorm2d,
    )  # fmt: skip
    heads = second_version(backbone)
    heads["mask_head"] = MaskRCNNHeads(backbone.out_channels, [256] * 4, 1, nn.BatchNorm2d)
    return MaskRCNN(backbone, num_classes or COCO_CLASSES, **{**heads, **kwargs})


__getattr__ = weights_in(__name__)
