"""VGG networks (Simonyan and Zisserman, 2014), with torchvision's weight names."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor

# Channels of each convolution; M is a pooling.
PLANS = {
    11: "64 M 128 M 256 256 M 512 512 M 512 512 M",
    13: "64 64 M 128 128 M 256 256 M 512 512 M 512 512 M",
    16: "64 64 M 128 128 M 256 256 256 M 512 512 512 M 512 512 512 M",
    19: "64 64 M 128 128 M 256 256 256 256 M 512 512 512 512 M 512 512 512 512 M",
}


def make_layers(cfg: Sequence[int | str], batch_norm: bool = False) -> nn.Sequential:
    """Convolutions of so many channels each, and poolings ("M")."""
    layers: list[nn.Module] = []
    fan_in = 3
    for word in cfg:
        if word == "M":
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers.append(nn.Conv2d(fan_in, int(word), 3, padding=1))
        layers += [nn.BatchNorm2d(int(word))] if batch_norm else []
        layers.append(nn.ReLU(inplace=True))
        fan_in = int(word)
    return nn.Sequential(*layers)


class VGG(nn.Module):
    """3x3 convolutions and poolings by a plan, then three linear layers.

    Args:
        plan: channels of the convolutions, and M for a pooling; or these layers themselves.
        batch_norm: whether each convolution is normalised.
        hidden: width of the linear layers.

    Shape:
        (B, 3, H, W) -> (B, num_classes)
    """

    def __init__(
        self,
        plan: str | nn.Module,
        num_classes: int = 1000,
        batch_norm: bool = False,
        hidden: int = 4096,
        dropout: float = 0.5,
        init_weights: bool = True,
    ) -> None:
        super().__init__()
        built = make_layers(plan.split(), batch_norm) if isinstance(plan, str) else plan
        self.features = built
        widths = [m.out_channels for m in built.modules() if isinstance(m, nn.Conv2d)]
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(widths[-1] * 49, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )
        for module in self.modules() if init_weights else ():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def vgg11(num_classes: int = 1000, batch_norm: bool = False) -> VGG:
    """VGG-11: 132,863,336 parameters."""
    return VGG(PLANS[11], num_classes, batch_norm)


def vgg13(num_classes: int = 1000, batch_norm: bool = False) -> VGG:
    """VGG-13: 133,047,848 parameters."""
    return VGG(PLANS[13], num_classes, batch_norm)


def vgg16(num_classes: int = 1000, batch_norm: bool = False) -> VGG:
    """VGG-16: 138,357,544 parameters."""
    return VGG(PLANS[16], num_classes, batch_norm)


def vgg19(num_classes: int = 1000, batch_norm: bool = False) -> VGG:
    """VGG-19: 143,667,240 parameters."""
    return VGG(PLANS[19], num_classes, batch_norm)


def vgg11_bn(num_classes: int = 1000) -> VGG:
    """VGG-11 with batch normalisation: 132,868,840 parameters."""
    return vgg11(num_classes, batch_norm=True)


def vgg13_bn(num_classes: int = 1000) -> VGG:
    """VGG-13 with batch normalisation: 133,053,736 parameters."""
    return vgg13(num_classes, batch_norm=True)


def vgg16_bn(num_classes: int = 1000) -> VGG:
    """VGG-16 with batch normalisation: 138,365,992 parameters."""
    return vgg16(num_classes, batch_norm=True)


def vgg19_bn(num_classes: int = 1000) -> VGG:
    """VGG-19 with batch normalisation: 143,678,248 parameters."""
    return vgg19(num_classes, batch_norm=True)
