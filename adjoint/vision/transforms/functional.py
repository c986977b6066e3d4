"""Transforms as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.data.transforms import (
    CenterCrop,
    Normalize,
    Pad,
    PILToTensor,
    Resize,
    ToTensor,
)
from adjoint.data.transforms.basic import convert_image_dtype as convert_image_dtype
from adjoint.data.transforms.basic import like, to_channels_first
from adjoint.data.transforms.pillow import FILTERS, grey_picture, is_picture, picture
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.ops.image.pad_modes import pad as pad_tensor
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms.kinds import InterpolationMode as InterpolationMode
from adjoint.vision.transforms.kinds import by_kind, image_ops, mode_name, picture_fill
from adjoint.vision.transforms.tones import adjust_brightness as adjust_brightness
from adjoint.vision.transforms.tones import adjust_contrast as adjust_contrast
from adjoint.vision.transforms.tones import adjust_gamma as adjust_gamma
from adjoint.vision.transforms.tones import adjust_hue as adjust_hue
from adjoint.vision.transforms.tones import adjust_saturation as adjust_saturation
from adjoint.vision.transforms.tones import adjust_sharpness as adjust_sharpness
from adjoint.vision.transforms.tones import autocontrast as autocontrast
from adjoint.vision.transforms.tones import blurred, grey
from adjoint.vision.transforms.tones import equalize as equalize
from adjoint.vision.transforms.tones import invert as invert
from adjoint.vision.transforms.tones import posterize as posterize
from adjoint.vision.transforms.tones import solarize as solarize
from adjoint.vision.transforms.warp import affine as affine
from adjoint.vision.transforms.warp import elastic, inverse_matrix, perspective_coefficients
from adjoint.vision.transforms.warp import perspective as perspective
from adjoint.vision.transforms.warp import rotate as rotate

# torchvision's inner names, which transforms written after its own import.
_is_pil_image = is_picture
_get_inverse_affine_matrix = inverse_matrix
_get_perspective_coeffs = perspective_coefficients
pil_modes_mapping = {mode: FILTERS[mode.value] for mode in InterpolationMode}


def _is_numpy(img: Any) -> bool:
    return isinstance(img, np.ndarray)


def _is_numpy_image(img: Any) -> bool:
    return img.ndim in (2, 3)


def _interpolation_modes_from_int(i: int) -> InterpolationMode:
    return InterpolationMode(mode_name(i))


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


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """See `Pad`."""
    if is_picture(img) and padding_mode == "constant":
        border = padding if isinstance(padding, int) else tuple(padding)
        border = border[0] if isinstance(border, tuple) and len(border) == 1 else border
        return image_ops().expand(img, border, **picture_fill(img, fill, "fill"))
    colours = fill if isinstance(fill, (list, tuple)) else [fill or 0]
    if len(colours) == 1:
        return Pad(padding, colours[0], padding_mode)(img)
    channels = get_image_num_channels(img)
    if len(colours) != channels:
        raise ValueError(f"pad: fill has {len(colours)} numbers for {channels} channels")
    parts = [
        Pad(padding, colour, padding_mode)(part)
        for colour, part in zip(colours, to_channels_first(img).split(1, -3), strict=True)
    ]
    return like(img, cat(parts, -3))


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A rectangle of the image, zeros where it reaches beyond."""
    return by_kind(
        img,
        lambda p: p.crop((left, top, left + width, top + height)),
        lambda t: _cut(t, top, left, height, width),
    )


def _cut(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    h, w = img.shape[-2:]
    part = img[..., max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    beyond = [
        max(min(left + width, 0) - left, 0), max(left + width - max(w, left), 0),
        max(min(top + height, 0) - top, 0), max(top + height - max(h, top), 0),
    ]  # fmt: skip
    return pad_tensor(part, beyond) if any(beyond) else part


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


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The image without colour, in one channel or three equal ones.

    A tensor of one channel keeps it, as in torchvision; the second transforms make three of it.
    """
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")

    def tensor(given: Tensor) -> Tensor:
        shade = grey(given)
        return shade.expand(given.shape) if num_output_channels == 3 else shade

    return by_kind(img, lambda p: grey_picture(p, num_output_channels), tensor)


to_grayscale = rgb_to_grayscale


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """The image smoothed by a bell curve."""
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else (list(kernel_size) * 2)[:2]
    if any(k <= 0 or k % 2 == 0 for k in sizes):
        raise ValueError(f"gaussian_blur: kernel_size should be odd and positive, got {sizes}")
    if sigma is None:
        sigma = [0.15 * k + 0.35 for k in sizes]
    sigmas = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else (list(sigma) * 2)[:2]
    if any(s <= 0 for s in sigmas):
        raise ValueError(f"gaussian_blur: sigma should be positive, got {sigmas}")
    return by_kind(
        img,
        lambda p: to_pil_image(blurred(pil_to_tensor(p), sizes, sigmas), p.mode),
        lambda t: blurred(t, sizes, sigmas),
    )


def elastic_transform(
    img: Any, displacement: Tensor, interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = None,
) -> Any:  # fmt: skip
    """The image bent by displacements (1, H, W, 2), in parts of half its size."""
    return by_kind(
        img,
        lambda p: to_pil_image(
            elastic(pil_to_tensor(p), displacement, interpolation, fill), p.mode
        ),
        lambda t: elastic(t, displacement, interpolation, fill),
    )


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Tensor:
    """A rectangle of a tensor replaced by a value."""
    out = img if inplace else img.clone()
    out[..., i : i + h, j : j + w] = v
    return out


def get_image_size(img: Any) -> list[int]:
    """Width and height."""
    return get_dimensions(img)[:0:-1]


def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width."""
    if is_picture(img):
        return [len(img.getbands()), img.height, img.width]
    tensor = img if isinstance(img, Tensor) else to_channels_first(img)
    return [1 if tensor.ndim == 2 else int(tensor.shape[-3]), *(int(n) for n in tensor.shape[-2:])]


def get_image_num_channels(img: Any) -> int:
    """Channels."""
    return get_dimensions(img)[0]


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
