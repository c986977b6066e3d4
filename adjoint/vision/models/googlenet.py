"""GoogLeNet (Szegedy et al., 2014)."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint import nn
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.registry import network, weights_in


class GoogLeNetOutputs(NamedTuple):
    """What the network gives while training: its answer and two from half way."""

    logits: Tensor
    aux_logits2: Tensor | None
    aux_logits1: Tensor | None


class BasicConv2d(nn.Module):
    """Convolution, normalisation, ReLU."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **options)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Four branches beside each other."""

    def __init__(
        self, in_channels: int, ch1x1: int, ch3x3red: int, ch3x3: int, ch5x5red: int, ch5x5: int,
        pool_proj: int,
    ) -> None:  # fmt: skip
        super().__init__()
        conv = BasicConv2d
        self.branch1 = conv(in_channels, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(
            conv(in_channels, ch3x3red, kernel_size=1),
            conv(ch3x3red, ch3x3, kernel_size=3, padding=1),
        )
        self.branch3 = nn.Sequential(  # 3x3, as the published weights are
            conv(in_channels, ch5x5red, kernel_size=1),
            conv(ch5x5red, ch5x5, kernel_size=3, padding=1),
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, 1, 1, ceil_mode=True), conv(in_channels, pool_proj, kernel_size=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    """An answer from half way."""

    def __init__(self, in_channels: int, num_classes: int, dropout: float = 0.7) -> None:
        super().__init__()
        self.conv = BasicConv2d(in_channels, 128, kernel_size=1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))


def as_if_scaled(x: Tensor) -> Tensor:
    """Images prepared as for other networks, as if prepared with mean and deviation of 0.5."""
    means, spreads = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    parts = [
        x[:, at : at + 1] * (spread / 0.5) + (mean - 0.5) / 0.5
        for at, (mean, spread) in enumerate(zip(means, spreads, strict=True))
    ]
    return cat(parts, 1)


def spread_weights(model: nn.Module) -> None:
    """Weights drawn from a normal distribution cut off at two deviations, as published."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            deviation = float(getattr(module, "stddev", 0.1))
            if not isinstance(model, GoogLeNet):
                nn.init.trunc_normal_(module.weight, 0.0, deviation, -2, 2)
            else:
                nn.init.trunc_normal_(module.weight, 0.0, 0.01, -2, 2)


# Blocks by name: channels in and the widths of `Inception`; None for pooling.
BLOCKS: dict[str, tuple[int, ...] | None] = {
    "inception3a": (192, 64, 96, 128, 16, 32, 32), "inception3b": (256, 128, 128, 192, 32, 96, 64),
    "maxpool3": None,
    "inception4a": (480, 192, 96, 208, 16, 48, 64), "inception4b": (512, 160, 112, 224, 24, 64, 64),
    "inception4c": (512, 128, 128, 256, 24, 64, 64),
    "inception4d": (512, 112, 144, 288, 32, 64, 64),
    "inception4e": (528, 256, 160, 320, 32, 128, 128), "maxpool4": None,
    "inception5a": (832, 256, 160, 320, 32, 128, 128),
    "inception5b": (832, 384, 192, 384, 48, 128, 128),
}  # fmt: skip


class GoogLeNet(nn.Module):
    """Inception blocks: (B, 3, H, W) -> (B, num_classes), with two more answers while training."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        blocks: Any = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        conv, block, aux = blocks or (BasicConv2d, Inception, InceptionAux)
        self.aux_logits = aux_logits
        self.transform_input = transform_input
        self.conv1 = conv(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = conv(64, 64, kernel_size=1)
        self.conv3 = conv(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        for name, widths in BLOCKS.items():
            size = 3 if name == "maxpool3" else 2
            layer = block(*widths) if widths else nn.MaxPool2d(size, 2, ceil_mode=True)
            self.add_module(name, layer)
        self.aux1 = aux(512, num_classes, dropout=dropout_aux) if aux_logits else None
        self.aux2 = aux(528, num_classes, dropout=dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(1024, num_classes)
        if init_weights is not False:
            spread_weights(self)

    def forward(self, x: Tensor) -> Any:
        x = as_if_scaled(x) if self.transform_input else x
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        answers: dict[str, Tensor] = {}
        for name in BLOCKS:
            x = getattr(self, name)(x)
            aux = {"inception4a": self.aux1, "inception4d": self.aux2}.get(name)
            if aux is not None and self.training:
                answers[name] = aux(x)
        x = self.fc(self.dropout(self.avgpool(x).flatten(1)))
        if self.training and self.aux_logits:
            return GoogLeNetOutputs(x, answers["inception4d"], answers["inception4a"])
        return x


@network
def googlenet(**options: Any) -> GoogLeNet:
    """GoogLeNet: 6,624,904 parameters without the auxiliary answers."""
    return GoogLeNet(**options)


__getattr__ = weights_in(__name__)
