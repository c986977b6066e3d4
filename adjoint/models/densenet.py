"""Densely connected networks (Huang et al., 2016), with torchvision's weight names."""

from __future__ import annotations

from collections import OrderedDict

from adjoint import nn
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.utils.checkpoint import checkpoint


class DenseLayer(nn.Module):
    """Two normalised convolutions, 1x1 then 3x3, of all that came before in the block."""

    def __init__(
        self, fan_in: int, growth: int, bottleneck: int, drop_rate: float, memory_efficient: bool
    ) -> None:
        super().__init__()
        width = bottleneck * growth
        self.norm1 = nn.BatchNorm2d(fan_in)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(fan_in, width, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, growth, 3, padding=1, bias=False)
        self.drop_rate = drop_rate
        self.memory_efficient = memory_efficient

    def bn_function(self, inputs: list[Tensor]) -> Tensor:
        """The narrow layer's output."""
        return self.conv1(self.relu1(self.norm1(cat(inputs, 1))))

    def forward(self, input: Tensor | list[Tensor]) -> Tensor:
        before = [input] if isinstance(input, Tensor) else input
        if self.memory_efficient and any(x.requires_grad for x in before):

            def narrow(*xs: Tensor) -> Tensor:
                return self.bn_function(list(xs))

            width = checkpoint(narrow, *before, use_reentrant=False)
        else:
            width = self.bn_function(before)
        new: Tensor = self.conv2(self.relu2(self.norm2(width)))
        if self.drop_rate > 0:
            new = F.dropout(new, self.drop_rate, self.training)
        return new


class DenseBlock(nn.ModuleDict):
    """Layers of which each sees the outputs of all before it."""

    def __init__(
        self,
        num_layers: int,
        num_input_features: int,
        bn_size: int,
        growth_rate: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        for place in range(num_layers):
            fan_in = num_input_features + place * growth_rate
            layer = DenseLayer(fan_in, growth_rate, bn_size, drop_rate, memory_efficient)
            self.add_module(f"denselayer{place + 1}", layer)

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return cat(features, 1)


class Transition(nn.Sequential):
    """Half the pictures' size, and fewer channels."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, 1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)


class DenseNet(nn.Module):
    """Dense blocks with transitions between them.

    Args:
        growth_rate: channels that each layer adds.
        block_config: layers of each block.
        num_init_features: channels of the first convolution.
        bn_size: how many times `growth_rate` the narrow layers have.
        drop_rate: dropout after each layer.
        memory_efficient: compute narrow layers again in backward.

    Shape:
        (B, 3, H, W) -> (B, num_classes)
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, ...] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        stem: list[tuple[str, nn.Module]] = [
            ("conv0", nn.Conv2d(3, num_init_features, 7, stride=2, padding=3, bias=False)),
            ("norm0", nn.BatchNorm2d(num_init_features)),
            ("relu0", nn.ReLU(inplace=True)),
            ("pool0", nn.MaxPool2d(3, stride=2, padding=1)),
        ]
        self.features = nn.Sequential(OrderedDict(stem))
        width = num_init_features
        for place, layers in enumerate(block_config, 1):
            block = DenseBlock(layers, width, bn_size, growth_rate, drop_rate, memory_efficient)
            self.features.add_module(f"denseblock{place}", block)
            width += layers * growth_rate
            if place < len(block_config):
                self.features.add_module(f"transition{place}", Transition(width, width // 2))
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
            elif isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        features = F.relu(self.features(x), inplace=True)
        return self.classifier(F.adaptive_avg_pool2d(features, (1, 1)).flatten(1))


def densenet121(num_classes: int = 1000) -> DenseNet:
    """DenseNet-121: 7,978,856 parameters."""
    return DenseNet(32, (6, 12, 24, 16), 64, num_classes=num_classes)


def densenet161(num_classes: int = 1000) -> DenseNet:
    """DenseNet-161: 28,681,000 parameters."""
    return DenseNet(48, (6, 12, 36, 24), 96, num_classes=num_classes)


def densenet169(num_classes: int = 1000) -> DenseNet:
    """DenseNet-169: 14,149,480 parameters."""
    return DenseNet(32, (6, 12, 32, 32), 64, num_classes=num_classes)


def densenet201(num_classes: int = 1000) -> DenseNet:
    """DenseNet-201: 20,013,928 parameters."""
    return DenseNet(32, (6, 12, 48, 32), 64, num_classes=num_classes)
