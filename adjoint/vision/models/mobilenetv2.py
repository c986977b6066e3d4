"""MobileNetV2, at torchvision's path."""

from typing import Any

from adjoint.models.mobilenet import InvertedResidual as InvertedResidual
from adjoint.models.mobilenet import MobileNetV2 as MobileNetV2
from adjoint.vision import models as _models


def __getattr__(name: str) -> Any:
    return getattr(_models, name)
