"""Vision transformers, at torchvision's path."""

from typing import Any

from adjoint.models.vit import Encoder as Encoder
from adjoint.models.vit import EncoderBlock as EncoderBlock
from adjoint.models.vit import VisionTransformer as VisionTransformer
from adjoint.vision import models as _models


def __getattr__(name: str) -> Any:
    return getattr(_models, name)
