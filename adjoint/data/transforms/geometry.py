"""Transforms of where pixels are: resizing, cropping, flipping, rotating."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.data.transforms import pillow
from adjoint.data.transforms.basic import ImageTransform, extent
from adjoint.data.transforms.draw import chance, integer, uniform
from adjoint.engine.core.numeric_limits import iinfo
from adjoint.engine.ops.image.interpolate import interpolate
from adjoint.engine.tensor.tensor import Tensor, wrap


def pair(size: int | Sequence[int]) -> tuple[int, int]:
    """Height and width: one number is both."""
    if isinstance(size, int):
        return size, size
    if len(size) == 1:
        return size[0], size[0]
    return size[0], size[1]


MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")


def resize(image: Tensor, height: int, width: int, mode: str, antialias: bool) -> Tensor:
    """A tensor image of another size, as `nn.functional.interpolate` makes it."""
    if tuple(image.shape[-2:]) == (height, width):
        return image
    if mode not in MODES:
        raise ValueError(
            f"Resize: interpolation {mode!r} is for PIL images; tensors have {list(MODES)}"
        )
    smooth = mode in ("bilinear", "bicubic")
    batch = image.reshape(-1, 1, *image.shape[-2:])
    work = batch if batch.dtype.is_floating_point else batch.float()
    out = interpolate(
        work,
        (height, width),
        mode=mode,
        align_corners=False if smooth else None,
        antialias=antialias and smooth,
    )
    if not image.dtype.is_floating_point:
        if smooth:
            limits = iinfo(image.dtype)
            out = out.round().clamp(limits.min, limits.max)
        out = out.to(image.dtype)
    return out.reshape(*image.shape[:-2], height, width)


class Resize(ImageTransform):
    """Another size: (H, W), or a number for the shorter side with the ratio of sides kept.

    PIL images and arrays of bytes become what Pillow makes of them, tensors what
    `nn.functional.interpolate` does; their "nearest" pixels differ by half a pixel.

    Args:
        size: the size.
        interpolation: "bilinear", "bicubic", "nearest" or "nearest-exact"; for PIL images also
            "box", "hamming" and "lanczos".
        max_size: the most the longer side may become, where `size` is a number.
        antialias: when shrinking a tensor, average over all pixels that fall on one; images of the
            other kinds always are.

    Example:
        >>> import adjoint as ad
        >>> Resize(4)(ad.zeros(3, 8, 16)).shape
        adjoint.Size([3, 4, 8])
    """

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: str = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
    ) -> None:
        mode = str(getattr(interpolation, "value", interpolation))
        mode = pillow.NAMES.get(mode, mode)
        if mode not in pillow.FILTERS:
            raise ValueError(
                f"Resize: interpolation must be one of {list(pillow.FILTERS)}, received {mode!r}"
            )
        self.size = size
        self.interpolation = mode
        self.max_size = max_size
        self.antialias = antialias

    def change(self, image: Tensor) -> Tensor:
        height, width = self._target(*image.shape[-2:])
        return resize(image, height, width, self.interpolation, self.antialias)

    def change_bytes(self, pixels: Any) -> Any:
        height, width = self._target(*pixels.shape[-2:])
        return pillow.resize_bytes(pixels, height, width, self.interpolation)

    def change_picture(self, image: Any) -> Any:
        height, width = self._target(image.height, image.width)
        return pillow.resize_picture(image, height, width, self.interpolation)

    def _target(self, h: int, w: int) -> tuple[int, int]:
        given = (self.size,) if isinstance(self.size, int) else tuple(self.size)
        if len(given) not in (1, 2):
            raise ValueError(f"Resize: expected one or two sizes, received {self.size}")
        if len(given) == 2:
            if self.max_size is not None:
                raise ValueError("Resize: max_size goes with one size, that of the shorter side")
            return given[0], given[1]
        short = given[0]
        if self.max_size is not None and self.max_size <= short:
            raise ValueError(
                f"max_size = {self.max_size} must be strictly greater than the requested size for "
                f"the smaller edge size = {self.size}"
            )
        long = int(short * max(h, w) / min(h, w))
        if self.max_size is not None and long > self.max_size:
            short, long = int(self.max_size * short / long), self.max_size
        return (short, long) if h <= w else (long, short)


class Pad(ImageTransform):
    """A border around the image.

    Args:
        padding: one number for all sides, two (left and right, top and bottom), or four (left,
            top, right, bottom).
        fill: what the border holds in mode "constant".
        padding_mode: "constant", "edge", "reflect" or "symmetric".
    """

    def __init__(
        self, padding: int | Sequence[int], fill: float = 0, padding_mode: str = "constant"
    ) -> None:
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError(f"Pad: unknown padding_mode {padding_mode!r}")
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def change(self, image: Tensor) -> Tensor:
        given = [self.padding] if isinstance(self.padding, int) else list(self.padding)
        if len(given) not in (1, 2, 4):
            raise ValueError(f"Pad: padding must have 1, 2 or 4 numbers, received {self.padding}")
        left, top, right, bottom = (given * 4)[:4] if len(given) < 4 else given
        array = image._array
        widths = [(0, 0)] * (array.ndim - 2) + [(top, bottom), (left, right)]
        options: Any = {"constant_values": self.fill} if self.padding_mode == "constant" else {}
        return wrap(np.pad(array, widths, self.padding_mode, **options))  # type: ignore[call-overload]


def crop(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A rectangle of the image."""
    return image[..., top : top + height, left : left + width]


class CenterCrop(ImageTransform):
    """The middle of the image, with a border of zeros where the image is smaller.

    Example:
        >>> import adjoint as ad
        >>> CenterCrop(2)(ad.arange(16).reshape(1, 4, 4))
        tensor([[[ 5,  6],
                 [ 9, 10]]])
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = pair(size)

    def change(self, image: Tensor) -> Tensor:
        picture, (height, width) = image, self.size
        h, w = picture.shape[-2:]
        if height > h or width > w:
            dh, dw = max(height - h, 0), max(width - w, 0)
            picture = Pad([dw // 2, dh // 2, (dw + 1) // 2, (dh + 1) // 2])(picture)
            h, w = picture.shape[-2:]
        top, left = round((h - height) / 2.0), round((w - width) / 2.0)
        return crop(picture, top, left, height, width)


class RandomCrop(ImageTransform):
    """A rectangle at a random place.

    Args:
        size: its size.
        padding: a border added before, see `Pad`.
        pad_if_needed: add a border where the image is smaller than the rectangle.
        fill: what the border holds.
        padding_mode: see `Pad`.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float = 0,
        padding_mode: str = "constant",
    ) -> None:
        self.size = pair(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def change(self, image: Tensor) -> Tensor:
        picture, (height, width) = image, self.size
        if self.padding is not None:
            picture = Pad(self.padding, self.fill, self.padding_mode)(picture)
        h, w = picture.shape[-2:]
        if self.pad_if_needed and (h < height or w < width):
            border = [max(width - w, 0), max(height - h, 0)]
            picture = Pad(border, self.fill, self.padding_mode)(picture)
            h, w = picture.shape[-2:]
        return crop(picture, *self.get_params(picture, self.size))

    @staticmethod
    def get_params(img: Any, output_size: Sequence[int]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a rectangle at a random place."""
        (h, w), (height, width) = extent(img), output_size
        if h < height or w < width:
            raise ValueError(
                f"RandomCrop: required crop size {(height, width)} is larger than input image size "
                f"{(h, w)}. Pass padding, or pad_if_needed=True."
            )
        return integer(0, h - height + 1), integer(0, w - width + 1), height, width


class RandomResizedCrop(ImageTransform):
    """A rectangle of random area and ratio of sides, resized.

    Args:
        size: the size of the result.
        scale: bounds of the area, as a part of the image's.
        ratio: bounds of width over height.
        interpolation: see `Resize`.
        antialias: see `Resize`.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
        antialias: bool = True,
    ) -> None:
        self.size = pair(size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation
        self.antialias = antialias

    def change(self, image: Tensor) -> Tensor:
        part = crop(image, *self.get_params(image, self.scale, self.ratio))
        return self._resize().change(part)

    def change_bytes(self, pixels: Any) -> Any:
        h, w = pixels.shape[-2:]
        top, left, height, width = _rectangle(h, w, self.scale, self.ratio)
        return self._resize().change_bytes(pixels[..., top : top + height, left : left + width])

    def change_picture(self, image: Any) -> Any:
        top, left, height, width = self.get_params(image, self.scale, self.ratio)
        return self._resize()(image.crop((left, top, left + width, top + height)))

    def _resize(self) -> Resize:
        return Resize(self.size, self.interpolation, None, self.antialias)

    @staticmethod
    def get_params(
        img: Any, scale: Sequence[float], ratio: Sequence[float]
    ) -> tuple[int, int, int, int]:
        """Top, left, height and width of a rectangle of random area and ratio of sides."""
        return _rectangle(*extent(img), scale, ratio)


def _rectangle(
    h: int, w: int, scale: Sequence[float], ratio: Sequence[float]
) -> tuple[int, int, int, int]:
    narrow, wide = ratio
    for _ in range(10):
        area = h * w * uniform(scale[0], scale[1])
        sides = math.exp(uniform(math.log(narrow), math.log(wide)))
        width, height = round(math.sqrt(area * sides)), round(math.sqrt(area / sides))
        if 0 < width <= w and 0 < height <= h:
            return integer(0, h - height + 1), integer(0, w - width + 1), height, width
    sides = min(max(w / h, narrow), wide)  # the middle, within the bounds
    width, height = min(w, round(h * sides)), min(h, round(w / sides))
    return (h - height) // 2, (w - width) // 2, height, width


class RandomHorizontalFlip(ImageTransform):
    """Left and right exchanged with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def change(self, image: Tensor) -> Tensor:
        return image.flip(-1) if chance(self.p) else image


class RandomVerticalFlip(ImageTransform):
    """Top and bottom exchanged with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def change(self, image: Tensor) -> Tensor:
        return image.flip(-2) if chance(self.p) else image


class RandomRotation(ImageTransform):
    """A rotation about the middle by a random angle, counter-clockwise.

    Args:
        degrees: bounds of the angle, or one number for both directions.
        interpolation: "nearest" or "bilinear".
        fill: what pixels from outside the image become.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: str = "nearest",
        fill: float = 0,
    ) -> None:
        if isinstance(degrees, (int, float)):
            if degrees < 0:
                raise ValueError("RandomRotation: if degrees is one number, it must be positive")
            degrees = (-degrees, degrees)
        self.degrees = (float(degrees[0]), float(degrees[1]))
        self.interpolation = str(getattr(interpolation, "value", interpolation))
        self.fill = fill

    def change(self, image: Tensor) -> Tensor:
        return rotate(image, uniform(*self.degrees), self.interpolation, self.fill)

    def change_picture(self, image: Any) -> Any:
        angle = uniform(*self.degrees)
        return pillow.rotate_picture(image, angle, self.interpolation, self.fill)


def rotate(image: Tensor, angle: float, mode: str, fill: float) -> Tensor:
    """The image turned counter-clockwise about its middle by an angle in degrees."""
    array = image._array
    h, w = array.shape[-2:]
    turn = math.radians(angle)
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    y, x = y - (h - 1) / 2, x - (w - 1) / 2
    source_x = math.cos(turn) * x - math.sin(turn) * y + (w - 1) / 2
    source_y = math.sin(turn) * x + math.cos(turn) * y + (h - 1) / 2
    return sample(image, source_y, source_x, mode, fill)


def sample(image: Tensor, source_y: Any, source_x: Any, mode: str, fill: float) -> Tensor:
    """Pixels at places between pixels, by the nearest one or linear interpolation."""
    array = image._array
    if mode == "nearest":
        return wrap(_pick(array, np.rint(source_y), np.rint(source_x), fill))
    top, left = np.floor(source_y), np.floor(source_x)
    down, right = source_y - top, source_x - left
    out = np.zeros(array.shape, np.float64)
    for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (down if dy else 1 - down) * (right if dx else 1 - right)
        out += weight * _pick(array, top + dy, left + dx, fill).astype(np.float64)
    return wrap((np.rint(out) if array.dtype.kind in "iu" else out).astype(array.dtype))


def _pick(array: Any, y: Any, x: Any, fill: float) -> Any:
    """Pixels at whole places, `fill` outside."""
    h, w = array.shape[-2:]
    inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
    rows = y.clip(0, h - 1).astype(np.int64)
    columns = x.clip(0, w - 1).astype(np.int64)
    return np.where(inside, array[..., rows, columns], np.asarray(fill, array.dtype))
