"""Residual networks, at torchvision's path."""

from typing import Any

from adjoint.models.resnet import BasicBlock as BasicBlock
from adjoint.models.resnet import Bottleneck as Bottleneck
from adjoint.models.resnet import ResNet as ResNet
from adjoint.models.resnet import conv3x3 as conv3x3
from adjoint.vision import models as _models


def __getattr__(name: str) -> Any:
    return getattr(_models, name)
