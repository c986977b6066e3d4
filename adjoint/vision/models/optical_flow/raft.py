"""RAFT (Teed and Deng, 2020): a flow improved step by step from correlations of all pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.ops.create.ranges import linspace
from adjoint.engine.ops.shape.join import cat, meshgrid, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.vision.models.optical_flow._utils import (
    grid_sample,
    make_coords_grid,
    upsample_flow,
)
from adjoint.vision.models.registry import network, weights_in
from adjoint.vision.ops.misc import Conv2dNormActivation

Norm = Callable[..., nn.Module] | None


def _shortcut(into: int, out: int, norm: Norm, stride: int) -> nn.Module:
    return Conv2dNormActivation(
        into, out, 1, stride, norm_layer=norm, bias=True, activation_layer=None
    )


class ResidualBlock(nn.Module):
    """Two filters with biases beside a shortcut: published weights froze the normalisations."""

    def __init__(
        self, in_channels: int, out_channels: int, *, norm_layer: Norm, stride: int = 1,
        always_project: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.convnormrelu1 = Conv2dNormActivation(
            in_channels, out_channels, 3, stride, norm_layer=norm_layer, bias=True
        )
        self.convnormrelu2 = Conv2dNormActivation(
            out_channels, out_channels, 3, norm_layer=norm_layer, bias=True
        )
        plain = stride == 1 and not always_project
        self.downsample = (
            nn.Identity() if plain else _shortcut(in_channels, out_channels, norm_layer, stride)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.downsample(x) + self.convnormrelu2(self.convnormrelu1(x)))


class BottleneckBlock(nn.Module):
    """A filter between two of single points, beside a shortcut."""

    def __init__(
        self, in_channels: int, out_channels: int, *, norm_layer: Norm, stride: int = 1
    ) -> None:
        super().__init__()
        middle = out_channels // 4
        self.convnormrelu1 = Conv2dNormActivation(
            in_channels, middle, 1, norm_layer=norm_layer, bias=True
        )
        self.convnormrelu2 = Conv2dNormActivation(
            middle, middle, 3, stride, norm_layer=norm_layer, bias=True
        )
        self.convnormrelu3 = Conv2dNormActivation(
            middle, out_channels, 1, norm_layer=norm_layer, bias=True
        )
        self.relu = nn.ReLU(inplace=True)
        self.downsample = (
            nn.Identity()
            if stride == 1
            else _shortcut(in_channels, out_channels, norm_layer, stride)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.convnormrelu3(self.convnormrelu2(self.convnormrelu1(x)))
        return self.relu(self.downsample(x) + y)


class FeatureEncoder(nn.Module):
    """Features of an image at an eighth of its size."""

    def __init__(
        self, *, block: Callable[..., nn.Module] = ResidualBlock,
        layers: Sequence[int] = (64, 64, 96, 128, 256), strides: Sequence[int] = (2, 1, 2, 2),
        norm_layer: Norm = nn.BatchNorm2d,
    ) -> None:  # fmt: skip
        super().__init__()
        if len(layers) != 5:
            raise ValueError(f"The expected number of layers is 5, instead got {len(layers)}")
        self.convnormrelu = Conv2dNormActivation(
            3, layers[0], 7, strides[0], norm_layer=norm_layer, bias=True
        )
        for index in (1, 2, 3):
            into, out, stride = layers[index - 1], layers[index], strides[index]
            first = block(into, out, norm_layer=norm_layer, stride=stride)
            second = block(out, out, norm_layer=norm_layer, stride=1)
            setattr(self, f"layer{index}", nn.Sequential(first, second))
        self.conv = nn.Conv2d(layers[3], layers[4], 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.output_dim = layers[-1]
        self.downsample_factor = 2 ** sum(stride == 2 for stride in strides)

    layer1: nn.Module
    layer2: nn.Module
    layer3: nn.Module

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.layer3(self.layer2(self.layer1(self.convnormrelu(x)))))


class MotionEncoder(nn.Module):
    """What a flow and the correlations at its ends say of the motion."""

    def __init__(
        self, *, in_channels_corr: int, corr_layers: Sequence[int] = (256, 192),
        flow_layers: Sequence[int] = (128, 64), out_channels: int = 128,
    ) -> None:  # fmt: skip
        super().__init__()
        if len(flow_layers) != 2:
            raise ValueError(
                f"The expected number of flow_layers is 2, instead got {len(flow_layers)}"
            )
        if len(corr_layers) not in (1, 2):
            raise ValueError(
                f"The number of corr_layers should be 1 or 2, instead got {len(corr_layers)}"
            )
        conv = Conv2dNormActivation
        self.convcorr1 = conv(in_channels_corr, corr_layers[0], 1, norm_layer=None)
        self.convcorr2 = (
            conv(corr_layers[0], corr_layers[1], 3, norm_layer=None)
            if len(corr_layers) == 2
            else nn.Identity()
        )
        self.convflow1 = conv(2, flow_layers[0], 7, norm_layer=None)
        self.convflow2 = conv(flow_layers[0], flow_layers[1], 3, norm_layer=None)
        both = corr_layers[-1] + flow_layers[-1]
        self.conv = conv(both, out_channels - 2, 3, norm_layer=None)  # the flow itself is added
        self.out_channels = out_channels

    def forward(self, flow: Tensor, corr_features: Tensor) -> Tensor:
        seen = self.convcorr2(self.convcorr1(corr_features))
        moved = self.convflow2(self.convflow1(flow))
        return cat([self.conv(cat([seen, moved], 1)), flow], 1)


class ConvGRU(nn.Module):
    """A gated recurrent unit of filters."""

    def __init__(
        self, *, input_size: int, hidden_size: int, kernel_size: Any, padding: Any
    ) -> None:
        super().__init__()
        both = hidden_size + input_size
        self.convz = nn.Conv2d(both, hidden_size, kernel_size, padding=padding)
        self.convr = nn.Conv2d(both, hidden_size, kernel_size, padding=padding)
        self.convq = nn.Conv2d(both, hidden_size, kernel_size, padding=padding)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        both = cat([h, x], 1)
        update, reset = self.convz(both).sigmoid(), self.convr(both).sigmoid()
        new = self.convq(cat([reset * h, x], 1)).tanh()
        return (1 - update) * h + update * new


def _unchanged(h: Tensor, x: Tensor) -> Tensor:
    return h


class RecurrentBlock(nn.Module):
    """One such unit, or two: along rows, then along columns."""

    def __init__(
        self, *, input_size: int, hidden_size: int,
        kernel_size: Sequence[Any] = ((1, 5), (5, 1)), padding: Sequence[Any] = ((0, 2), (2, 0)),
    ) -> None:  # fmt: skip
        super().__init__()
        if len(kernel_size) != len(padding):
            raise ValueError(
                f"kernel_size should have the same length as padding, instead got "
                f"{len(kernel_size)=} and {len(padding)=}"
            )
        if len(kernel_size) not in (1, 2):
            raise ValueError(f"kernel_size should either 1 or 2, instead got {len(kernel_size)}")
        units = [
            ConvGRU(input_size=input_size, hidden_size=hidden_size, kernel_size=size, padding=edge)
            for size, edge in zip(kernel_size, padding, strict=True)
        ]
        self.convgru1 = units[0]
        self.convgru2 = units[1] if len(units) == 2 else _unchanged
        self.hidden_size = hidden_size

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        return self.convgru2(self.convgru1(h, x), x)


class FlowHead(nn.Module):
    """What a hidden state says the flow changes by."""

    def __init__(self, *, in_channels: int, hidden_size: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, hidden_size, 3, padding=1)
        self.conv2 = nn.Conv2d(hidden_size, 2, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.relu(self.conv1(x)))


class UpdateBlock(nn.Module):
    """One step: a new hidden state and what the flow changes by."""

    def __init__(
        self, *, motion_encoder: nn.Module, recurrent_block: RecurrentBlock, flow_head: nn.Module
    ) -> None:
        super().__init__()
        self.motion_encoder = motion_encoder
        self.recurrent_block = recurrent_block
        self.flow_head = flow_head
        self.hidden_state_size = recurrent_block.hidden_size

    def forward(
        self, hidden_state: Tensor, context: Tensor, corr_features: Tensor, flow: Tensor
    ) -> tuple[Tensor, Tensor]:
        motion = self.motion_encoder(flow, corr_features)
        hidden_state = self.recurrent_block(hidden_state, cat([context, motion], 1))
        return hidden_state, self.flow_head(hidden_state)


class MaskPredictor(nn.Module):
    """How each of 8 by 8 finer pixels is weighed from nine neighbours."""

    def __init__(self, *, in_channels: int, hidden_size: int, multiplier: float = 0.25) -> None:
        super().__init__()
        self.convrelu = Conv2dNormActivation(in_channels, hidden_size, 3, norm_layer=None)
        self.conv = nn.Conv2d(hidden_size, 8 * 8 * 9, 1)
        self.multiplier = multiplier  # smaller gradients into this branch

    def forward(self, x: Tensor) -> Tensor:
        return self.multiplier * self.conv(self.convrelu(x))


class CorrBlock(nn.Module):
    """How alike pixels of two images are, at several sizes, read around given places."""

    def __init__(self, *, num_levels: int = 4, radius: int = 4) -> None:
        super().__init__()
        self.num_levels, self.radius = num_levels, radius
        self.corr_pyramid: list[Tensor] = []
        self.out_channels = num_levels * (2 * radius + 1) ** 2

    def build_pyramid(self, fmap1: Tensor, fmap2: Tensor) -> None:
        """Compare all pixels of one map with all of the other."""
        if fmap1.shape != fmap2.shape:
            raise ValueError(
                f"Input feature maps should have the same shape, instead got {fmap1.shape} "
                f"(fmap1.shape) != {fmap2.shape} (fmap2.shape)"
            )
        least = 2 * 2 ** (self.num_levels - 1)  # of the smallest level at least two are read
        if any(size < least for size in fmap1.shape[-2:]):
            raise ValueError(
                "Feature maps are too small to be down-sampled by the correlation pyramid. "
                f"H and W of feature maps should be at least {least}; got: {fmap1.shape[-2:]}. "
                "Remember that input images to the model are downsampled by 8, so that means "
                f"their dimensions should be at least 8 * {least} = {8 * least}."
            )
        batch, channels, height, width = fmap1.shape
        alike = fmap1.flatten(2).transpose(1, 2) @ fmap2.flatten(2) / math.sqrt(channels)
        level = alike.reshape(batch * height * width, 1, height, width)
        self.corr_pyramid = [level]
        for _ in range(self.num_levels - 1):
            level = F.avg_pool2d(level, kernel_size=2, stride=2)
            self.corr_pyramid.append(level)

    def index_pyramid(self, centroids_coords: Tensor) -> Tensor:
        """The comparisons around places (B, 2, H, W) as features."""
        batch, _, height, width = centroids_coords.shape
        steps = linspace(
            -self.radius, self.radius, 2 * self.radius + 1, device=centroids_coords.device
        )
        around = stack(list(meshgrid(steps, steps, indexing="ij")), -1)[None]
        centres = centroids_coords.permute(0, 2, 3, 1).reshape(batch * height * width, 1, 1, 2)
        read = []
        for level in self.corr_pyramid:
            found = grid_sample(level, centres + around, align_corners=True, mode="bilinear")
            read.append(found.view(batch, height, width, -1))
            centres = centres / 2
        return cat(read, -1).permute(0, 3, 1, 2).contiguous()


class RAFT(nn.Module):
    """Two images (B, 3, H, W) -> flows (B, 2, H, W), one a step, each better than the last.

    Args:
        feature_encoder: features of both images, at an eighth of their size.
        context_encoder: of the first image: the hidden state and what goes with it.
        corr_block: compares the features.
        update_block: one step.
        mask_predictor: weighs finer pixels; None to interpolate.
    """

    def __init__(
        self, *, feature_encoder: nn.Module, context_encoder: nn.Module, corr_block: Any,
        update_block: Any, mask_predictor: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.feature_encoder, self.context_encoder = feature_encoder, context_encoder
        self.corr_block, self.update_block = corr_block, update_block
        self.mask_predictor = mask_predictor
        if not hasattr(update_block, "hidden_state_size"):
            raise ValueError(
                "The update_block parameter should expose a 'hidden_state_size' attribute."
            )

    def forward(self, image1: Tensor, image2: Tensor, num_flow_updates: int = 12) -> list[Tensor]:
        batch, _, height, width = image1.shape
        _check_images(image1, image2)
        size = (height // 8, width // 8)
        features = self.feature_encoder(cat([image1, image2], 0))
        one, two = features.chunk(2, dim=0)
        if tuple(one.shape[-2:]) != size:
            raise ValueError("The feature encoder should downsample H and W by 8")
        self.corr_block.build_pyramid(one, two)
        hidden, context = self._context(image1, size)
        start = make_coords_grid(batch, *size, device=one.device)
        places, flows = start, []
        for _ in range(num_flow_updates):
            places = places.detach()  # each step learns by itself
            seen = self.corr_block.index_pyramid(centroids_coords=places)
            hidden, change = self.update_block(hidden, context, seen, places - start)
            places = places + change
            mask = None if self.mask_predictor is None else self.mask_predictor(hidden)
            flows.append(upsample_flow(flow=places - start, up_mask=mask))
        return flows

    def _context(self, image: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """The hidden state at first, and what every step sees."""
        given, kept = self.context_encoder(image), self.update_block.hidden_state_size
        if tuple(given.shape[-2:]) != size:
            raise ValueError("The context encoder should downsample H and W by 8")
        if given.shape[1] <= kept:
            raise ValueError(
                f"The context encoder outputs {given.shape[1]} channels, but it should have at "
                f"strictly more than hidden_state={kept} channels"
            )
        hidden, context = given.split([kept, given.shape[1] - kept], dim=1)
        return hidden.tanh(), F.relu(context)


def _check_images(image1: Tensor, image2: Tensor) -> None:
    height, width = image1.shape[-2:]
    if image1.shape[-2:] != image2.shape[-2:]:
        raise ValueError(
            f"input images should have the same shape, instead got ({height}, {width}) != "
            f"{tuple(image2.shape[-2:])}"
        )
    if height % 8 or width % 8:
        raise ValueError(
            f"input image H and W should be divisible by 8, instead got {height} (h) and "
            f"{width} (w)"
        )


def _build(
    block: Callable[..., nn.Module], features: Sequence[int], context: Sequence[int],
    context_norm: Norm, radius: int, motion: tuple[Sequence[int], Sequence[int], int],
    hidden: int, recurrence: tuple[Sequence[Any], Sequence[Any]], flow_hidden: int,
    weighs: bool, given: dict[str, Any],
) -> RAFT:  # fmt: skip
    """A network of these sizes, with parts of the caller's in place of ours."""
    parts: dict[str, Any] = dict(given)
    parts["feature_encoder"] = parts.get("feature_encoder") or FeatureEncoder(
        block=block, layers=features, norm_layer=nn.InstanceNorm2d
    )
    parts["context_encoder"] = parts.get("context_encoder") or FeatureEncoder(
        block=block, layers=context, norm_layer=context_norm
    )
    parts["corr_block"] = parts.get("corr_block") or CorrBlock(num_levels=4, radius=radius)
    if parts.get("update_block") is None:
        corr_layers, flow_layers, out = motion
        encoder = MotionEncoder(
            in_channels_corr=parts["corr_block"].out_channels, corr_layers=corr_layers,
            flow_layers=flow_layers, out_channels=out,
        )  # fmt: skip
        kernels, edges = recurrence
        recurrent = RecurrentBlock(
            input_size=out + context[-1] - hidden, hidden_size=hidden, kernel_size=kernels,
            padding=edges,
        )  # fmt: skip
        head = FlowHead(in_channels=hidden, hidden_size=flow_hidden)
        parts["update_block"] = UpdateBlock(
            motion_encoder=encoder, recurrent_block=recurrent, flow_head=head
        )
    if parts.get("mask_predictor") is None and weighs:
        parts["mask_predictor"] = MaskPredictor(in_channels=hidden, hidden_size=256)
    return RAFT(**parts)


@network
def raft_large(**parts: Any) -> RAFT:
    """RAFT: 5,257,536 parameters."""
    layers = (64, 64, 96, 128, 256)
    return _build(
        ResidualBlock, layers, layers, nn.BatchNorm2d, 4, ((256, 192), (128, 64), 128), 128,
        (((1, 5), (5, 1)), ((0, 2), (2, 0))), 256, True, parts,
    )  # fmt: skip


@network
def raft_small(**parts: Any) -> RAFT:
    """The small one: 990,162 parameters."""
    return _build(
        BottleneckBlock, (32, 32, 64, 96, 128), (32, 32, 64, 96, 160), None, 3,
        ((96,), (64, 32), 82), 96, ((3,), (1,)), 128, False, parts,
    )  # fmt: skip


__getattr__ = weights_in(__name__)
