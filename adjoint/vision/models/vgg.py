"""VGG networks, at torchvision's path."""

from __future__ import annotations

from adjoint.models import vgg as plain
from adjoint.models.vgg import VGG as VGG
from adjoint.models.vgg import make_layers as make_layers
from adjoint.vision.models.registry import network, weights_in

vgg11 = network(plain.vgg11)
vgg11_bn = network(plain.vgg11_bn)
vgg13 = network(plain.vgg13)
vgg13_bn = network(plain.vgg13_bn)
vgg16 = network(plain.vgg16)
vgg16_bn = network(plain.vgg16_bn)
vgg19 = network(plain.vgg19)
vgg19_bn = network(plain.vgg19_bn)

__getattr__ = weights_in(__name__)
