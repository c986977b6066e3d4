"""RegNet (Radosavovic et al., 2020)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import make_divisible, network, weights_in
from adjoint.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation


class BlockParams:
    """Widths, strides, depths and groups of the stages, from the line that RegNets are."""

    def __init__(
        self, depth: int, w_0: int, w_a: float, w_m: float, group_width: int,
        bottleneck_multiplier: float = 1.0, se_ratio: float | None = None,
    ) -> None:  # fmt: skip
        if w_a < 0 or w_0 <= 0 or w_m <= 1 or w_0 % 8:
            raise ValueError(f"Invalid RegNet settings: w_0 {w_0}, w_a {w_a}, w_m {w_m}")
        along = np.arange(depth) * w_a + w_0
        steps = np.round(np.log(along / w_0) / math.log(w_m))
        widths = (np.round(w_0 * np.power(w_m, steps) / 8) * 8).astype(int).tolist()
        self.depths = [widths.count(width) for width in dict.fromkeys(widths)]
        self.widths, self.group_widths = [], []
        for width in dict.fromkeys(widths):
            middle = int(width * bottleneck_multiplier)
            group = min(group_width, middle)
            self.widths.append(int(make_divisible(middle, group) / bottleneck_multiplier))
            self.group_widths.append(group)
        self.bottleneck_multiplier = bottleneck_multiplier
        self.se_ratio = se_ratio

    @classmethod
    def from_init_params(cls, **kwargs: Any) -> BlockParams:
        """The parameters by name."""
        return cls(**kwargs)


class _Bottleneck(nn.Sequential):
    def __init__(
        self, fan_in: int, out: int, stride: int, norm: Callable[..., Any], group: int,
        multiplier: float, squeeze: float | None,
    ) -> None:  # fmt: skip
        make = partial(Conv2dNormActivation, norm_layer=norm)
        middle = round(out * multiplier)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["a"] = make(fan_in, middle, 1)
        layers["b"] = make(middle, middle, 3, stride, groups=middle // group)
        if squeeze:
            layers["se"] = SqueezeExcitation(middle, round(squeeze * fan_in))
        layers["c"] = make(middle, out, 1, activation_layer=None)
        super().__init__(layers)


class ResBottleneckBlock(nn.Module):
    """A bottleneck beside a shortcut."""

    def __init__(
        self, width_in: int, width_out: int, stride: int, norm_layer: Callable[..., Any],
        group_width: int, bottleneck_multiplier: float, se_ratio: float | None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.proj = None
        if width_in != width_out or stride != 1:
            self.proj = Conv2dNormActivation(
                width_in, width_out, 1, stride, norm_layer=norm_layer, activation_layer=None
            )
        self.f = _Bottleneck(
            width_in, width_out, stride, norm_layer, group_width, bottleneck_multiplier, se_ratio
        )
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.proj is None else self.proj(x)
        return self.activation(shortcut + self.f(x))


class RegNet(nn.Module):
    """A stem and four stages of bottlenecks: (B, 3, H, W) -> (B, num_classes)."""

    def __init__(
        self,
        block_params: BlockParams,
        num_classes: int = 1000,
        stem_width: int = 32,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm, params = norm_layer or nn.BatchNorm2d, block_params
        self.stem = Conv2dNormActivation(3, stem_width, 3, 2, norm_layer=norm)
        width, stages = stem_width, OrderedDict[str, nn.Module]()
        for stage, (out, depth, group) in enumerate(
            zip(params.widths, params.depths, params.group_widths, strict=True), 1
        ):
            blocks = OrderedDict[str, nn.Module]()
            for index in range(depth):
                blocks[f"block{stage}-{index}"] = ResBottleneckBlock(
                    width, out, 2 if index == 0 else 1, norm, group,
                    params.bottleneck_multiplier, params.se_ratio,
                )  # fmt: skip
                width = out
            stages[f"block{stage}"] = nn.Sequential(blocks)
        self.trunk_output = nn.Sequential(stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = math.prod(module.kernel_size) * module.out_channels
                nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / fan_out))
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0.0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.avgpool(self.trunk_output(self.stem(x))).flatten(1))


# depth, w_0, w_a, w_m, group width
PLANS = {
    "regnet_y_400mf": (16, 48, 27.89, 2.09, 8), "regnet_y_800mf": (14, 56, 38.84, 2.4, 16),
    "regnet_y_1_6gf": (27, 48, 20.71, 2.65, 24), "regnet_y_3_2gf": (21, 80, 42.63, 2.66, 24),
    "regnet_y_8gf": (17, 192, 76.82, 2.19, 56), "regnet_y_16gf": (18, 200, 106.23, 2.48, 112),
    "regnet_y_32gf": (20, 232, 115.89, 2.53, 232), "regnet_y_128gf": (27, 456, 160.83, 2.52, 264),
    "regnet_x_400mf": (22, 24, 24.48, 2.54, 16), "regnet_x_800mf": (16, 56, 35.73, 2.28, 16),
    "regnet_x_1_6gf": (18, 80, 34.01, 2.25, 24), "regnet_x_3_2gf": (25, 88, 26.31, 2.25, 48),
    "regnet_x_8gf": (23, 80, 49.56, 2.88, 120), "regnet_x_16gf": (22, 216, 55.59, 2.1, 128),
    "regnet_x_32gf": (23, 320, 69.86, 2.0, 168),
}  # fmt: skip


def _builder(name: str, plan: tuple[Any, ...]) -> Callable[..., Any]:
    def build(**options: Any) -> RegNet:
        squeeze = 0.25 if name.startswith("regnet_y") else None
        options.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1))
        return RegNet(BlockParams(*[*plan, 1.0, squeeze]), **options)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"RegNet{name[7].upper()} at {name[9:].replace('_', '.')} FLOPs."
    return network(build)


globals().update({name: _builder(name, plan) for name, plan in PLANS.items()})

__getattr__ = weights_in(__name__)
