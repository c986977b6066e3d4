"""LR-ASPP (Howard et al., 2019)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models._utils import IntermediateLayerGetter
from adjoint.vision.models.mobilenetv3 import mobilenet_v3_large
from adjoint.vision.models.registry import load_backbone, network, weights_in


class LRASPPHead(nn.Module):
    """The last result weighted by the whole image, beside an earlier, larger one."""

    def __init__(
        self, low_channels: int, high_channels: int, num_classes: int, inter_channels: int
    ) -> None:
        super().__init__()
        self.cbr = nn.Sequential(
            nn.Conv2d(high_channels, inter_channels, 1, bias=False),
            nn.BatchNorm2d(inter_channels), nn.ReLU(inplace=True),
        )  # fmt: skip
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(high_channels, inter_channels, 1, bias=False),
            nn.Sigmoid(),
        )  # fmt: skip
        self.low_classifier = nn.Conv2d(low_channels, num_classes, 1)
        self.high_classifier = nn.Conv2d(inter_channels, num_classes, 1)

    def forward(self, input: dict[str, Tensor]) -> Tensor:
        low, high = input["low"], input["high"]
        x = self.cbr(high) * self.scale(high)
        x = F.interpolate(x, size=low.shape[-2:], mode="bilinear", align_corners=False)
        return self.low_classifier(low) + self.high_classifier(x)


class LRASPP(nn.Module):
    """A backbone that gives "low" and "high", and `LRASPPHead`."""

    def __init__(
        self, backbone: nn.Module, low_channels: int, high_channels: int, num_classes: int,
        inter_channels: int = 128,
    ) -> None:  # fmt: skip
        super().__init__()
        self.backbone = backbone
        self.classifier = LRASPPHead(low_channels, high_channels, num_classes, inter_channels)

    def forward(self, input: Tensor) -> dict[str, Any]:
        """(B, 3, H, W) -> "out" of (B, classes, H, W)."""
        out = self.classifier(self.backbone(input))
        size = input.shape[-2:]
        out = F.interpolate(out, size=size, mode="bilinear", align_corners=False)
        return OrderedDict(out=out)


@network
def lraspp_mobilenet_v3_large(num_classes: int = 21, weights_backbone: Any = None) -> LRASPP:
    """LR-ASPP on MobileNetV3-Large."""
    trunk = mobilenet_v3_large(_dilated=True)
    load_backbone("lraspp_mobilenet_v3_large", trunk, weights_backbone, "mobilenet_v3_large")
    layers = trunk.features
    halvings = [0, *(i for i, layer in enumerate(layers) if getattr(layer, "_is_cn", False))]
    low, high = halvings[-3], len(layers) - 1
    getter = IntermediateLayerGetter(layers, {str(low): "low", str(high): "high"})
    return LRASPP(getter, layers[low].out_channels, layers[high].out_channels, num_classes)


__getattr__ = weights_in(__name__)
