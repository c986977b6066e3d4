"""MobileNetV2 (Sandler et al., 2018), with torchvision's weight names."""

from __future__ import annotations

from adjoint import nn
from adjoint.engine.ops.shape.dims import flatten
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F

# expansion, channels, blocks, stride
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def divisible(value: float, by: int = 8) -> int:
    """The multiple of `by` nearest to a width, never more than a tenth below it."""
    near = max(by, int(value + by / 2) // by * by)
    return near + by if near < 0.9 * value else near


class ConvNorm(nn.Sequential):
    """Convolution, normalisation, ReLU6."""

    def __init__(
        self, fan_in: int, fan_out: int, size: int = 3, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(
            nn.Conv2d(fan_in, fan_out, size, stride, (size - 1) // 2, groups=groups, bias=False),
            nn.BatchNorm2d(fan_out),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    """Widen, filter each channel by itself, narrow; a shortcut where the shape is kept."""

    def __init__(self, fan_in: int, fan_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = fan_in * expansion
        self.shortcut = stride == 1 and fan_in == fan_out
        layers: list[nn.Module] = [] if expansion == 1 else [ConvNorm(fan_in, hidden, 1)]
        self.conv = nn.Sequential(
            *layers,
            ConvNorm(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, fan_out, 1, bias=False),
            nn.BatchNorm2d(fan_out),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNetV2(nn.Module):
    """Inverted residual blocks: 3,504,872 parameters at width 1.

    Args:
        num_classes: size of the output.
        width: factor of all channel counts.

    Shape:
        (B, 3, H, W) -> (B, num_classes)
    """

    def __init__(self, num_classes: int = 1000, width: float = 1.0, dropout: float = 0.2) -> None:
        super().__init__()
        channels = divisible(32 * width)
        last = divisible(1280 * max(1.0, width))
        layers: list[nn.Module] = [ConvNorm(3, channels, stride=2)]
        for expansion, base, count, stride in STAGES:
            for index in range(count):
                out = divisible(base * width)
                step = stride if index == 0 else 1
                layers.append(InvertedResidual(channels, out, step, expansion))
                channels = out
        layers.append(ConvNorm(channels, last, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, num_classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(flatten(pooled, 1))


def mobilenet_v2(num_classes: int = 1000) -> MobileNetV2:
    """MobileNetV2 at width 1."""
    return MobileNetV2(num_classes)
