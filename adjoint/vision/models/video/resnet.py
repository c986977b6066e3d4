"""Residual networks for video (Tran et al., 2018): r3d_18, mc3_18 and r2plus1d_18."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import network, weights_in

Triple = tuple[int, int, int]


class Conv3DSimple(nn.Conv3d):
    """A filter over time and space at once."""

    def __init__(
        self, in_planes: int, out_planes: int, midplanes: int | None = None, stride: int = 1,
        padding: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(in_planes, out_planes, 3, stride, padding, bias=False)

    @staticmethod
    def get_downsample_stride(stride: int) -> Triple:
        """How a shortcut beside this filter steps."""
        return stride, stride, stride


class Conv2Plus1D(nn.Sequential):
    """A filter over space, then one over time."""

    def __init__(
        self, in_planes: int, out_planes: int, midplanes: int, stride: int = 1, padding: int = 1
    ) -> None:
        space = nn.Conv3d(
            in_planes, midplanes, (1, 3, 3), (1, stride, stride), (0, padding, padding), bias=False
        )
        time = nn.Conv3d(
            midplanes, out_planes, (3, 1, 1), (stride, 1, 1), (padding, 0, 0), bias=False
        )
        super().__init__(space, nn.BatchNorm3d(midplanes), nn.ReLU(inplace=True), time)

    get_downsample_stride = staticmethod(Conv3DSimple.get_downsample_stride)


class Conv3DNoTemporal(nn.Conv3d):
    """A filter over space alone, the same at every time."""

    def __init__(
        self, in_planes: int, out_planes: int, midplanes: int | None = None, stride: int = 1,
        padding: int = 1,
    ) -> None:  # fmt: skip
        steps, edges = (1, stride, stride), (0, padding, padding)
        super().__init__(in_planes, out_planes, (1, 3, 3), steps, edges, bias=False)

    @staticmethod
    def get_downsample_stride(stride: int) -> Triple:
        """How a shortcut beside this filter steps."""
        return 1, stride, stride


def _midplanes(inplanes: int, planes: int) -> int:
    """The width that gives filters by parts as many weights as whole ones have."""
    return (inplanes * planes * 27) // (inplanes * 9 + 3 * planes)


class BasicBlock(nn.Module):
    """Two filters beside a shortcut."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        conv_builder: Callable[..., nn.Module],
        stride: int = 1,
        downsample: nn.Module | None = None,
    ) -> None:
        super().__init__()
        middle = _midplanes(inplanes, planes)
        self.conv1 = nn.Sequential(
            conv_builder(inplanes, planes, middle, stride), nn.BatchNorm3d(planes),
            nn.ReLU(inplace=True),
        )  # fmt: skip
        self.conv2 = nn.Sequential(conv_builder(planes, planes, middle), nn.BatchNorm3d(planes))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        beside = x if self.downsample is None else self.downsample(x)
        return self.relu(self.conv2(self.conv1(x)) + beside)


class Bottleneck(nn.Module):
    """A filter between two of single points, beside a shortcut."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        conv_builder: Callable[..., nn.Module],
        stride: int = 1,
        downsample: nn.Module | None = None,
    ) -> None:
        super().__init__()
        middle, wide = _midplanes(inplanes, planes), planes * self.expansion
        self.conv1 = nn.Sequential(
            nn.Conv3d(inplanes, planes, 1, bias=False), nn.BatchNorm3d(planes),
            nn.ReLU(inplace=True),
        )  # fmt: skip
        self.conv2 = nn.Sequential(
            conv_builder(planes, planes, middle, stride), nn.BatchNorm3d(planes),
            nn.ReLU(inplace=True),
        )  # fmt: skip
        self.conv3 = nn.Sequential(nn.Conv3d(planes, wide, 1, bias=False), nn.BatchNorm3d(wide))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        beside = x if self.downsample is None else self.downsample(x)
        return self.relu(self.conv3(self.conv2(self.conv1(x))) + beside)


class BasicStem(nn.Sequential):
    """What comes first: one filter, normalised."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(64),
            nn.ReLU(inplace=True),
        )  # fmt: skip


class R2Plus1dStem(nn.Sequential):
    """What comes first: a filter over space, then one over time."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv3d(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False), nn.BatchNorm3d(45),
            nn.ReLU(inplace=True),
            nn.Conv3d(45, 64, (3, 1, 1), 1, (1, 0, 0), bias=False), nn.BatchNorm3d(64),
            nn.ReLU(inplace=True),
        )  # fmt: skip


class VideoResNet(nn.Module):
    """Four stages of residual blocks: (B, 3, T, H, W) -> (B, num_classes).

    Args:
        block: `BasicBlock` or `Bottleneck`.
        conv_makers: the filters of each stage.
        layers: blocks of each stage.
        stem: makes what comes first.
        num_classes: of the answer.
        zero_init_residual: start with blocks that change nothing.
    """

    def __init__(
        self,
        block: Any,
        conv_makers: Sequence[Any],
        layers: Sequence[int],
        stem: Callable[..., nn.Module],
        num_classes: int = 400,
        zero_init_residual: bool = False,
    ) -> None:
        super().__init__()
        self.inplanes = 64
        self.stem = stem()
        self.layer1 = self._make_layer(block, conv_makers[0], 64, layers[0], 1)
        self.layer2 = self._make_layer(block, conv_makers[1], 128, layers[1], 2)
        self.layer3 = self._make_layer(block, conv_makers[2], 256, layers[2], 2)
        self.layer4 = self._make_layer(block, conv_makers[3], 512, layers[3], 2)
        self.avgpool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, Bottleneck):
                    nn.init.zeros_(module.conv3[1].weight)

    def _make_layer(
        self, block: Any, conv_builder: Any, planes: int, blocks: int, stride: int
    ) -> nn.Sequential:
        wide, downsample = planes * block.expansion, None
        if stride != 1 or self.inplanes != wide:
            steps = conv_builder.get_downsample_stride(stride)
            downsample = nn.Sequential(
                nn.Conv3d(self.inplanes, wide, 1, steps, bias=False), nn.BatchNorm3d(wide)
            )
        first = block(self.inplanes, planes, conv_builder, stride, downsample)
        self.inplanes = wide
        return nn.Sequential(first, *(block(wide, planes, conv_builder) for _ in range(1, blocks)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.fc(self.avgpool(x).flatten(1))


@network
def r3d_18(**options: Any) -> VideoResNet:
    """Filters over time and space everywhere: 33,371,472 parameters."""
    return VideoResNet(BasicBlock, [Conv3DSimple] * 4, [2, 2, 2, 2], BasicStem, **options)


@network
def mc3_18(**options: Any) -> VideoResNet:
    """Filters over time in the first stage alone: 11,695,440 parameters."""
    makers = [Conv3DSimple, *[Conv3DNoTemporal] * 3]
    return VideoResNet(BasicBlock, makers, [2, 2, 2, 2], BasicStem, **options)


@network
def r2plus1d_18(**options: Any) -> VideoResNet:
    """Filters over space, then over time: 31,505,325 parameters."""
    return VideoResNet(BasicBlock, [Conv2Plus1D] * 4, [2, 2, 2, 2], R2Plus1dStem, **options)


__getattr__ = weights_in(__name__)
