"""EfficientNet (Tan and Le, 2019) and EfficientNetV2 (2021)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import make_divisible, network, weights_in
from adjoint.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from adjoint.vision.ops.stochastic_depth import StochasticDepth


@dataclass(slots=True)
class MBConvConfig:
    """A stage: expansion, kernel, stride, channels in and out, blocks."""

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    width_mult: float = 1.0
    depth_mult: float = 1.0
    block: Any = None

    def __post_init__(self) -> None:
        self.input_channels = make_divisible(self.input_channels * self.width_mult)
        self.out_channels = make_divisible(self.out_channels * self.width_mult)
        self.num_layers = math.ceil(self.num_layers * self.depth_mult)
        self.block = self.block or MBConv

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        """A number of channels times a factor, a multiple of eight."""
        return make_divisible(channels * width_mult, 8, min_value)


class _Block(nn.Module):
    """What both kinds of block share: a shortcut with stochastic depth where the shape is kept."""

    def __init__(
        self, fan_in: int, cnf: MBConvConfig, stride: int, drop: float, norm: Callable[..., Any]
    ) -> None:
        super().__init__()
        if not 1 <= stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = stride == 1 and fan_in == cnf.out_channels
        self.block = nn.Sequential(*self.layers(fan_in, cnf, stride, norm))
        self.stochastic_depth = StochasticDepth(drop, "row")
        self.out_channels = cnf.out_channels

    def layers(self, fan_in: int, cnf: MBConvConfig, stride: int, norm: Any) -> list[nn.Module]:
        """The layers beside the shortcut."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        out = self.block(x)
        return self.stochastic_depth(out) + x if self.use_res_connect else out


class MBConv(_Block):
    """Widen, filter each channel, weight channels, narrow."""

    def layers(self, fan_in: int, cnf: MBConvConfig, stride: int, norm: Any) -> list[nn.Module]:
        make = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.SiLU)
        wide = make_divisible(fan_in * cnf.expand_ratio)
        out: list[nn.Module] = [make(fan_in, wide, 1)] if wide != fan_in else []
        out.append(make(wide, wide, cnf.kernel, stride, groups=wide))
        squeeze = max(1, fan_in // 4)
        out.append(SqueezeExcitation(wide, squeeze, activation=partial(nn.SiLU, inplace=True)))
        out.append(make(wide, cnf.out_channels, 1, activation_layer=None))
        return out


class FusedMBConv(_Block):
    """One full convolution in place of widening and filtering."""

    def layers(self, fan_in: int, cnf: MBConvConfig, stride: int, norm: Any) -> list[nn.Module]:
        make = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.SiLU)
        wide = make_divisible(fan_in * cnf.expand_ratio)
        if wide == fan_in:
            return [make(fan_in, cnf.out_channels, cnf.kernel, stride)]
        narrow = make(wide, cnf.out_channels, 1, activation_layer=None)
        return [make(fan_in, wide, cnf.kernel, stride), narrow]


class EfficientNet(nn.Module):
    """Stages of blocks: (B, 3, H, W) -> (B, num_classes)."""

    def __init__(
        self,
        inverted_residual_setting: Sequence[MBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Callable[..., nn.Module] | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        norm = norm_layer or nn.BatchNorm2d
        make = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.SiLU)
        settings = list(inverted_residual_setting)
        layers: list[nn.Module] = [make(3, settings[0].input_channels, 3, 2)]
        total, seen = sum(stage.num_layers for stage in settings), 0
        for setting in settings:
            blocks, fan_in = [], setting.input_channels
            for index in range(setting.num_layers):
                drop = stochastic_depth_prob * seen / total
                stride = setting.stride if index == 0 else 1
                blocks.append(setting.block(fan_in, setting, stride, drop, norm))
                fan_in, seen = setting.out_channels, seen + 1
            layers.append(nn.Sequential(*blocks))
        width = settings[-1].out_channels
        last = 4 * width if last_channel is None else last_channel
        self.features = nn.Sequential(*layers, make(width, last, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                bound = 1.0 / math.sqrt(module.out_features)
                nn.init.uniform_(module.weight, -bound, bound)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


# expansion, kernel, stride, channels in, channels out, blocks
FIRST = (
    (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
)  # fmt: skip
# The same of the second version; the first three stages are fused.
SECOND = {
    "s": ((1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4), (4, 3, 2, 64, 128, 6),
          (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15)),
    "m": ((1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5), (4, 3, 2, 80, 160, 7),
          (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5)),
    "l": ((1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7), (4, 3, 2, 96, 192, 10),
          (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25), (6, 3, 1, 384, 640, 7)),
}  # fmt: skip


def _first(width: float, depth: float, dropout: float, **options: Any) -> EfficientNet:
    settings = [MBConvConfig(*row, width, depth) for row in FIRST]
    return EfficientNet(settings, options.pop("dropout", dropout), **options)


def _second(size: str, dropout: float, **options: Any) -> EfficientNet:
    settings = [
        MBConvConfig(*row, block=FusedMBConv if at < 3 else MBConv)
        for at, row in enumerate(SECOND[size])
    ]
    options.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=1e-03))
    return EfficientNet(settings, options.pop("dropout", dropout), last_channel=1280, **options)


_SLOW = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)


@network
def efficientnet_b0(**options: Any) -> EfficientNet:
    """EfficientNet-B0: 5,288,548 parameters."""
    return _first(1.0, 1.0, 0.2, **options)


@network
def efficientnet_b1(**options: Any) -> EfficientNet:
    """EfficientNet-B1: 7,794,184 parameters."""
    return _first(1.0, 1.1, 0.2, **options)


@network
def efficientnet_b2(**options: Any) -> EfficientNet:
    """EfficientNet-B2: 9,109,994 parameters."""
    return _first(1.1, 1.2, 0.3, **options)


@network
def efficientnet_b3(**options: Any) -> EfficientNet:
    """EfficientNet-B3: 12,233,232 parameters."""
    return _first(1.2, 1.4, 0.3, **options)


@network
def efficientnet_b4(**options: Any) -> EfficientNet:
    """EfficientNet-B4: 19,341,616 parameters."""
    return _first(1.4, 1.8, 0.4, **options)


@network
def efficientnet_b5(**options: Any) -> EfficientNet:
    """EfficientNet-B5: 30,389,784 parameters."""
    return _first(1.6, 2.2, 0.4, **{"norm_layer": _SLOW, **options})


@network
def efficientnet_b6(**options: Any) -> EfficientNet:
    """EfficientNet-B6: 43,040,704 parameters."""
    return _first(1.8, 2.6, 0.5, **{"norm_layer": _SLOW, **options})


@network
def efficientnet_b7(**options: Any) -> EfficientNet:
    """EfficientNet-B7: 66,347,960 parameters."""
    return _first(2.0, 3.1, 0.5, **{"norm_layer": _SLOW, **options})


@network
def efficientnet_v2_s(**options: Any) -> EfficientNet:
    """EfficientNetV2-S: 21,458,488 parameters."""
    return _second("s", 0.2, **options)


@network
def efficientnet_v2_m(**options: Any) -> EfficientNet:
    """EfficientNetV2-M: 54,139,356 parameters."""
    return _second("m", 0.3, **options)


@network
def efficientnet_v2_l(**options: Any) -> EfficientNet:
    """EfficientNetV2-L: 118,515,272 parameters."""
    return _second("l", 0.4, **options)


__getattr__ = weights_in(__name__)
