"""MobileNetV3 (Howard et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import make_divisible, network, weights_in
from adjoint.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation


class InvertedResidualConfig:
    """One block: channels in, between and out, kernel, squeeze, activation, stride, dilation."""

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int = 1,
        width_mult: float = 1.0,
    ) -> None:
        self.input_channels = make_divisible(input_channels * width_mult)
        self.kernel = kernel
        self.expanded_channels = make_divisible(expanded_channels * width_mult)
        self.out_channels = make_divisible(out_channels * width_mult)
        self.use_se = use_se
        self.use_hs = activation == "HS"
        self.stride = stride
        self.dilation = dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """A number of channels times a factor, a multiple of eight."""
        return make_divisible(channels * width_mult)


class InvertedResidual(nn.Module):
    """Widen, filter each channel, weight channels, narrow; a shortcut where the shape is kept."""

    def __init__(self, cnf: InvertedResidualConfig, norm_layer: Callable[..., Any]) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        activation: Any = nn.Hardswish if cnf.use_hs else nn.ReLU
        wide = cnf.expanded_channels
        make = partial(Conv2dNormActivation, norm_layer=norm_layer)
        layers: list[nn.Module] = []
        if wide != cnf.input_channels:
            layers.append(make(cnf.input_channels, wide, 1, activation_layer=activation))
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers.append(
            make(wide, wide, cnf.kernel, stride, dilation=cnf.dilation, groups=wide,
                 activation_layer=activation)
        )  # fmt: skip
        if cnf.use_se:
            narrow = make_divisible(wide // 4)
            layers.append(SqueezeExcitation(wide, narrow, scale_activation=nn.Hardsigmoid))
        layers.append(make(wide, cnf.out_channels, 1, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.out_channels = cnf.out_channels
        self._is_cn = cnf.stride > 1

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x) + x if self.use_res_connect else self.block(x)


class MobileNetV3(nn.Module):
    """Inverted residual blocks: (B, 3, H, W) -> (B, num_classes)."""

    def __init__(
        self,
        inverted_residual_setting: Sequence[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        make = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.Hardswish)
        settings = list(inverted_residual_setting)
        layers: list[nn.Module] = [make(3, settings[0].input_channels, 3, 2)]
        layers += [(block or InvertedResidual)(setting, norm) for setting in settings]
        wide = 6 * settings[-1].out_channels
        layers.append(make(settings[-1].out_channels, wide, 1))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(wide, last_channel), nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True), nn.Linear(last_channel, num_classes),
        )  # fmt: skip
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


# in, kernel, between, out, squeeze, activation, stride; the last three are the tail.
LARGE = (
    (16, 3, 16, 16, False, "RE", 1), (16, 3, 64, 24, False, "RE", 2),
    (24, 3, 72, 24, False, "RE", 1), (24, 5, 72, 40, True, "RE", 2),
    (40, 5, 120, 40, True, "RE", 1), (40, 5, 120, 40, True, "RE", 1),
    (40, 3, 240, 80, False, "HS", 2), (80, 3, 200, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1), (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 480, 112, True, "HS", 1), (112, 3, 672, 112, True, "HS", 1),
    (112, 5, 672, 160, True, "HS", 2), (160, 5, 960, 160, True, "HS", 1),
    (160, 5, 960, 160, True, "HS", 1),
)  # fmt: skip
SMALL = (
    (16, 3, 16, 16, True, "RE", 2), (16, 3, 72, 24, False, "RE", 2),
    (24, 3, 88, 24, False, "RE", 1), (24, 5, 96, 40, True, "HS", 2),
    (40, 5, 240, 40, True, "HS", 1), (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 120, 48, True, "HS", 1), (48, 5, 144, 48, True, "HS", 1),
    (48, 5, 288, 96, True, "HS", 2), (96, 5, 576, 96, True, "HS", 1),
    (96, 5, 576, 96, True, "HS", 1),
)  # fmt: skip


def _build(
    plan: Sequence[Any], last: int, width_mult: float = 1.0, reduced_tail: bool = False,
    dilated: bool = False, **options: Any,
) -> MobileNetV3:  # fmt: skip
    divide, dilation = (2 if reduced_tail else 1), (2 if dilated else 1)
    settings = []
    for at, (fan_in, kernel, between, out, *rest) in enumerate(plan):
        tail = at - (len(plan) - 3)  # the first block of the tail narrows, those after are narrow
        row: list[Any] = [
            fan_in // (divide if tail > 0 else 1), kernel,
            between // (divide if tail > 0 else 1), out // (divide if tail >= 0 else 1),
        ]  # fmt: skip
        spread = dilation if tail >= 0 else 1
        settings.append(InvertedResidualConfig(*[*row, *rest, spread, width_mult]))
    last = make_divisible(last // divide * width_mult)
    return MobileNetV3(settings, last, **options)


@network
def mobilenet_v3_large(**options: Any) -> MobileNetV3:
    """MobileNetV3-Large: 5,483,032 parameters."""
    return _build(LARGE, 1280, **_private(options))


@network
def mobilenet_v3_small(**options: Any) -> MobileNetV3:
    """MobileNetV3-Small: 2,542,856 parameters."""
    return _build(SMALL, 1024, **_private(options))


def _private(options: dict[str, Any]) -> dict[str, Any]:
    """Options whose names torchvision starts with an underscore."""
    return {name.lstrip("_"): value for name, value in options.items()}


__getattr__ = weights_in(__name__)
