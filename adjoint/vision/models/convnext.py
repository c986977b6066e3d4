"""ConvNeXt (Liu et al., 2022)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from adjoint import nn
from adjoint.engine.ops.create.creation import ones
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.misc import Conv2dNormActivation, Permute
from adjoint.vision.ops.stochastic_depth import StochasticDepth


class LayerNorm2d(nn.LayerNorm):
    """Normalisation over the channels of images."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """A wide filter of each channel and two linear layers, beside a shortcut."""

    def __init__(
        self,
        dim: int,
        layer_scale: float,
        stochastic_depth_prob: float,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim, bias=True), Permute([0, 2, 3, 1]),
            norm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim),
            Permute([0, 3, 1, 2]),
        )  # fmt: skip
        self.layer_scale = nn.Parameter(ones(dim, 1, 1) * layer_scale)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        return self.stochastic_depth(self.layer_scale * self.block(input)) + input


@dataclass(slots=True)
class CNBlockConfig:
    """A stage: its width, the width after it (None for the last), its blocks."""

    input_channels: int
    out_channels: int | None
    num_layers: int


class ConvNeXt(nn.Module):
    """Stages of blocks with halvings between them: (B, 3, H, W) -> (B, num_classes)."""

    def __init__(
        self,
        block_setting: Sequence[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError("The block_setting should not be empty")
        norm, make = norm_layer or partial(LayerNorm2d, eps=1e-6), block or CNBlock
        first = block_setting[0].input_channels
        layers: list[nn.Module] = [
            Conv2dNormActivation(
                3, first, 4, 4, 0, norm_layer=norm, activation_layer=None, bias=True
            )
        ]
        total, seen = sum(stage_setting.num_layers for stage_setting in block_setting), 0
        for setting in block_setting:
            stage = []
            for _ in range(setting.num_layers):
                drop = stochastic_depth_prob * seen / (total - 1.0) if total > 1 else 0.0
                stage.append(make(setting.input_channels, layer_scale, drop))
                seen += 1
            layers.append(nn.Sequential(*stage))
            if setting.out_channels is not None:
                halve = nn.Conv2d(setting.input_channels, setting.out_channels, 2, 2)
                layers.append(nn.Sequential(norm(setting.input_channels), halve))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        last = block_setting[-1].out_channels or block_setting[-1].input_channels
        self.classifier = nn.Sequential(norm(last), nn.Flatten(1), nn.Linear(last, num_classes))
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))


def _build(width: int, depths: Sequence[int], drop: float, **options: Any) -> ConvNeXt:
    widths = [width << stage for stage in range(4)]
    after = [*widths[1:], None]
    stages = zip(widths, after, depths, strict=True)
    drop = options.pop("stochastic_depth_prob", drop)
    return ConvNeXt([CNBlockConfig(*row) for row in stages], drop, **options)


@network
def convnext_tiny(**options: Any) -> ConvNeXt:
    """ConvNeXt-T: 28,589,128 parameters."""
    return _build(96, (3, 3, 9, 3), 0.1, **options)


@network
def convnext_small(**options: Any) -> ConvNeXt:
    """ConvNeXt-S: 50,223,688 parameters."""
    return _build(96, (3, 3, 27, 3), 0.4, **options)


@network
def convnext_base(**options: Any) -> ConvNeXt:
    """ConvNeXt-B: 88,591,464 parameters."""
    return _build(128, (3, 3, 27, 3), 0.5, **options)


@network
def convnext_large(**options: Any) -> ConvNeXt:
    """ConvNeXt-L: 197,767,336 parameters."""
    return _build(192, (3, 3, 27, 3), 0.5, **options)


__getattr__ = weights_in(__name__)
