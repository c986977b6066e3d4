"""Residual networks (He et al., 2015), with torchvision's weight names."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor


def conv3x3(fan_in: int, fan_out: int, stride: int = 1) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size at stride 1."""
    return nn.Conv2d(fan_in, fan_out, 3, stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(
        self, fan_in: int, width: int, stride: int = 1, downsample: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.conv1 = conv3x3(fan_in, width, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(width, width)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + shortcut)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    expansion = 4

    def __init__(
        self, fan_in: int, width: int, stride: int = 1, downsample: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(fan_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv3x3(width, width, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + shortcut)


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, average pooling and a linear layer.

    Args:
        block: BasicBlock or Bottleneck.
        layers: number of blocks in each stage.
        num_classes: size of the output.
        width: channels of the first stage.
        channels: channels of the image.

    Shape:
        (B, channels, H, W) -> (B, num_classes)
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        width: int = 64,
        channels: int = 3,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        fan_in = width
        for stage, count in enumerate(layers):
            wide, stride = width << stage, 1 if stage == 0 else 2
            blocks: list[nn.Module] = []
            for index in range(count):
                step = stride if index == 0 else 1
                shortcut = None
                if step != 1 or fan_in != wide * block.expansion:
                    shortcut = nn.Sequential(
                        nn.Conv2d(fan_in, wide * block.expansion, 1, step, bias=False),
                        nn.BatchNorm2d(wide * block.expansion),
                    )
                blocks.append(block(fan_in, wide, step, shortcut))
                fan_in = wide * block.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(fan_in, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18(num_classes: int = 1000) -> ResNet:
    """ResNet-18: 11,689,512 parameters."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes)


def resnet34(num_classes: int = 1000) -> ResNet:
    """ResNet-34: 21,797,672 parameters."""
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes)


def resnet50(num_classes: int = 1000) -> ResNet:
    """ResNet-50: 25,557,032 parameters."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes)


def resnet101(num_classes: int = 1000) -> ResNet:
    """ResNet-101: 44,549,160 parameters."""
    return ResNet(Bottleneck, (3, 4, 23, 3), num_classes)


def resnet152(num_classes: int = 1000) -> ResNet:
    """ResNet-152: 60,192,808 parameters."""
    return ResNet(Bottleneck, (3, 8, 36, 3), num_classes)
