"""MobileNetV2, at torchvision's path."""

from __future__ import annotations

from adjoint.models import mobilenet as plain
from adjoint.models.mobilenet import InvertedResidual as InvertedResidual
from adjoint.models.mobilenet import MobileNetV2 as MobileNetV2
from adjoint.vision.models._utils import _make_divisible as _make_divisible
from adjoint.vision.models.registry import network, weights_in

mobilenet_v2 = network(plain.mobilenet_v2)

__getattr__ = weights_in(__name__)
