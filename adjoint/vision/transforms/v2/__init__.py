"""torchvision's second transforms: the first ones, and a few under new names."""

from __future__ import annotations

from typing import Any

from adjoint.data.transforms.basic import ConvertImageDtype, Transform, to_channels_first
from adjoint.engine.core.dtype import DType
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms import *  # noqa: F403
from adjoint.vision.transforms.v2 import functional as functional  # type: ignore[no-redef]
from adjoint.vision.transforms.v2.functional import gaussian_noise, grayscale_to_rgb
from adjoint.vision.transforms.v2.mixing import CutMix as CutMix
from adjoint.vision.transforms.v2.mixing import MixUp as MixUp


class ToImage(Transform):
    """A tensor (C, H, W) of an image, elements unchanged."""

    def __call__(self, image: Any) -> Tensor:
        return to_channels_first(image)


class ToDtype(Transform):
    """Another dtype; with `scale`, also the range that goes with it."""

    def __init__(self, dtype: DType, scale: bool = False) -> None:
        self.dtype = dtype
        self.scale = scale

    def __call__(self, image: Tensor) -> Tensor:
        return ConvertImageDtype(self.dtype)(image) if self.scale else image.to(self.dtype)


class ToPureTensor(Transform):
    """The tensor itself."""

    def __call__(self, image: Any) -> Any:
        return image


class Identity(Transform):
    """The image itself."""

    def __call__(self, image: Any) -> Any:
        return image


class RGB(Transform):
    """Three channels of one; what has three stays."""

    def __call__(self, image: Any) -> Any:
        return grayscale_to_rgb(image)


class GaussianNoise(Transform):
    """Noise added to an image of floating-point numbers.

    Args:
        mean, sigma: of the noise.
        clip: keep to the range from 0 to 1.
    """

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        self.mean = mean
        self.sigma = sigma
        self.clip = clip

    def __call__(self, image: Any) -> Any:
        return gaussian_noise(image, self.mean, self.sigma, self.clip)
