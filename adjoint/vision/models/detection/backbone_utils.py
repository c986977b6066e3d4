"""Classification networks as backbones with a pyramid."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.models import mobilenetv3, resnet, vgg
from adjoint.vision.models._utils import IntermediateLayerGetter
from adjoint.vision.models.registry import load_backbone
from adjoint.vision.ops.layers import ExtraFPNBlock, FeaturePyramidNetwork, LastLevelMaxPool
from adjoint.vision.ops.misc import FrozenBatchNorm2d

Norm = Callable[..., nn.Module]


class BackboneWithFPN(nn.Module):
    """Layers of a network and a pyramid on their results.

    Args:
        backbone: the network.
        return_layers: the name of a layer -> the name of its level.
        in_channels_list: channels of these layers.
        out_channels: channels of the levels.
        extra_blocks: further levels on top.
        norm_layer: makes the pyramid's normalisations; None for none.
    """

    def __init__(
        self, backbone: nn.Module, return_layers: dict[str, str], in_channels_list: list[int],
        out_channels: int, extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Norm | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.body = IntermediateLayerGetter(backbone, return_layers=return_layers)
        self.fpn = FeaturePyramidNetwork(
            in_channels_list, out_channels, extra_blocks or LastLevelMaxPool(), norm_layer
        )
        self.out_channels = out_channels

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """(B, C, H, W) -> the levels by name, finest first."""
        return self.fpn(self.body(x))


def trunk(name: str, weights: Any, **options: Any) -> Any:
    """A classification network, with its published weights if they are in the hub's folder."""
    homes = (resnet, mobilenetv3, vgg)
    make = next((getattr(home, name) for home in homes if name in vars(home)), None)
    if make is None:
        raise ValueError(f"backbone_name: received {name!r}, wanted a ResNet's or MobileNetV3's")
    network = make(**options)
    if isinstance(weights, str):
        weights = weights.rpartition(".")[2]
    try:
        load_backbone(name, network, weights, name)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"backbone {error} Or start it at random: weights_backbone=None (weights=None of "
            "functions that make a backbone)."
        ) from None
    return network


def resnet_fpn_backbone(
    *, backbone_name: str, weights: Any, norm_layer: Norm = FrozenBatchNorm2d,
    trainable_layers: int = 3, returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
) -> BackboneWithFPN:  # fmt: skip
    """A residual network with a pyramid.

    Args:
        backbone_name: "resnet18" and the like.
        weights: of the network, or None.
        norm_layer: makes its normalisations.
        trainable_layers: how many of its five parts train, counted from the last.
        returned_layers: which of the stages 1 to 4 become levels; all unless given.
        extra_blocks: further levels on top.
    """
    network = trunk(backbone_name, weights, norm_layer=norm_layer)
    return _resnet_fpn_extractor(network, trainable_layers, returned_layers, extra_blocks)


def _resnet_fpn_extractor(
    backbone: Any, trainable_layers: int, returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None, norm_layer: Norm | None = None,
) -> BackboneWithFPN:  # fmt: skip
    if not 0 <= trainable_layers <= 5:
        raise ValueError(f"Trainable layers should be in the range [0,5], got {trainable_layers}")
    stages = returned_layers or [1, 2, 3, 4]
    if min(stages) <= 0 or max(stages) >= 5:
        raise ValueError(f"Each returned layer should be in the range [1,4]. Got {stages}")
    train = ("layer4", "layer3", "layer2", "layer1", "conv1")[:trainable_layers]
    for name, parameter in backbone.named_parameters():
        if not name.startswith((*train, "bn1") if trainable_layers == 5 else train):
            parameter.requires_grad_(False)
    levels = {f"layer{stage}": str(level) for level, stage in enumerate(stages)}
    last = backbone.layer4[-1]
    widest = getattr(last, "conv3", last.conv2).out_channels  # a bottleneck's, or a basic block's
    widths = [widest // 2 ** (4 - stage) for stage in stages]
    return BackboneWithFPN(backbone, levels, widths, 256, extra_blocks, norm_layer)


def _validate_trainable_layers(
    is_trained: bool, trainable_backbone_layers: int | None, max_value: int, default_value: int
) -> int:
    """How many parts of a backbone train: all, unless it was trained before."""
    if not is_trained:
        if trainable_backbone_layers is not None:
            warnings.warn(
                "Changing trainable_backbone_layers has no effect if neither pretrained nor "
                "pretrained_backbone have been set to True, falling back to "
                f"trainable_backbone_layers={max_value} so that all layers are trainable",
                stacklevel=4,
            )
        return max_value
    if trainable_backbone_layers is None:
        return default_value
    if not 0 <= trainable_backbone_layers <= max_value:
        raise ValueError(
            f"Trainable backbone layers should be in the range [0,{max_value}], "
            f"got {trainable_backbone_layers} "
        )
    return trainable_backbone_layers


def mobilenet_backbone(
    *, backbone_name: str, weights: Any, fpn: bool, norm_layer: Norm = FrozenBatchNorm2d,
    trainable_layers: int = 2, returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None,
) -> Any:  # fmt: skip
    """A MobileNetV3, with a pyramid or with one convolution behind it."""
    network = trunk(backbone_name, weights, norm_layer=norm_layer)
    return _mobilenet_extractor(network, fpn, trainable_layers, returned_layers, extra_blocks)


def _mobilenet_extractor(
    backbone: Any, fpn: bool, trainable_layers: int, returned_layers: list[int] | None = None,
    extra_blocks: ExtraFPNBlock | None = None, norm_layer: Norm | None = None,
) -> Any:  # fmt: skip
    layers = backbone.features
    halvings = [i for i, layer in enumerate(layers) if getattr(layer, "_is_cn", False)]
    stages = [0, *halvings, len(layers) - 1]
    count = len(stages)
    if not 0 <= trainable_layers <= count:
        raise ValueError(
            f"Trainable layers should be in the range [0,{count}], got {trainable_layers} "
        )
    for layer in layers[: stages[count - trainable_layers] if trainable_layers else len(layers)]:
        for parameter in layer.parameters():
            parameter.requires_grad_(False)
    if not fpn:
        joined: Any = nn.Sequential(layers, nn.Conv2d(layers[-1].out_channels, 256, 1))
        joined.out_channels = 256
        return joined
    wanted = returned_layers or [count - 2, count - 1]
    if min(wanted) < 0 or max(wanted) >= count:
        raise ValueError(
            f"Each returned layer should be in the range [0,{count - 1}], got {wanted} "
        )
    levels = {str(stages[stage]): str(level) for level, stage in enumerate(wanted)}
    widths = [layers[stages[stage]].out_channels for stage in wanted]
    return BackboneWithFPN(layers, levels, widths, 256, extra_blocks, norm_layer)
