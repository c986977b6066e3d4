"""S3D (Xie et al., 2018): inception blocks whose filters take space and time apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint import nn
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.misc import Conv3dNormActivation

Norm = Callable[..., nn.Module]


class TemporalSeparableConv(nn.Sequential):
    """A filter over space, then one over time, each normalised."""

    def __init__(
        self, in_planes: int, out_planes: int, kernel_size: int, stride: int, padding: int,
        norm_layer: Norm,
    ) -> None:  # fmt: skip
        size, step, edge = kernel_size, stride, padding
        super().__init__(
            Conv3dNormActivation(
                in_planes, out_planes, (1, size, size), (1, step, step), (0, edge, edge),
                bias=False, norm_layer=norm_layer,
            ),
            Conv3dNormActivation(
                out_planes, out_planes, (size, 1, 1), (step, 1, 1), (edge, 0, 0),
                bias=False, norm_layer=norm_layer,
            ),
        )  # fmt: skip


class SepInceptionBlock3D(nn.Module):
    """Four branches beside each other."""

    def __init__(
        self, in_planes: int, b0_out: int, b1_mid: int, b1_out: int, b2_mid: int, b2_out: int,
        b3_out: int, norm_layer: Norm,
    ) -> None:  # fmt: skip
        super().__init__()
        point = partial(Conv3dNormActivation, kernel_size=1, stride=1, norm_layer=norm_layer)
        self.branch0 = point(in_planes, b0_out)
        self.branch1 = nn.Sequential(
            point(in_planes, b1_mid), TemporalSeparableConv(b1_mid, b1_out, 3, 1, 1, norm_layer)
        )
        self.branch2 = nn.Sequential(
            point(in_planes, b2_mid), TemporalSeparableConv(b2_mid, b2_out, 3, 1, 1, norm_layer)
        )
        self.branch3 = nn.Sequential(nn.MaxPool3d(3, 1, 1), point(in_planes, b3_out))

    def forward(self, x: Tensor) -> Tensor:
        return cat([self.branch0(x), self.branch1(x), self.branch2(x), self.branch3(x)], 1)


class S3D(nn.Module):
    """(B, 3, T, H, W) -> (B, num_classes), of at least 14 frames of 224 by 224.

    Args:
        num_classes: of the answer.
        dropout: how often a feature is left out before it.
        norm_layer: makes the normalisations.
    """

    def __init__(
        self, num_classes: int = 400, dropout: float = 0.2, norm_layer: Norm | None = None
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.BatchNorm3d, eps=0.001, momentum=0.001)

        def halve_space() -> nn.Module:
            return nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))

        self.features = nn.Sequential(
            TemporalSeparableConv(3, 64, 7, 2, 3, norm), halve_space(),
            Conv3dNormActivation(64, 64, 1, 1, norm_layer=norm),
            TemporalSeparableConv(64, 192, 3, 1, 1, norm), halve_space(),
            SepInceptionBlock3D(192, 64, 96, 128, 16, 32, 32, norm),
            SepInceptionBlock3D(256, 128, 128, 192, 32, 96, 64, norm),
            nn.MaxPool3d(3, 2, 1),
            SepInceptionBlock3D(480, 192, 96, 208, 16, 48, 64, norm),
            SepInceptionBlock3D(512, 160, 112, 224, 24, 64, 64, norm),
            SepInceptionBlock3D(512, 128, 128, 256, 24, 64, 64, norm),
            SepInceptionBlock3D(512, 112, 144, 288, 32, 64, 64, norm),
            SepInceptionBlock3D(528, 256, 160, 320, 32, 128, 128, norm),
            nn.MaxPool3d(2, 2, 0),
            SepInceptionBlock3D(832, 256, 160, 320, 32, 128, 128, norm),
            SepInceptionBlock3D(832, 384, 192, 384, 48, 128, 128, norm),
        )  # fmt: skip
        self.avgpool = nn.AvgPool3d((2, 7, 7), 1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Conv3d(1024, num_classes, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x))).mean((2, 3, 4))


@network
def s3d(**options: Any) -> S3D:
    """S3D: 8,320,048 parameters."""
    return S3D(**options)


__getattr__ = weights_in(__name__)
