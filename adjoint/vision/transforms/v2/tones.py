"""Changes of tone that the second transforms also make of floating-point images."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.dtype import float32, uint8
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms import functional as first
from adjoint.vision.transforms.kinds import bound_of, value_bits


def posterize(image: Any, bits: int) -> Any:
    """So many levels: the highest bits of whole numbers, parts of the range of others."""
    if not isinstance(bits, int) or not 0 <= bits <= 8:
        raise TypeError(f"bits must be a positive integer in the range [0, 8], got {bits} instead.")
    if not isinstance(image, Tensor) or image.dtype is uint8:
        return first.posterize(image, bits)
    if image.dtype.is_floating_point:
        levels = 1 << bits
        return (image * levels).floor().clamp(0, levels - 1) * (1.0 / levels)
    width = value_bits(image)
    return image if bits >= width else image & (((1 << bits) - 1) << (width - bits))


def rgb_to_grayscale(image: Any, num_output_channels: int = 1) -> Any:
    """The image without colour, in one channel or three equal ones."""
    grey = first.rgb_to_grayscale(image, num_output_channels)
    if not isinstance(image, Tensor) or grey.shape[-3] == num_output_channels:
        return grey
    return grey.expand(*grey.shape[:-3], num_output_channels, *grey.shape[-2:])


def autocontrast(image: Any) -> Any:
    """The darkest pixel of each channel black, the lightest white."""
    if not isinstance(image, Tensor):
        return first.autocontrast(image)
    if not image.numel():
        return image
    bound = bound_of(image)
    work = image if image.dtype.is_floating_point else image.to(float32)
    low, high = work.amin((-2, -1), keepdim=True), work.amax((-2, -1), keepdim=True)
    flat = high == low
    scale = ((high - low) * (1.0 / bound)).masked_fill(flat, 1.0)
    return ((work - low.masked_fill(flat, 0.0)) / scale).clamp(0, bound).to(image.dtype)


def equalize(image: Any) -> Any:
    """Each channel so that all brightnesses are equally frequent, told apart as bytes are."""
    if not isinstance(image, Tensor) or image.dtype is uint8:
        return first.equalize(image)
    if image.numel() == 0:
        return image
    even = first.equalize(first.convert_image_dtype(image, uint8))
    return first.convert_image_dtype(even, image.dtype)
