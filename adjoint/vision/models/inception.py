"""Inception v3 (Szegedy et al., 2015)."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint import nn
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.googlenet import BasicConv2d, as_if_scaled, spread_weights
from adjoint.vision.models.registry import network, weights_in


class InceptionOutputs(NamedTuple):
    """What the network gives while training: its answer and one from half way."""

    logits: Tensor
    aux_logits: Tensor | None


def _add(module: nn.Module, layers: dict[str, tuple[Any, ...]]) -> None:
    """Convolutions by name: channels in, channels out, kernel, padding, stride."""
    for name, (fan_in, out, kernel, padding, *stride) in layers.items():
        options = {"kernel_size": kernel, "padding": padding, "stride": stride[0] if stride else 1}
        module.add_module(name, BasicConv2d(fan_in, out, **options))


def _chain(module: nn.Module, prefix: str, count: int, x: Tensor) -> Tensor:
    for number in range(1, count + 1):
        x = getattr(module, f"{prefix}_{number}")(x)
    return x


class InceptionA(nn.Module):
    """1x1, 5x5, double 3x3 and pooled branches."""

    def __init__(self, in_channels: int, pool_features: int) -> None:
        super().__init__()
        _add(self, {
            "branch1x1": (in_channels, 64, 1, 0),
            "branch5x5_1": (in_channels, 48, 1, 0), "branch5x5_2": (48, 64, 5, 2),
            "branch3x3dbl_1": (in_channels, 64, 1, 0), "branch3x3dbl_2": (64, 96, 3, 1),
            "branch3x3dbl_3": (96, 96, 3, 1), "branch_pool": (in_channels, pool_features, 1, 0),
        })  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.branch_pool(F.avg_pool2d(x, 3, 1, 1))
        five, three = _chain(self, "branch5x5", 2, x), _chain(self, "branch3x3dbl", 3, x)
        return cat([self.branch1x1(x), five, three, pooled], 1)


class InceptionB(nn.Module):
    """3x3, double 3x3 and pooled branches that halve the size."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        _add(self, {
            "branch3x3": (in_channels, 384, 3, 0, 2),
            "branch3x3dbl_1": (in_channels, 64, 1, 0), "branch3x3dbl_2": (64, 96, 3, 1),
            "branch3x3dbl_3": (96, 96, 3, 0, 2),
        })  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.max_pool2d(x, 3, 2)
        return cat([self.branch3x3(x), _chain(self, "branch3x3dbl", 3, x), pooled], 1)


class InceptionC(nn.Module):
    """1x1, 7x7 and double 7x7 in rows and columns, and pooled branches."""

    def __init__(self, in_channels: int, channels_7x7: int) -> None:
        super().__init__()
        c, row, column = channels_7x7, ((1, 7), (0, 3)), ((7, 1), (3, 0))
        _add(self, {
            "branch1x1": (in_channels, 192, 1, 0),
            "branch7x7_1": (in_channels, c, 1, 0), "branch7x7_2": (c, c, *row),
            "branch7x7_3": (c, 192, *column),
            "branch7x7dbl_1": (in_channels, c, 1, 0), "branch7x7dbl_2": (c, c, *column),
            "branch7x7dbl_3": (c, c, *row), "branch7x7dbl_4": (c, c, *column),
            "branch7x7dbl_5": (c, 192, *row), "branch_pool": (in_channels, 192, 1, 0),
        })  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.branch_pool(F.avg_pool2d(x, 3, 1, 1))
        seven, double = _chain(self, "branch7x7", 3, x), _chain(self, "branch7x7dbl", 5, x)
        return cat([self.branch1x1(x), seven, double, pooled], 1)


class InceptionD(nn.Module):
    """3x3, 7x7 and pooled branches that halve the size."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        _add(self, {
            "branch3x3_1": (in_channels, 192, 1, 0), "branch3x3_2": (192, 320, 3, 0, 2),
            "branch7x7x3_1": (in_channels, 192, 1, 0), "branch7x7x3_2": (192, 192, (1, 7), (0, 3)),
            "branch7x7x3_3": (192, 192, (7, 1), (3, 0)), "branch7x7x3_4": (192, 192, 3, 0, 2),
        })  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.max_pool2d(x, 3, 2)
        return cat([_chain(self, "branch3x3", 2, x), _chain(self, "branch7x7x3", 4, x), pooled], 1)


class InceptionE(nn.Module):
    """Branches that part into rows and columns."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        row, column = ((1, 3), (0, 1)), ((3, 1), (1, 0))
        _add(self, {
            "branch1x1": (in_channels, 320, 1, 0), "branch3x3_1": (in_channels, 384, 1, 0),
            "branch3x3_2a": (384, 384, *row), "branch3x3_2b": (384, 384, *column),
            "branch3x3dbl_1": (in_channels, 448, 1, 0), "branch3x3dbl_2": (448, 384, 3, 1),
            "branch3x3dbl_3a": (384, 384, *row), "branch3x3dbl_3b": (384, 384, *column),
            "branch_pool": (in_channels, 192, 1, 0),
        })  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_1(x)
        double = _chain(self, "branch3x3dbl", 2, x)
        pooled = self.branch_pool(F.avg_pool2d(x, 3, 1, 1))
        parts = [self.branch1x1(x), self.branch3x3_2a(three), self.branch3x3_2b(three)]
        return cat([*parts, self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double), pooled], 1)


class InceptionAux(nn.Module):
    """An answer from half way."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv0 = BasicConv2d(in_channels, 128, kernel_size=1)
        self.conv1 = BasicConv2d(128, 768, kernel_size=5)
        self.conv1.stddev = 0.01
        self.fc = nn.Linear(768, num_classes)
        self.fc.stddev = 0.001

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(self.conv0(F.avg_pool2d(x, 5, 3)))
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


# The trunk in order: convolutions by their widths, pooling, blocks by their arguments.
TRUNK: dict[str, Any] = {
    "Conv2d_1a_3x3": (3, 32, 3, 0, 2), "Conv2d_2a_3x3": (32, 32, 3, 0),
    "Conv2d_2b_3x3": (32, 64, 3, 1), "maxpool1": None, "Conv2d_3b_1x1": (64, 80, 1, 0),
    "Conv2d_4a_3x3": (80, 192, 3, 0), "maxpool2": None,
    "Mixed_5b": (InceptionA, 192, 32), "Mixed_5c": (InceptionA, 256, 64),
    "Mixed_5d": (InceptionA, 288, 64), "Mixed_6a": (InceptionB, 288),
    "Mixed_6b": (InceptionC, 768, 128), "Mixed_6c": (InceptionC, 768, 160),
    "Mixed_6d": (InceptionC, 768, 160), "Mixed_6e": (InceptionC, 768, 192),
    "Mixed_7a": (InceptionD, 768), "Mixed_7b": (InceptionE, 1280), "Mixed_7c": (InceptionE, 2048),
}  # fmt: skip


class Inception3(nn.Module):
    """Inception v3: (B, 3, 299, 299) -> (B, num_classes), with another answer while training."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        inception_blocks: Any = None,
        init_weights: bool | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if inception_blocks is not None:
            raise NotImplementedError("Inception3: inception_blocks is not supported")
        self.aux_logits = aux_logits
        self.transform_input = transform_input
        for name, plan in TRUNK.items():
            if plan is None:
                self.add_module(name, nn.MaxPool2d(3, 2))
            elif isinstance(plan[0], int):
                _add(self, {name: plan})
            else:
                self.add_module(name, plan[0](*plan[1:]))
            if name == "Mixed_6e":
                self.AuxLogits = InceptionAux(768, num_classes) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2048, num_classes)
        if init_weights is not False:
            spread_weights(self)

    def forward(self, x: Tensor) -> Any:
        x = as_if_scaled(x) if self.transform_input else x
        aux = None
        for name in TRUNK:
            x = getattr(self, name)(x)
            if name == "Mixed_6e" and self.AuxLogits is not None and self.training:
                aux = self.AuxLogits(x)
        x = self.fc(self.dropout(self.avgpool(x)).flatten(1))
        return InceptionOutputs(x, aux) if self.training and self.aux_logits else x


@network
def inception_v3(**options: Any) -> Inception3:
    """Inception v3: 27,161,264 parameters."""
    return Inception3(**options)


__getattr__ = weights_in(__name__)
