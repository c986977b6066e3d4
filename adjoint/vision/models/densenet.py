"""Densely connected networks, at torchvision's path."""

from typing import Any

from adjoint.models.densenet import DenseBlock as _DenseBlock  # noqa: F401
from adjoint.models.densenet import DenseLayer as _DenseLayer  # noqa: F401
from adjoint.models.densenet import DenseNet as DenseNet
from adjoint.models.densenet import Transition as _Transition  # noqa: F401
from adjoint.vision import models as _models


def __getattr__(name: str) -> Any:
    return getattr(_models, name)
