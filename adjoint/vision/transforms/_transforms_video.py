"""Transforms of clips (C, T, H, W) under torchvision's older names; see `transforms.v2`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from adjoint.data.transforms.geometry import RandomCrop, RandomResizedCrop, pair
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms import _functional_video as F

__all__ = [
    "CenterCropVideo", "NormalizeVideo", "RandomCropVideo", "RandomHorizontalFlipVideo",
    "RandomResizedCropVideo", "ToTensorVideo",
]  # fmt: skip


class RandomCropVideo:
    """A part of each clip, the same in all its pictures."""

    def __init__(self, size: Any) -> None:
        self.size = pair(size)

    def __call__(self, clip: Tensor) -> Tensor:
        return F.crop(clip, *RandomCrop.get_params(clip, self.size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class RandomResizedCropVideo:
    """A part of random size and shape of each clip, resized."""

    def __init__(
        self,
        size: Any,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation_mode: str = "bilinear",
    ) -> None:
        self.size = pair(size)
        self.scale, self.ratio = scale, ratio
        self.interpolation_mode = interpolation_mode

    def __call__(self, clip: Tensor) -> Tensor:
        part = RandomResizedCrop.get_params(clip, list(self.scale), list(self.ratio))
        return F.resized_crop(clip, *part, self.size, self.interpolation_mode)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, interpolation_mode="
            f"{self.interpolation_mode}, scale={self.scale}, ratio={self.ratio})"
        )


class CenterCropVideo:
    """The middle of each clip."""

    def __init__(self, crop_size: Any) -> None:
        self.crop_size = pair(crop_size)

    def __call__(self, clip: Tensor) -> Tensor:
        return F.center_crop(clip, self.crop_size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(crop_size={self.crop_size})"


class NormalizeVideo:
    """Each channel less its mean, over its deviation."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        self.mean, self.std, self.inplace = mean, std, inplace

    def __call__(self, clip: Tensor) -> Tensor:
        return F.normalize(clip, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mean={self.mean}, std={self.std}, inplace={self.inplace})"


class ToTensorVideo:
    """Bytes (T, H, W, C) as numbers from 0 to 1, (C, T, H, W)."""

    def __call__(self, clip: Tensor) -> Tensor:
        return F.to_tensor(clip)

    def __repr__(self) -> str:
        return type(self).__name__


class RandomHorizontalFlipVideo:
    """Clips mirrored left to right, one in so many."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, clip: Tensor) -> Tensor:
        return F.hflip(clip) if random.random() < self.p else clip

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"
