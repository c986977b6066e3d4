"""Residual networks, at torchvision's path; ResNeXt and wide ones among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.models import resnet as plain
from adjoint.models.resnet import BasicBlock as BasicBlock
from adjoint.models.resnet import Bottleneck as Bottleneck
from adjoint.models.resnet import ResNet as ResNet
from adjoint.models.resnet import conv1x1 as conv1x1
from adjoint.models.resnet import conv3x3 as conv3x3
from adjoint.vision.models.registry import Weights, network, weights_in, with_weights

resnet18 = network(plain.resnet18)
resnet34 = network(plain.resnet34)
resnet50 = network(plain.resnet50)
resnet101 = network(plain.resnet101)
resnet152 = network(plain.resnet152)

# layers, groups, width of a group
PLANS = {
    "resnext50_32x4d": ((3, 4, 6, 3), 32, 4),
    "resnext101_32x8d": ((3, 4, 23, 3), 32, 8),
    "resnext101_64x4d": ((3, 4, 23, 3), 64, 4),
    "wide_resnet50_2": ((3, 4, 6, 3), 1, 128),
    "wide_resnet101_2": ((3, 4, 23, 3), 1, 128),
}


def _resnet(
    block: type[BasicBlock | Bottleneck],
    layers: Sequence[int],
    weights: Weights | None = None,
    progress: bool = True,
    **options: Any,
) -> ResNet:
    """A network of another plan; published weights are read from the hub's folder."""
    return with_weights(ResNet(block, layers, **options), weights)


def _builder(name: str) -> Callable[..., Any]:
    layers, groups, width = PLANS[name]

    def build(**options: Any) -> ResNet:
        given = {"groups": groups, "width_per_group": width, **options}
        return ResNet(Bottleneck, layers, **given)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"`{name}`: bottlenecks of {groups} groups of {width} channels."
    return network(build)


globals().update({name: _builder(name) for name in PLANS})

__getattr__ = weights_in(__name__)
