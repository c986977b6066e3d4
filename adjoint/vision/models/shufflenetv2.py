"""ShuffleNetV2 (Ma et al., 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import network, weights_in


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Channels dealt out over groups."""
    batch, channels, height, width = x.size()
    parts = x.view(batch, groups, channels // groups, height, width).transpose(1, 2)
    return parts.contiguous().view(batch, channels, height, width)


def _pointwise(fan_in: int, fan_out: int) -> list[nn.Module]:
    conv = nn.Conv2d(fan_in, fan_out, 1, bias=False)
    return [conv, nn.BatchNorm2d(fan_out), nn.ReLU(inplace=True)]


def _depthwise(channels: int, stride: int) -> list[nn.Module]:
    conv = nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False)
    return [conv, nn.BatchNorm2d(channels)]


class InvertedResidual(nn.Module):
    """Half the channels filtered, half kept (all filtered at stride 2), then shuffled."""

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        if not 1 <= stride <= 3:
            raise ValueError("illegal stride value")
        half = oup // 2
        if stride == 1 and inp != half << 1:
            raise ValueError(f"InvertedResidual: at stride 1, {inp} channels cannot become {oup}")
        self.stride = stride
        first = [*_depthwise(inp, stride), *_pointwise(inp, half)] if stride > 1 else []
        self.branch1 = nn.Sequential(*first)
        start = _pointwise(inp if stride > 1 else half, half)
        self.branch2 = nn.Sequential(*start, *_depthwise(half, stride), *_pointwise(half, half))

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            untouched, rest = x.chunk(2, 1)
            return channel_shuffle(cat((untouched, self.branch2(rest)), 1), 2)
        return channel_shuffle(cat((self.branch1(x), self.branch2(x)), 1), 2)


class ShuffleNetV2(nn.Module):
    """Three stages of shuffled blocks: (B, 3, H, W) -> (B, num_classes)."""

    def __init__(
        self,
        stages_repeats: Sequence[int],
        stages_out_channels: Sequence[int],
        num_classes: int = 1000,
        inverted_residual: Any = InvertedResidual,
    ) -> None:
        super().__init__()
        if len(stages_repeats) != 3 or len(stages_out_channels) != 5:
            raise ValueError("expected stages_repeats of 3 and stages_out_channels of 5 ints")
        width, *stages, last = stages_out_channels
        first = nn.Conv2d(3, width, 3, 2, 1, bias=False)
        self.conv1 = nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for number, (count, out) in enumerate(zip(stages_repeats, stages, strict=True), 2):
            blocks = [inverted_residual(width, out, 2)]
            blocks += [inverted_residual(out, out, 1) for _ in range(count - 1)]
            self.add_module(f"stage{number}", nn.Sequential(*blocks))
            width = out
        self.conv5 = nn.Sequential(*_pointwise(width, last))
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(x.mean([2, 3]))


def _shuffle(widths: tuple[int, ...], **options: Any) -> ShuffleNetV2:
    return ShuffleNetV2([4, 8, 4], widths, **options)


@network
def shufflenet_v2_x0_5(**options: Any) -> ShuffleNetV2:
    """ShuffleNetV2 at half width: 1,366,792 parameters."""
    return _shuffle((24, 48, 96, 192, 1024), **options)


@network
def shufflenet_v2_x1_0(**options: Any) -> ShuffleNetV2:
    """ShuffleNetV2: 2,278,604 parameters."""
    return _shuffle((24, 116, 232, 464, 1024), **options)


@network
def shufflenet_v2_x1_5(**options: Any) -> ShuffleNetV2:
    """ShuffleNetV2 at one and a half the width."""
    return _shuffle((24, 176, 352, 704, 1024), **options)


@network
def shufflenet_v2_x2_0(**options: Any) -> ShuffleNetV2:
    """ShuffleNetV2 at double width."""
    return _shuffle((24, 244, 488, 976, 2048), **options)


__getattr__ = weights_in(__name__)
