"""Densely connected networks, at torchvision's path."""

from __future__ import annotations

from adjoint.models import densenet as plain
from adjoint.models.densenet import DenseBlock as _DenseBlock  # noqa: F401
from adjoint.models.densenet import DenseLayer as _DenseLayer  # noqa: F401
from adjoint.models.densenet import DenseNet as DenseNet
from adjoint.models.densenet import Transition as _Transition  # noqa: F401
from adjoint.vision.models.registry import network, weights_in

densenet121 = network(plain.densenet121)
densenet161 = network(plain.densenet161)
densenet169 = network(plain.densenet169)
densenet201 = network(plain.densenet201)

__getattr__ = weights_in(__name__)
