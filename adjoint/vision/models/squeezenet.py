"""SqueezeNet (Iandola et al., 2016)."""

from __future__ import annotations

from typing import Any

from adjoint import nn
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import network, weights_in

# Version -> channels and size of the first convolution, then Fire's widths, 0 for pooling.
PLANS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "1_0": (96, 7, (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
    "1_1": (64, 3, (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64)),
}


class Fire(nn.Module):
    """A narrow 1x1 convolution, then 1x1 and 3x3 ones beside each other."""

    def __init__(
        self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int
    ) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        wide = [self.expand1x1_activation(self.expand1x1(x))]
        return cat([*wide, self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """Fire blocks and a convolution that classifies: (B, 3, H, W) -> (B, num_classes)."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in PLANS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        channels, size, plan = PLANS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, size, 2), nn.ReLU(inplace=True)]
        for width in plan:
            if width:
                layers.append(Fire(channels, width, 4 * width, 4 * width))
                channels = 8 * width
            else:
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(512, num_classes, 1)
        pool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), last, nn.ReLU(inplace=True), pool)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                if module is last:
                    nn.init.normal_(module.weight, 0.0, 0.01)
                else:
                    nn.init.kaiming_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)


@network
def squeezenet1_0(**options: Any) -> SqueezeNet:
    """SqueezeNet 1.0: 1,248,424 parameters."""
    return SqueezeNet("1_0", **options)


@network
def squeezenet1_1(**options: Any) -> SqueezeNet:
    """SqueezeNet 1.1: 1,235,496 parameters."""
    return SqueezeNet("1_1", **options)


__getattr__ = weights_in(__name__)
