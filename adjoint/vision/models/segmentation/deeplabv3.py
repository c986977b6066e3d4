"""DeepLabV3 (Chen et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models._utils import IntermediateLayerGetter
from adjoint.vision.models.mobilenetv3 import mobilenet_v3_large
from adjoint.vision.models.registry import load_backbone, network, weights_in
from adjoint.vision.models.segmentation._utils import _SimpleSegmentationModel, resnet_backbone
from adjoint.vision.models.segmentation.fcn import FCNHead


class DeepLabV3(_SimpleSegmentationModel):
    """A backbone and a classifier that looks at several distances."""


def _conv(fan_in: int, out: int, size: int = 1, dilation: int = 1) -> list[nn.Module]:
    padding = dilation if size == 3 else 0
    conv = nn.Conv2d(fan_in, out, size, padding=padding, dilation=dilation, bias=False)
    return [conv, nn.BatchNorm2d(out), nn.ReLU()]


class ASPPConv(nn.Sequential):
    """One distance."""

    def __init__(self, in_channels: int, out_channels: int, dilation: int) -> None:
        super().__init__(*_conv(in_channels, out_channels, 3, dilation))


class ASPPPooling(nn.Sequential):
    """The whole image."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), *_conv(in_channels, out_channels))

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        return F.interpolate(super().forward(x), size=size, mode="bilinear", align_corners=False)


class ASPP(nn.Module):
    """Single pixels, several distances and the whole image, beside each other."""

    def __init__(
        self, in_channels: int, atrous_rates: Sequence[int], out_channels: int = 256
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Sequential(*_conv(in_channels, out_channels))]
        parts += [ASPPConv(in_channels, out_channels, rate) for rate in atrous_rates]
        parts.append(ASPPPooling(in_channels, out_channels))
        self.convs = nn.ModuleList(parts)
        self.project = nn.Sequential(
            *_conv(len(parts) * out_channels, out_channels), nn.Dropout(0.5)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.project(cat([part(x) for part in self.convs], 1))


class DeepLabHead(nn.Sequential):
    """`ASPP` and a classifier."""

    def __init__(
        self, in_channels: int, num_classes: int, atrous_rates: Sequence[int] = (12, 24, 36)
    ) -> None:
        middle = nn.Conv2d(256, 256, 3, padding=1, bias=False)
        last = nn.Conv2d(256, num_classes, 1)
        look = ASPP(in_channels, atrous_rates)
        super().__init__(look, middle, nn.BatchNorm2d(256), nn.ReLU(), last)


def _build(
    source: str, num_classes: int, aux_loss: bool | None, weights_backbone: Any
) -> DeepLabV3:
    backbone = resnet_backbone(f"deeplabv3_{source}", source, weights_backbone, aux_loss)
    aux = FCNHead(1024, num_classes) if aux_loss else None
    return DeepLabV3(backbone, DeepLabHead(2048, num_classes), aux)


@network
def deeplabv3_resnet50(
    num_classes: int = 21, aux_loss: bool | None = None, weights_backbone: Any = None
) -> DeepLabV3:
    """DeepLabV3 on ResNet-50."""
    return _build("resnet50", num_classes, aux_loss, weights_backbone)


@network
def deeplabv3_resnet101(
    num_classes: int = 21, aux_loss: bool | None = None, weights_backbone: Any = None
) -> DeepLabV3:
    """DeepLabV3 on ResNet-101."""
    return _build("resnet101", num_classes, aux_loss, weights_backbone)


@network
def deeplabv3_mobilenet_v3_large(
    num_classes: int = 21, aux_loss: bool | None = None, weights_backbone: Any = None
) -> DeepLabV3:
    """DeepLabV3 on MobileNetV3-Large."""
    trunk = mobilenet_v3_large(_dilated=True)
    load_backbone("deeplabv3_mobilenet_v3_large", trunk, weights_backbone, "mobilenet_v3_large")
    layers = trunk.features
    halvings = [0, *(i for i, layer in enumerate(layers) if getattr(layer, "_is_cn", False))]
    last, middle = len(layers) - 1, halvings[-3]
    wanted = {str(last): "out"} | ({str(middle): "aux"} if aux_loss else {})
    aux = FCNHead(layers[middle].out_channels, num_classes) if aux_loss else None
    head = DeepLabHead(layers[last].out_channels, num_classes)
    return DeepLabV3(IntermediateLayerGetter(layers, wanted), head, aux)


__getattr__ = weights_in(__name__)
