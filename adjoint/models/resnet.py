"""Residual networks (He et al., 2015), with torchvision's weight names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor


def conv3x3(
    fan_in: int, fan_out: int, stride: int = 1, groups: int = 1, dilation: int = 1
) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size at stride 1."""
    return nn.Conv2d(fan_in, fan_out, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(fan_in: int, fan_out: int, stride: int = 1) -> nn.Conv2d:
    """A convolution of single pixels."""
    return nn.Conv2d(fan_in, fan_out, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None,
        groups: int = 1, base_width: int = 64, dilation: int = 1,
        norm_layer: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    expansion = 4

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None,
        groups: int = 1, base_width: int = 64, dilation: int = 1,
        norm_layer: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        middle = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, middle)
        self.bn1 = norm_layer(middle)
        self.conv2 = conv3x3(middle, middle, stride, groups, dilation)
        self.bn2 = norm_layer(middle)
        self.conv3 = conv1x1(middle, 4 * planes)
        self.bn3 = norm_layer(4 * planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, average pooling and a linear layer.

    Args:
        block: BasicBlock or Bottleneck.
        layers: number of blocks in each stage.
        num_classes: size of the output.
        width: channels of the first stage.
        channels: channels of the image.
        zero_init_residual: start with blocks that give nothing.
        groups, width_per_group: of the bottlenecks' 3x3 convolutions.
        replace_stride_with_dilation: of the last three stages, whether they keep the size.
        norm_layer: makes the normalisations.

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
        *,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        norm, dilation = norm_layer or nn.BatchNorm2d, 1
        dilated = [False, *(replace_stride_with_dilation or (False, False, False))]
        if len(dilated) != 4:
            raise ValueError(
                "replace_stride_with_dilation should be None or a 3-element tuple, got "
                f"{replace_stride_with_dilation}"
            )
        self.conv1 = nn.Conv2d(channels, width, 7, 2, padding=3, bias=False)
        self.bn1 = norm(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        fan_in = width
        for stage, count in enumerate(layers):
            wide, stride, before = width << stage, 1 if stage == 0 else 2, dilation
            if dilated[stage]:
                dilation, stride = dilation * stride, 1
            blocks: list[nn.Module] = []
            for index in range(count):
                step = stride if index == 0 else 1
                spread = before if index == 0 else dilation
                shortcut = None
                if step != 1 or fan_in != wide * block.expansion:
                    shortcut = nn.Sequential(
                        conv1x1(fan_in, wide * block.expansion, step),
                        norm(wide * block.expansion),
                    )
                blocks.append(
                    block(fan_in, wide, step, shortcut, groups, width_per_group, spread, norm)
                )
                fan_in = wide * block.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(fan_in, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init_residual and isinstance(module, (BasicBlock, Bottleneck)):
                last: Any = module.bn3 if isinstance(module, Bottleneck) else module.bn2
                nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def _without_weights(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options less torchvision's for weights, which are files here and none of this module's."""
    for word in ("weights", "pretrained"):
        if options.pop(word, None):
            raise TypeError(
                f"models.{name}: {word}= is torchvision's, and nothing is downloaded. Read a file: "
                f"model.load_state_dict(adjoint.load(path)); or put torchvision's where "
                f"adjoint.vision.models.{name}({word}=...) looks for it; its error names the file."
            )
    return options


def resnet18(num_classes: int = 1000, **options: Any) -> ResNet:
    """ResNet-18: 11,689,512 parameters."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, **_without_weights("resnet18", options))


def resnet34(num_classes: int = 1000, **options: Any) -> ResNet:
    """ResNet-34: 21,797,672 parameters."""
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes, **_without_weights("resnet34", options))


def resnet50(num_classes: int = 1000, **options: Any) -> ResNet:
    """ResNet-50: 25,557,032 parameters."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes, **_without_weights("resnet50", options))


def resnet101(num_classes: int = 1000, **options: Any) -> ResNet:
    """ResNet-101: 44,549,160 parameters."""
    return ResNet(Bottleneck, (3, 4, 23, 3), num_classes, **_without_weights("resnet101", options))


def resnet152(num_classes: int = 1000, **options: Any) -> ResNet:
    """ResNet-152: 60,192,808 parameters."""
    return ResNet(Bottleneck, (3, 8, 36, 3), num_classes, **_without_weights("resnet152", options))
