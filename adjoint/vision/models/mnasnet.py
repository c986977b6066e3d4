"""MNASNet (Tan et al., 2018)."""

from __future__ import annotations

from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import make_divisible, network, weights_in

_MOMENTUM = 1 - 0.9997
# width, kernel, stride, expansion, blocks
STAGES = (
    (24, 3, 2, 3, 3), (40, 5, 2, 3, 3), (80, 5, 2, 6, 3), (96, 3, 1, 6, 2), (192, 5, 2, 6, 4),
    (320, 3, 1, 6, 1),
)  # fmt: skip


def _conv(fan_in: int, fan_out: int, size: int = 1, stride: int = 1, groups: int = 1) -> list[Any]:
    conv = nn.Conv2d(fan_in, fan_out, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(fan_out, momentum=_MOMENTUM)]


class _InvertedResidual(nn.Module):
    def __init__(self, fan_in: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        middle = fan_in * expansion
        self.apply_residual = fan_in == out and stride == 1
        self.layers = nn.Sequential(
            *_conv(fan_in, middle), nn.ReLU(inplace=True),
            *_conv(middle, middle, kernel, stride, middle), nn.ReLU(inplace=True),
            *_conv(middle, out),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x) + x if self.apply_residual else self.layers(x)


class MNASNet(nn.Module):
    """Inverted residual blocks of widths times `alpha`: (B, 3, H, W) -> (B, num_classes)."""

    _version = 2

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha = alpha
        self.num_classes = num_classes
        first, width = make_divisible(32 * alpha), make_divisible(16 * alpha)
        layers: list[nn.Module] = [
            *_conv(3, first, 3, 2), nn.ReLU(inplace=True),
            *_conv(first, first, 3, 1, first), nn.ReLU(inplace=True), *_conv(first, width),
        ]  # fmt: skip
        for base, kernel, stride, expansion, count in STAGES:
            out = make_divisible(base * alpha)
            blocks = [_InvertedResidual(width, out, kernel, stride, expansion)]
            blocks += [_InvertedResidual(out, out, kernel, 1, expansion) for _ in range(count - 1)]
            layers.append(nn.Sequential(*blocks))
            width = out
        self.layers = nn.Sequential(*layers, *_conv(width, 1280), nn.ReLU(inplace=True))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout, inplace=True), nn.Linear(1280, num_classes)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.kaiming_uniform_(module.weight, mode="fan_out", nonlinearity="sigmoid")
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.layers(x).mean([2, 3]))


@network
def mnasnet0_5(**options: Any) -> MNASNet:
    """MNASNet at half width."""
    return MNASNet(0.5, **options)


@network
def mnasnet0_75(**options: Any) -> MNASNet:
    """MNASNet at three quarters of the width."""
    return MNASNet(0.75, **options)


@network
def mnasnet1_0(**options: Any) -> MNASNet:
    """MNASNet: 4,383,312 parameters."""
    return MNASNet(1.0, **options)


@network
def mnasnet1_3(**options: Any) -> MNASNet:
    """MNASNet at 1.3 times the width."""
    return MNASNet(1.3, **options)


__getattr__ = weights_in(__name__)
