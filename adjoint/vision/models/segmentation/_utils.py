"""What networks of this kind share."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models._utils import IntermediateLayerGetter
from adjoint.vision.models.registry import load_backbone
from adjoint.vision.models.resnet import resnet50, resnet101

_RESNETS = {"resnet50": resnet50, "resnet101": resnet101}


class _SimpleSegmentationModel(nn.Module):
    """A backbone, a classifier of its last result and perhaps one of an earlier."""

    def __init__(
        self, backbone: nn.Module, classifier: nn.Module, aux_classifier: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = classifier
        self.aux_classifier = aux_classifier

    def forward(self, x: Tensor) -> dict[str, Any]:
        """(B, 3, H, W) -> "out" (and "aux") of (B, classes, H, W)."""
        size, features = x.shape[-2:], self.backbone(x)
        out: OrderedDict[str, Any] = OrderedDict()
        for name, head in (("out", self.classifier), ("aux", self.aux_classifier)):
            if head is not None:
                out[name] = F.interpolate(
                    head(features[name]), size=size, mode="bilinear", align_corners=False
                )
        return out


def resnet_backbone(name: str, source: str, weights: Any, aux: bool | None) -> nn.Module:
    """A residual network that keeps its size in the last two stages, with their results."""
    trunk = _RESNETS[source](replace_stride_with_dilation=[False, True, True])
    load_backbone(name, trunk, weights, source)
    layers = {"layer4": "out"}
    if aux:
        layers["layer3"] = "aux"
    return IntermediateLayerGetter(trunk, layers)
