"""How images are prepared for published weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import nn
from adjoint.engine.core.dtype import float32
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms import functional as F

_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


def _float_tensor(img: Any) -> Tensor:
    tensor = img if isinstance(img, Tensor) else F.pil_to_tensor(img)
    return F.convert_image_dtype(tensor, float32)


class ImageClassification(nn.Module):
    """Resized, the middle kept, scaled and normalised."""

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: Sequence[float] = _MEAN,
        std: Sequence[float] = _STD,
        interpolation: Any = F.InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Tensor:
        img = F.resize(img, self.resize_size, self.interpolation, None, self.antialias)
        img = F.center_crop(img, self.crop_size)
        return F.normalize(_float_tensor(img), self.mean, self.std)


class ObjectDetection(nn.Module):
    """Scaled to the range from 0 to 1."""

    def forward(self, img: Any) -> Tensor:
        return _float_tensor(img)


class SemanticSegmentation(nn.Module):
    """Resized, scaled and normalised."""

    def __init__(
        self,
        *,
        resize_size: int | None,
        mean: Sequence[float] = _MEAN,
        std: Sequence[float] = _STD,
        interpolation: Any = F.InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.resize_size = None if resize_size is None else [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Tensor:
        if self.resize_size is not None:
            img = F.resize(img, self.resize_size, self.interpolation, None, self.antialias)
        return F.normalize(_float_tensor(img), self.mean, self.std)
