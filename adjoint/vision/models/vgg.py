"""VGG networks, at torchvision's path."""

from typing import Any

from adjoint.models.vgg import VGG as VGG
from adjoint.models.vgg import make_layers as make_layers
from adjoint.vision import models as _models


def __getattr__(name: str) -> Any:
    return getattr(_models, name)
