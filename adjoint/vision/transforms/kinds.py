"""Which kind of image a transform was given: Pillow's, a tensor (..., C, H, W), or an array."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import Enum
from typing import Any

from adjoint.data.transforms.basic import bound_of as bound_of
from adjoint.data.transforms.basic import like, to_channels_first
from adjoint.data.transforms.basic import value_bits as value_bits
from adjoint.data.transforms.pillow import FILTERS, is_picture
from adjoint.engine.core.dtype import float32
from adjoint.engine.tensor.tensor import Tensor


class InterpolationMode(Enum):
    """How pixels between pixels are found."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def mode_name(interpolation: Any) -> str:
    """The name of an interpolation given as an enum, a name or Pillow's number."""
    value = getattr(interpolation, "value", interpolation)
    names = {number: name for name, number in FILTERS.items() if name != "nearest-exact"}
    name = names.get(value, value) if isinstance(value, int) else value
    if name not in FILTERS:
        raise ValueError(f"interpolation must be one of {list(FILTERS)}, received {value!r}")
    return str(name)


def pillow_filter(interpolation: Any) -> int:
    """Pillow's number of an interpolation."""
    return FILTERS[mode_name(interpolation)]


def by_kind(img: Any, picture: Callable[[Any], Any], tensor: Callable[[Tensor], Tensor]) -> Any:
    """What is made of an image by the function for its kind."""
    if is_picture(img):
        return picture(img)
    if isinstance(img, Tensor):
        if img.ndim < 2:
            raise TypeError(f"expected an image (..., H, W), received shape {tuple(img.shape)}")
        return tensor(img)
    return like(img, tensor(to_channels_first(img)))


def image_ops() -> Any:
    """Pillow's module of operations on whole images."""
    return importlib.import_module("PIL.ImageOps")


def picture_fill(img: Any, fill: Any, name: str = "fillcolor") -> dict[str, Any]:
    """A colour in the form that Pillow takes for this image."""
    bands = len(img.getbands())
    colour: Any = 0 if fill is None else fill
    if isinstance(colour, (int, float)):
        colour = (colour,) * bands if bands > 1 else colour
    else:
        colour = tuple(colour) * bands if len(colour) == 1 else tuple(colour)
        if len(colour) != bands:
            raise ValueError(
                f"The number of elements in 'fill' does not match the number of channels of the "
                f"image ({len(colour)} != {bands})"
            )
        colour = colour[0] if bands == 1 else colour
    if img.mode != "F":
        whole = isinstance(colour, (int, float))
        colour = int(colour) if whole else tuple(int(part) for part in colour)
    return {name: colour}


def as_float(img: Tensor) -> Tensor:
    """The image in the type it is computed in."""
    return img if img.dtype.is_floating_point else img.to(float32)


def back(out: Tensor, like_what: Tensor, rounded: bool = True) -> Tensor:
    """A computed image in the dtype and shape of dimensions before of the one it is made of."""
    if not like_what.dtype.is_floating_point:
        out = (out.round() if rounded else out).to(like_what.dtype)
    return out.reshape(*like_what.shape[:-3], *out.shape[-3:]) if like_what.ndim != 4 else out
