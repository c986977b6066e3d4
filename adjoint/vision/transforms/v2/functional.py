"""Functions of torchvision's second transforms: the first ones, and a few under new names."""

from __future__ import annotations

from typing import Any

from adjoint.data.transforms.basic import ConvertImageDtype, to_channels_first
from adjoint.engine.core.dtype import DType, float32
from adjoint.engine.ops.random.random import randn_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms.functional import *  # noqa: F403
from adjoint.vision.transforms.functional import InterpolationMode as InterpolationMode
from adjoint.vision.transforms.functional import get_image_num_channels, hflip, vflip

horizontal_flip = hflip
vertical_flip = vflip


def to_image(inpt: Any) -> Tensor:
    """A tensor (C, H, W) of an image, elements unchanged."""
    return to_channels_first(inpt)


def to_dtype(inpt: Tensor, dtype: DType = float32, scale: bool = False) -> Tensor:
    """Another dtype; with `scale`, also the range that goes with it."""
    return ConvertImageDtype(dtype)(inpt) if scale else inpt.to(dtype)


def grayscale_to_rgb(inpt: Tensor) -> Tensor:
    """Three channels of one; what has three stays."""
    if inpt.shape[-3] >= 3:
        return inpt
    shape = list(inpt.shape)
    shape[-3] = 3
    return inpt.expand(shape)


def get_size(inpt: Tensor) -> list[int]:
    """Height and width."""
    return [int(n) for n in inpt.shape[-2:]]


def get_num_channels(inpt: Any) -> int:
    """Channels."""
    return get_image_num_channels(inpt)


def gaussian_noise(
    inpt: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True
) -> Tensor:
    """Noise added to an image of floating-point numbers."""
    if not inpt.dtype.is_floating_point:
        raise ValueError(f"Input tensor is expected to be in float dtype, got dtype={inpt.dtype}")
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    noisy = inpt + mean + randn_like(inpt) * sigma
    return noisy.clamp(0, 1) if clip else noisy
