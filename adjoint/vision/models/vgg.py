"""VGG networks, at torchvision's path."""

from __future__ import annotations

from typing import Any

from adjoint.models import vgg as plain
from adjoint.models.vgg import VGG as VGG
from adjoint.models.vgg import make_layers as make_layers
from adjoint.vision.models.registry import Weights, network, weights_in, with_weights

vgg11 = network(plain.vgg11)
vgg11_bn = network(plain.vgg11_bn)
vgg13 = network(plain.vgg13)
vgg13_bn = network(plain.vgg13_bn)
vgg16 = network(plain.vgg16)
vgg16_bn = network(plain.vgg16_bn)
vgg19 = network(plain.vgg19)
vgg19_bn = network(plain.vgg19_bn)

# The paper's letters for the plans.
cfgs: dict[str, list[int | str]] = {
    letter: [word if word == "M" else int(word) for word in plain.PLANS[depth].split()]
    for letter, depth in {"A": 11, "B": 13, "D": 16, "E": 19}.items()
}


def _vgg(
    cfg: str,
    batch_norm: bool,
    weights: Weights | None = None,
    progress: bool = True,
    **options: Any,
) -> VGG:
    """The network of a letter; published weights are read from the hub's folder."""
    return with_weights(VGG(make_layers(cfgs[cfg], batch_norm), **options), weights)


__getattr__ = weights_in(__name__)
