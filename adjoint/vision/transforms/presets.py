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


class VideoClassification(nn.Module):
    """Frames (..., T, C, H, W) resized, their middle kept, normalised: (..., C, T, H, W)."""

    def __init__(
        self,
        *,
        crop_size: Sequence[int],
        resize_size: Sequence[int],
        mean: Sequence[float] = (0.43216, 0.394666, 0.37645),
        std: Sequence[float] = (0.22803, 0.22145, 0.216989),
        interpolation: Any = F.InterpolationMode.BILINEAR,
    ) -> None:
        super().__init__()
        self.crop_size, self.resize_size = list(crop_size), list(resize_size)
        self.mean, self.std = list(mean), list(std)
        self.interpolation = interpolation

    def forward(self, vid: Tensor) -> Tensor:
        frames = vid.reshape(-1, *vid.shape[-3:])
        # The published weights were trained on frames resized without smoothing.
        frames = F.resize(frames, self.resize_size, self.interpolation, None, False)
        frames = F.center_crop(frames, self.crop_size)
        frames = F.normalize(F.convert_image_dtype(frames, float32), self.mean, self.std)
        return frames.view(*vid.shape[:-2], *self.crop_size).transpose(-4, -3)


class OpticalFlow(nn.Module):
    """Two images scaled to the range from -1 to 1."""

    def forward(self, img1: Any, img2: Any) -> tuple[Tensor, Tensor]:
        one, two = (
            F.normalize(_float_tensor(img), [0.5] * 3, [0.5] * 3).contiguous()
            for img in (img1, img2)
        )
        return one, two


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
