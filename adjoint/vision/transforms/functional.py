"""Transforms as functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from adjoint.data.transforms import (
    CenterCrop,
    ConvertImageDtype,
    Grayscale,
    Normalize,
    Pad,
    PILToTensor,
    Resize,
    ToTensor,
)
from adjoint.data.transforms.basic import like, to_channels_first
from adjoint.data.transforms.color import grey, shift_hue
from adjoint.data.transforms.geometry import crop as _crop
from adjoint.data.transforms.geometry import rotate as _rotate
from adjoint.data.transforms.geometry import sample
from adjoint.data.transforms.pillow import ADJUST, is_picture, picture, rotate_picture
from adjoint.engine.core.libraries import need
from adjoint.engine.tensor.tensor import Tensor, wrap


class InterpolationMode(Enum):
    """How pixels between pixels are found."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def to_tensor(pic: Any) -> Tensor:
    """See `ToTensor`."""
    return ToTensor()(pic)


def pil_to_tensor(pic: Any) -> Tensor:
    """See `PILToTensor`."""
    return PILToTensor()(pic)


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor (C, H, W) or array (H, W, C) as a PIL image."""
    need("PIL.Image", "to_pil_image")
    if isinstance(pic, Tensor):
        if pic.dtype.is_floating_point:
            pic = pic.mul(255).byte()
        pic = np.asarray(pic.to("cpu").numpy()).transpose(1, 2, 0)
    array = pic[:, :, 0] if pic.ndim == 3 and pic.shape[2] == 1 else pic
    return picture(array, mode)


def convert_image_dtype(image: Tensor, dtype: Any) -> Tensor:
    """See `ConvertImageDtype`."""
    return ConvertImageDtype(dtype)(image)


def normalize(
    tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False
) -> Tensor:
    """See `Normalize`."""
    return Normalize(mean, std, inplace)(tensor)


def resize(
    img: Any, size: Any, interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None, antialias: bool | None = True,
) -> Any:  # fmt: skip
    """See `Resize`."""
    return Resize(size, interpolation, max_size, bool(antialias))(img)


def pad(img: Any, padding: Any, fill: float = 0, padding_mode: str = "constant") -> Any:
    """See `Pad`."""
    return Pad(padding, fill, padding_mode)(img)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A rectangle of the image."""
    return like(img, _crop(to_channels_first(img), top, left, height, width))


def center_crop(img: Any, output_size: Any) -> Any:
    """See `CenterCrop`."""
    return CenterCrop(output_size)(img)


def resized_crop(
    img: Any, top: int, left: int, height: int, width: int, size: Any,
    interpolation: Any = InterpolationMode.BILINEAR, antialias: bool | None = True,
) -> Any:  # fmt: skip
    """A rectangle of the image, resized."""
    part = crop(img, top, left, height, width)
    return resize(part, size, interpolation, None, antialias)


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    return like(img, to_channels_first(img).flip(-1))


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    return like(img, to_channels_first(img).flip(-2))


def rotate(
    img: Any, angle: float, interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False, center: Any = None, fill: Any = 0,
) -> Any:  # fmt: skip
    """The image turned counter-clockwise about its middle, or of a PIL image about a point.

    Args:
        img: the image.
        angle: in degrees.
        interpolation: nearest or bilinear.
        expand: of a PIL image: make room for all of it.
        center: of a PIL image: the point (x, y).
        fill: what pixels from outside become.
    """
    mode = str(getattr(interpolation, "value", interpolation))
    if is_picture(img):
        return rotate_picture(img, angle, mode, _one(fill), expand, center)
    if expand or center is not None:
        raise NotImplementedError("rotate: expand and center are for PIL images only")
    return like(img, _rotate(to_channels_first(img), angle, mode, _one(fill)))


def _one(fill: Any) -> float:
    if fill is None:
        return 0.0
    return float(fill[0] if isinstance(fill, (list, tuple)) else fill)


def affine(
    img: Any, angle: float, translate: Sequence[int], scale: float, shear: Any,
    interpolation: Any = InterpolationMode.NEAREST, fill: Any = None, center: Any = None,
) -> Any:  # fmt: skip
    """The image turned (clockwise), scaled, sheared and shifted about its middle."""
    if center is not None:
        raise NotImplementedError("affine: center is not supported")
    picture = to_channels_first(img)
    shears = (shear, 0.0) if isinstance(shear, (int, float)) else tuple(shear)
    turn, sx, sy = (math.radians(v) for v in (angle, *shears))
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    inverse = np.array([[d, -b], [-c, a]]) / scale
    h, w = picture.shape[-2:]
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    y, x = y - (h - 1) / 2 - translate[1], x - (w - 1) / 2 - translate[0]
    source_x = inverse[0, 0] * x + inverse[0, 1] * y + (w - 1) / 2
    source_y = inverse[1, 0] * x + inverse[1, 1] * y + (h - 1) / 2
    mode = str(getattr(interpolation, "value", interpolation))
    return like(img, sample(picture, source_y, source_x, mode, _one(fill)))


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """See `Grayscale`."""
    return Grayscale(num_output_channels)(img)


to_grayscale = rgb_to_grayscale


def _pixels(img: Any) -> tuple[Any, float, Any]:
    array = to_channels_first(img)._array
    return array.astype(np.float32), 255.0 if array.dtype == np.uint8 else 1.0, array.dtype


def _done(img: Any, pixels: Any, white: float, dtype: Any) -> Any:
    return like(img, wrap(pixels.clip(0, white).astype(dtype)))


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """All pixels times a factor."""
    if is_picture(img):
        return ADJUST["brightness"](img, brightness_factor)
    pixels, white, dtype = _pixels(img)
    return _done(img, pixels * brightness_factor, white, dtype)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Away from, or towards, the mean grey."""
    if is_picture(img):
        return ADJUST["contrast"](img, contrast_factor)
    pixels, white, dtype = _pixels(img)
    mean = grey(pixels).mean((-3, -2, -1), keepdims=True)
    return _done(img, contrast_factor * pixels + (1 - contrast_factor) * mean, white, dtype)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Away from, or towards, grey."""
    if is_picture(img):
        return ADJUST["saturation"](img, saturation_factor)
    pixels, white, dtype = _pixels(img)
    mixed = saturation_factor * pixels + (1 - saturation_factor) * grey(pixels)
    return _done(img, mixed, white, dtype)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Colours turned around the circle."""
    if is_picture(img):
        return ADJUST["hue"](img, hue_factor)
    pixels, white, dtype = _pixels(img)
    return _done(img, shift_hue(pixels / white, hue_factor) * white, white, dtype)


def invert(img: Any) -> Any:
    """Black for white and white for black."""
    pixels, white, dtype = _pixels(img)
    return _done(img, white - pixels, white, dtype)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """The image smoothed by a bell curve."""
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if any(k <= 0 or k % 2 == 0 for k in sizes):
        raise ValueError(f"gaussian_blur: kernel_size should be odd and positive, got {sizes}")
    if sigma is None:
        sigma = [0.15 * k + 0.35 for k in sizes]
    sigmas = [sigma] * 2 if isinstance(sigma, (int, float)) else (list(sigma) * 2)[:2]
    pixels, white, dtype = _pixels(img)
    for axis, (k, s) in zip((-1, -2), zip(sizes, sigmas, strict=True), strict=True):
        places = np.arange(k) - (k - 1) / 2
        weights = np.exp(-0.5 * (places / s) ** 2)
        weights = (weights / weights.sum()).astype(np.float32)
        widths = [(0, 0)] * pixels.ndim
        widths[axis] = (k // 2, k // 2)
        padded = np.pad(pixels, widths, "reflect")
        length = pixels.shape[axis]
        pixels = sum(w * np.take(padded, range(i, i + length), axis) for i, w in enumerate(weights))
    rounded = np.rint(pixels) if white == 255.0 else pixels
    return _done(img, rounded, white, dtype)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Tensor:
    """A rectangle of a tensor replaced by a value."""
    out = img if inplace else img.clone()
    out[..., i : i + h, j : j + w] = v
    return out


def get_image_size(img: Any) -> list[int]:
    """Width and height."""
    shape = to_channels_first(img).shape
    return [int(shape[-1]), int(shape[-2])]


def five_crop(img: Any, size: Any) -> tuple[Any, ...]:
    """The four corners and the middle."""
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    w, h = get_image_size(img)
    if width > w or height > h:
        raise ValueError(f"five_crop: requested size {(height, width)} exceeds image {(h, w)}")
    corners = ((0, 0), (0, w - width), (h - height, 0), (h - height, w - width))
    parts = [crop(img, top, left, height, width) for top, left in corners]
    return (*parts, center_crop(img, (height, width)))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """The four corners and the middle, of the image and of its mirror image."""
    flipped = vflip(img) if vertical_flip else hflip(img)
    return five_crop(img, size) + five_crop(flipped, size)
